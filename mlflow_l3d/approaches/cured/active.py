"""Active instead of random labels: a first training chooses half of the training examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import CellwiseSession, Session
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS, stream, stream_seed
from mlflow_l3d.errors import L3DError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split
from mlflow_l3d.tasks.splits import by_class, divide, merge

MOST_ASKED: Final = 1_000
"""Unlabelled examples that the first training predicts at most."""


@dataclass(frozen=True)
class ChosenTask(Task):
    """A task of which a session decides on some splits: seeds of the task's factors -> split."""

    drawn: Task = field(kw_only=True, repr=False, compare=False)
    chosen: dict[tuple[int, ...], Split] = field(default_factory=dict, compare=False)

    def split(self, seeds: Mapping[str, int]) -> Split:
        """Return the chosen split, or else the drawn one."""
        return self.chosen.get(tuple(seeds[name] for name in TASK_FACTORS)) or self.drawn.split(seeds)


class ActiveSession(CellwiseSession):
    """Trains twice in a session of an approach: with half of the training examples of a cell, and with chosen others.

    The first half is drawn by the seed of ``label_selection``, as many of each class. Trained on it, the approach
    predicts unlabelled examples of the training part, at most :data:`MOST_ASKED`, which the same seed draws. Those of
    :func:`smallest_margins` are labelled in place of the second half; validation and test examples stay. Both trainings
    have the other seeds of the cell and are alone in their call: class scores that differ with the company of a cell
    would choose other examples.

    Parameters
    ----------
    session
        A session of the approach, prepared with `task`.
    task
        The data.
    """

    def __init__(self, session: Session, task: ChosenTask) -> None:
        self.session, self.task = session, task

    def run_cell(self, cell: Cell) -> Outcome:
        """Train with half of the examples, choose the others, and train with both."""
        task, seed = self.task, cell.seeds["label_selection"]
        split = task.split(cell.seeds)
        each = by_class(task.strata[split.train], len(task.strata_names))
        half = np.array([-(-len(places) // 2) for places in each])
        first = split.train[merge(divide(each, half, stream(seed, "active", "first half"))[0])]
        pool, count = task.unlabelled(cell.seeds), len(split.train) - len(first)
        if len(pool) > MOST_ASKED:
            pool = np.sort(stream(seed, "active", "pool").choice(pool, MOST_ASKED, replace=False))
        begun = self._trained(
            replace(cell, seeds={**cell.seeds, "label_selection": stream_seed(seed, "active")}),
            Split(first, split.validation, pool),
        )
        if begun.error is not None:
            return replace(begun, error=f"the training that chooses examples failed: {begun.error}")
        if begun.scores is None:
            raise L3DError("cure.kind=active: the approach returns no class scores. Use vote.")
        assert begun.example_ids is not None
        asked = pool[np.isin(task.example_ids[pool], begun.example_ids)]
        train = np.sort(np.concatenate([first, asked[smallest_margins(begun.scores, count)]]))
        return self._trained(cell, replace(split, train=train))

    def close(self) -> None:
        """Close the inner session."""
        self.session.close()

    def _trained(self, cell: Cell, split: Split) -> Outcome:
        place = tuple(cell.seeds[name] for name in TASK_FACTORS)
        self.task.chosen[place] = split
        try:
            (outcome,) = self.session.run([cell])
        finally:
            del self.task.chosen[place]
        return outcome


def smallest_margins(scores: npt.NDArray[np.float32], count: int) -> IntArray:
    """Return the places of `count` examples whose best two class scores are closest, in turn of each predicted class.

    Parameters
    ----------
    scores
        Shape (n, classes).
    count
        How many, at most n.

    Notes
    -----
    The smallest margin, or "breaking ties", is among the strategies that Schröder et al. (2022, "Revisiting
    uncertainty-based query strategies for active learning with transformers") find to beat the entropy of predictions.
    The turns are the guard for diversity: else a whole batch may lie on one boundary, and random labels, which are
    drawn for each class alike, would have the advantage of their balance.

    Examples
    --------
    >>> import numpy as np
    >>> from mlflow_l3d.approaches.cured.active import smallest_margins
    >>> smallest_margins(np.array([[0.5, 0.5], [0.6, 0.4], [0.9, 0.1], [0.1, 0.9]], dtype=np.float32), 2).tolist()
    [0, 3]
    """
    best = np.sort(scores.astype(np.float64), axis=1)
    margins, predicted = best[:, -1] - best[:, -2], scores.argmax(axis=1)
    order, turns = np.argsort(margins, kind="stable"), np.zeros(len(scores), dtype=np.int64)
    for number in np.unique(predicted):
        closest = order[predicted[order] == number]
        turns[closest] = np.arange(len(closest))
    return np.sort(np.lexsort((margins, turns))[:count])
