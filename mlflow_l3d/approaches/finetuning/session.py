"""What both ways of training share: the outcome of a training; and the loop over cells that are trained alone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlflow_l3d.approaches.base import CellwiseSession
from mlflow_l3d.approaches.finetuning.kinds import predictions
from mlflow_l3d.approaches.finetuning.training import Progress
from mlflow_l3d.approaches.threads import one_thread
from mlflow_l3d.errors import L3DError
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Trained:
    """What a training leaves: its course, and the logits of the test examples, shape (n, C), on the CPU.

    C counts classes or choices; it is 1 for a regression.
    """

    progress: Progress
    logits: torch.Tensor


def outcome_of(key: str, task: Task, split: Split, trained: Trained) -> Outcome:
    """Return the outcome of the cell with this key, without its wall clock.

    Raises
    ------
    L3DError
        If a logit is not finite.
    """
    import torch

    if not bool(torch.isfinite(trained.logits).all()):
        raise L3DError("the scores of the test examples are nan or inf. Use a lower learning rate.")
    predicted, scores = predictions(task, trained.logits)
    return Outcome(
        key=key,
        example_ids=task.example_ids[split.test],
        labels=task.labels[split.test],
        predictions=predicted,
        scores=scores,
        metrics=trained.progress.metrics,
        curves=trained.progress.curves,
    )


class ModelSession(CellwiseSession):
    """Train and evaluate cell after cell; see :class:`mlflow_l3d.approaches.base.Session` for the contract."""

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def train(self, cell: Cell, split: Split) -> Trained:
        """Train on one cell's examples and return the logits of its test examples."""

    def run_cell(self, cell: Cell) -> Outcome:
        """Train and evaluate a cell, with one thread."""
        with one_thread():
            split = self.task.split(cell.seeds)
            return outcome_of(cell.key, self.task, split, self.train(cell, split))


def pieces(order: IntArray, size: int) -> list[IntArray]:
    """Cut an order into batches; the last one may be smaller."""
    return [order[start : start + size] for start in range(0, len(order), size)]
