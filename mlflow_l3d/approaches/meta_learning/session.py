"""Meta-learning of many cells a call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from mlflow_l3d.approaches.classes import chosen_classes
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.finetuning.draws import FloatArray
from mlflow_l3d.approaches.meta_learning.chunk import Draws, train
from mlflow_l3d.approaches.meta_learning.chunks import cells_at_once
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.meta_learning.result import outcome_of
from mlflow_l3d.approaches.threads import one_thread
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.tasks.base import Task


class MetaSession:
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
    """

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
        waiting = iter(cells)
        while chunk := list(islice(waiting, self.cells_at_once)):
            yield from self._chunk(chunk)

    def close(self) -> None:
        """Release what the session holds."""
        self.__dict__.clear()

    def _chunk(self, cells: Sequence[Cell]) -> list[Outcome]:
        """Return the outcomes of one chunk; each is said to take its share of the chunk's wall clock."""
        started = time.perf_counter()
        drawn, outcomes = [], []
        for cell in cells:
            try:
                drawn.append(Draws.of(cell, self.task, self.classes, self.recipe, self.features.shape[1]))
            except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
                outcomes.append(failed(cell.key, error))
        try:
            found = self._together(drawn) if drawn else []
        except Exception as error:  # noqa: BLE001
            if len(drawn) == 1:
                return [*outcomes, failed(drawn[0].cell.key, error, time.perf_counter() - started)]
            found = None
        if found is None:
            # Too little memory, or one cell is to blame: halves fit the one, and find the other. Outside of `except`,
            # which would keep the memory of the first try.
            chosen, middle = [own.cell for own in drawn], len(drawn) // 2
            return [*outcomes, *self._chunk(chosen[:middle]), *self._chunk(chosen[middle:])]
        each = (time.perf_counter() - started) / len(cells)
        return [*outcomes, *(replace(outcome, duration_seconds=each) for outcome in found)]

    def _together(self, drawn: Sequence[Draws]) -> list[Outcome]:
        with one_thread():
            trained = train(drawn, self.learner, self.features, self.recipe, self.device)
        rows = zip(drawn, trained.losses, trained.test, trained.validation, strict=True)
        return [
            outcome_of(own, losses, test, validation, self.task, self.classes) for own, losses, test, validation in rows
        ]


def unusable(features: FloatArray, block: int = 8192) -> int:
    """Return how many rows of `features` hold nan or inf; memory stays small however many rows there are."""
    starts = range(0, len(features), block)
    return sum(int((~np.isfinite(features[start : start + block]).all(axis=1)).sum()) for start in starts)
