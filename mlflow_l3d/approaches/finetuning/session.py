"""The loop over cells that both ways of training share."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mlflow_l3d.approaches.finetuning.training import Progress, one_thread
from mlflow_l3d.errors import L3DError
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.tasks.base import IntArray, Split, Task

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Trained:
    """What a training leaves: its course, and the class logits of the test examples, shape (n, C), on the CPU."""

    progress: Progress
    logits: torch.Tensor


class CellSession(ABC):
    """Train and evaluate cell after cell; see :class:`mlflow_l3d.approaches.base.Session` for the contract."""

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def train(self, cell: Cell, split: Split) -> Trained:
        """Train on one cell's examples and return the logits of its test examples."""

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train and evaluate the cells one by one, in their order, with one thread each."""
        for cell in cells:
            start = time.perf_counter()
            try:
                with one_thread():
                    outcome = self._outcome(cell)
            except Exception as error:  # noqa: BLE001 - whatever stops a cell must not stop the others
                text = str(error) if isinstance(error, L3DError) else f"{type(error).__name__}: {error}"
                outcome = Outcome(cell.key, error=" ".join(text.split()), traceback=traceback.format_exc())
            yield replace(outcome, duration_seconds=time.perf_counter() - start)

    def _outcome(self, cell: Cell) -> Outcome:
        import torch

        split = self.task.split(cell.seeds)
        trained = self.train(cell, split)
        if not bool(torch.isfinite(trained.logits).all()):
            raise L3DError("the scores of the test examples are nan or inf. Use a lower learning rate.")
        scores = torch.softmax(trained.logits.float(), 1).numpy()
        return Outcome(
            key=cell.key,
            example_ids=self.task.example_ids[split.test],
            labels=self.task.labels[split.test],
            predictions=trained.logits.argmax(1).numpy().astype(np.int64),
            scores=scores,
            metrics=trained.progress.metrics,
            curves=trained.progress.curves,
        )

    def close(self) -> None:
        """Release what the session holds."""
        self.__dict__.clear()


def pieces(order: IntArray, size: int) -> list[IntArray]:
    """Cut an order into batches; the last one may be smaller."""
    return [order[start : start + size] for start in range(0, len(order), size)]
