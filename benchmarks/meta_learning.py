"""Meta-learning: our stacked cells beside one cell at a time in plain autograd, with and without the encoder.

Ours are the cells of an investigation through the executor with worker processes, their start included. The baselines
train the same tasks with the loops of the authors' code (`torch.nn`, task by task, `create_graph=True` for MAML), with
all cores; a few meta-steps are measured and the rest of a cell extrapolated. With `--tasks 1` all step after every
task.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _common import ENVIRONMENT, machine, table

FACTORS = ("label_selection", "data_split", "data_order", "sample_choice", "model_initialisation", "model_randomness")
LEARNERS = ("maml", "fomaml", "protonet", "reptile")


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--learners", nargs="+", default=["maml", "protonet"], choices=LEARNERS)
    parser.add_argument("--task", default="rotten_tomatoes")
    parser.add_argument("--cells", type=int, default=100, help="cells of ours")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plain-steps", type=int, default=20, help="measured meta-steps of the plain baseline")
    parser.add_argument("--epochs", type=int, default=0, help="epochs of a cell, 0 for the learner's own")
    parser.add_argument(
        "--tasks", type=int, default=0, help="tasks a meta-step, as many in all; 0 for the learner's own"
    )
    options = parser.parse_args()
    if min(options.cells, options.workers, options.plain_steps) < 1:
        parser.error("--cells, --workers and --plain-steps must be positive")
    os.environ.update(ENVIRONMENT)
    print("# Meta-learning\n")
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="l3d-benchmark-") as cache:
        for learner in options.learners:
            _compare(learner, Path(cache), options)


def _compare(learner: str, cache: Path, options: argparse.Namespace) -> None:
    import torch

    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.meta_learning import MetaLearning
    from mlflow_l3d.execution.base import Job
    from mlflow_l3d.execution.processes import ProcessExecutor
    from mlflow_l3d.tasks.resolve import load_task
    from mlflow_l3d.tasks.settings import SplitSettings
    from mlflow_l3d.testing import one_cell

    approach, task = MetaLearning(), load_task(options.task, settings=SplitSettings())
    given = {"learner": learner} | ({"epochs": options.epochs} if options.epochs else {})
    settings = approach.complete(resolve_hyperparameters(approach, given))
    if options.tasks:
        steps = int(settings["steps"]) * int(settings["tasks"]) // options.tasks
        settings |= {"tasks": options.tasks, "steps": steps}
    model = approach.default_model
    seconds, session = _timed(lambda: approach.prepare(task, settings, model=model, device="cpu", cache=cache))
    cells = [one_cell(FACTORS, number) for number in range(options.cells)]
    executor = ProcessExecutor(job=Job(approach, task, settings, model, "cpu", cache), workers=options.workers)
    wall, outcomes = _timed(lambda: list(executor.run(cells)))
    failed = [outcome.error for outcome in outcomes if outcome.error]
    if failed:
        raise SystemExit(failed[0])
    ours = wall / len(cells)
    training = statistics.fmean(outcome.duration_seconds for outcome in outcomes) / options.workers
    steps = int(settings["epochs"]) * int(settings["steps"])
    plain = _plain(session, cells[0], options.plain_steps) * steps
    encode, step_encode = _encoding(session, cells[0], model)
    print(f"\n## {learner}: {settings['epochs']} epochs of {settings['steps']} steps of {settings['tasks']} tasks\n")
    rows = [
        ["ours, start of the workers included", f"{ours:.3f}", "1.0", ""],
        ["of which training", f"{training:.3f}", f"{training / ours:.2f}", ""],
        ["plain autograd, cached features", f"{plain:.2f}", f"{plain / ours:.0f}", "15 (maml)"],
        ["the same, texts encoded once a cell", f"{plain + encode:.2f}", f"{(plain + encode) / ours:.0f}", "50"],
        [
            "the same, encoder in every meta-step",
            f"{plain + step_encode * steps:.0f}",
            f"{(plain + step_encode * steps) / ours:.0f}",
            "",
        ],
    ]
    print(table(["way", "seconds a cell", "times ours", "goal"], rows))
    print(
        f"\n{len(cells)} cells, {options.workers} workers, {session.cells_at_once} cells a chunk, baselines with "
        f"{torch.get_num_threads()} threads. Features of all texts, once for all cells: {seconds:.0f} s. F1 macro "
        f"{100 * statistics.fmean(outcome.metrics['f1_macro'] for outcome in outcomes):.1f}.",
        flush=True,
    )


def _plain(session: Any, cell: Any, count: int) -> float:
    """Return the seconds of a meta-step of one cell, task by task, on features in memory."""
    import torch

    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "approaches"))
    import meta_learning_published as published

    from mlflow_l3d.approaches.meta_learning.chunk import Draws

    recipe, classes = session.recipe, torch.arange(len(session.classes))
    features = torch.from_numpy(np.array(session.features))
    drawn = Draws.of(cell, session.task, session.classes, recipe, features.shape[1])
    network = published.Network(*drawn.weights)
    counts = recipe.shots, recipe.queries
    labels = [classes.repeat_interleave(number) for number in counts]
    sizes = [len(part) for part in labels]

    def batches(steps: int) -> Iterator[list[published.TrainingTask]]:
        for _ in range(steps):
            sets = [features[own].split(sizes) for own in torch.from_numpy(drawn.episodes.draw(recipe.tasks))]
            yield [tuple(zip(parts, labels, strict=True)) for parts in sets]

    inner = recipe.inner_optimizer, recipe.inner_learning_rate, recipe.inner_steps
    ways = {"after": "batch", "meta": (recipe.meta_optimizer, recipe.meta_learning_rate), "base": inner}
    published.train(recipe.learner, network, batches(1), **ways)
    seconds, _ = _timed(lambda: published.train(recipe.learner, network, batches(count), **ways))
    return seconds / count


def _encoding(session: Any, cell: Any, model: str) -> tuple[float, float]:
    """Return the seconds to encode the labelled and the test texts of a cell, and those of one meta-step."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from mlflow_l3d.approaches.models.references import resolve

    folder, split, recipe = resolve(model).path_or_id, session.task.split(cell.seeds), session.recipe
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder, use_safetensors=True).eval()

    def encode(positions: Sequence[int]) -> None:
        for start in range(0, len(positions), 32):
            texts = [session.task.texts[0][place] for place in positions[start : start + 32]]
            batch = tokenizer(texts, padding=True, truncation=True, max_length=recipe.max_length, return_tensors="pt")
            with torch.inference_mode():
                encoder(**batch)

    used = [*split.train.tolist(), *split.validation.tolist(), *split.test.tolist()]
    encode(used[:32])
    whole, _ = _timed(lambda: encode(used[:512]))
    each = recipe.tasks * len(session.classes) * (recipe.shots + recipe.queries)
    return whole / min(512, len(used)) * len(used), whole / min(512, len(used)) * each


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    sys.exit(main())
