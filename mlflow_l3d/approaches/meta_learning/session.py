"""Meta-learning of many cells a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.callbacks import should_stop
from mlflow_l3d.approaches.classes import chosen_classes
from mlflow_l3d.approaches.meta_learning.chunk import Draws, train
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.meta_learning.result import outcome_of
from mlflow_l3d.approaches.stacked.chunks import cells_at_once, in_chunks
from mlflow_l3d.approaches.stacked.draws import FloatArray
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.tasks.base import Task


class MetaSession(Session):
    """Train and evaluate cells, a chunk at a time; see :class:`mlflow_l3d.approaches.base.Session` for the contract.

    A cell gives the same predictions alone and in any chunk; its scores agree within 1e-5.

    Parameters
    ----------
    task
        The data.
    features
        Shape (n, D), float32, one row an example; may be memory-mapped.
    recipe
        Complete hyperparameters.
    device
        Where cells are trained.

    Attributes
    ----------
    cells_at_once
        Cells of a chunk.
    reports_epochs
        Cells are adapted after every epoch where someone set `on_epoch_end`.
    """

    reports_epochs = True

    def __init__(self, task: Task, features: FloatArray, recipe: Recipe, device: str) -> None:
        from mlflow_l3d.approaches.meta_learning.learners import learner_of

        self.task, self.features, self.recipe, self.device = task, features, recipe, device
        self.classes = chosen_classes(recipe.classes, task.class_names)
        self.learner = learner_of(recipe)
        inputs, classes, hidden = features.shape[1], len(self.classes), recipe.hidden_units
        examples = classes * (recipe.shots + recipe.queries)
        step = self.learner.bytes_per_cell(inputs, hidden, classes, recipe.tasks, examples)
        evaluated = len(task.split(dict.fromkeys(("data_split", "label_selection"), 0)).test)
        self.cells_at_once = cells_at_once(step, 4.0 * evaluated * (2 * inputs + 2 * hidden), device)

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train and evaluate the cells in their order, with one thread; a chunk's outcomes come together."""
        return in_chunks(cells, self.cells_at_once, self._draw, self._together)

    def _draw(self, cell: Cell) -> Draws:
        return Draws.of(cell, self.task, self.classes, self.recipe, self.features.shape[1])

    def _together(self, drawn: Sequence[Draws]) -> list[tuple[Outcome, float]]:
        tell = None if self.on_epoch_end is None else self._told
        trained = train(drawn, self.learner, self.features, self.recipe, self.device, tell)
        rows = zip(drawn, trained.losses, trained.test, trained.validation, strict=True)
        return [
            (outcome_of(own, losses, test, validation, self.task, self.classes), float(len(losses)))
            for own, losses, test, validation in rows
        ]

    def _told(self, own: Draws, epoch: int, validation: FloatArray) -> bool:
        labels = np.searchsorted(self.classes, self.task.labels[own.validation])
        return should_stop(self.on_epoch_end, own.cell.key, epoch, validation, labels)


def unusable(features: FloatArray, block: int = 8192) -> int:
    """Return how many rows of `features` hold nan or inf; memory stays small however many rows there are."""
    starts = range(0, len(features), block)
    return sum(int((~np.isfinite(features[start : start + block]).all(axis=1)).sum()) for start in starts)
