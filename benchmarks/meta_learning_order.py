"""Meta-learning: how much the order of examples alone moves the score, under changes towards the authors' code.

Each row holds everything but `data_order`; rows differ in everything. Beside our tasks (pieces of random orders of the
training part): every task a new draw from all examples, and queries from the validation part, as in the authors' code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from _common import machine, table, workplace

PROTONET: Final = {"max_length": 50, "meta_learning_rate": 1e-3}
REPTILE: Final = {
    "learner": "reptile",
    "max_length": 50,
    "meta_learning_rate": 5e-3,
    "inner_learning_rate": 0.4,
}
CASES: Final[Mapping[str, tuple[Mapping[str, object], str]]] = {
    "protonet, authors' rate, steps on means": (PROTONET, "ours"),
    "the same at 32 times the rate": ({**PROTONET, "meta_learning_rate": 0.032}, "ours"),
    "protonet, paper": ({**PROTONET, "tasks": 1, "steps": 1024}, "ours"),
    "paper, a new draw for each task": ({**PROTONET, "tasks": 1, "steps": 1024}, "new"),
    "paper, and queries from the validation part": ({**PROTONET, "tasks": 1, "steps": 1024}, "validation"),
    "paper at 10 times the rate": ({**PROTONET, "tasks": 1, "steps": 1024, "meta_learning_rate": 0.01}, "ours"),
    "paper at 100 times the rate": ({**PROTONET, "tasks": 1, "steps": 1024, "meta_learning_rate": 0.1}, "ours"),
    "reptile, authors' rates, steps on means": (REPTILE, "ours"),
    "the same at 10 times the meta-rate": ({**REPTILE, "meta_learning_rate": 0.05}, "ours"),
    "reptile, paper": ({**REPTILE, "tasks": 1, "steps": 620}, "ours"),
    "reptile, paper, a new draw for each task": ({**REPTILE, "tasks": 1, "steps": 620}, "new"),
    "maml, paper": ({"learner": "maml", "max_length": 50}, "ours"),
}


@dataclass
class NewDraws:
    """Tasks that are each drawn again, in place of :class:`mlflow_l3d.approaches.shots.Episodes`."""

    generator: np.random.Generator
    support: Sequence[np.ndarray]
    query: Sequence[np.ndarray] | None
    shots: int
    queries: int

    def draw(self, count: int) -> np.ndarray:
        """Return the next tasks, as `Episodes` does."""
        return np.stack([self._task() for _ in range(count)])

    def _task(self) -> np.ndarray:
        most = self.shots + (self.queries if self.query is None else 0)
        drawn = [self.generator.permutation(own)[:most] for own in self.support]
        rest = [own[self.shots :] for own in drawn]
        if self.query is not None:
            rest = [self.generator.permutation(own)[: self.queries] for own in self.query]
        return np.concatenate([*(own[: self.shots] for own in drawn), *rest])


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--rows", type=int, default=6)
    parser.add_argument("--orders", type=int, default=6, help="of each row")
    parser.add_argument("--cases", default="", help="only those whose name holds this")
    options = parser.parse_args()
    print("# Meta-learning: data order\n")
    print(machine(), flush=True)
    with workplace() as place:
        os.environ.update(place.environment, L3D_CACHE=str(place.folder))
        rows = [[name, *_case(*case, options)] for name, case in CASES.items() if options.cases in name]
    print(f"\n{options.rows} rows of {options.orders} orders.\n")
    print(table(["way", "F1 macro", "worst", "standard deviation by order, points"], rows))


def _case(given: Mapping[str, object], draws: str, options: argparse.Namespace) -> list[str]:
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.meta_learning import MetaLearning
    from mlflow_l3d.approaches.meta_learning.session import MetaSession
    from mlflow_l3d.metrics.classification import f1_macro
    from mlflow_l3d.paths import cache_folder
    from mlflow_l3d.tasks.resolve import load_task
    from mlflow_l3d.tasks.settings import SplitSettings
    from mlflow_l3d.testing import one_cell

    class Session(MetaSession):
        """Cells whose tasks are drawn in another way."""

        def draw(self, cell: Any) -> Any:
            """Return what the factors decide, but for the tasks."""
            own = super().draw(cell)
            if draws == "ours":
                return own
            labels, parts = self.task.labels, (own.split.train, own.split.validation)
            support, query = ([part[labels[part] == number] for number in self.classes] for part in parts)
            seed = np.random.default_rng(cell.seeds["data_order"])
            queries = query if draws == "validation" else None
            recipe = self.recipe
            return replace(own, episodes=NewDraws(seed, support, queries, recipe.shots, recipe.queries))

    approach, task = MetaLearning(), load_task(options.task, settings=SplitSettings())
    settings = approach.complete(resolve_hyperparameters(approach, given))
    plain = approach.prepare(task, settings, model=approach.default_model, device="cpu", cache=cache_folder())
    session = Session(task, plain.features, plain.recipe, "cpu")
    cells = []
    for row in range(options.rows):
        held = one_cell(approach.factors, row)
        for order in range(options.orders):
            seed = one_cell(approach.factors, 1000 + row * options.orders + order).seeds["data_order"]
            cells.append(replace(held, seeds={**held.seeds, "data_order": seed}, key=f"{row} {order}"))
    scores = [100 * f1_macro(own.labels, own.predictions, len(task.class_names)) for own in session.run(cells)]
    found = np.reshape(scores, (options.rows, options.orders))
    spread = np.sqrt(found.var(axis=1, ddof=1).mean())
    return [f"{found.mean():.1f}", f"{found.min():.1f}", f"{spread:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
