"""What all ways of training share in a session, and ``trainable=head``: dense heads on features, many at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import torch

from mlflow_l3d.approaches.base import answered
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.finetuning.head_training import Head, train_heads
from mlflow_l3d.approaches.finetuning.kinds import outputs, stopping_metric, unit_of
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.approaches.finetuning.training import C, DivergedError, Progress, redrawn
from mlflow_l3d.approaches.stacked.chunks import StackedSession, cells_at_once
from mlflow_l3d.approaches.stacked.stack import FloatArray, initial_head
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task


class CourseSession(StackedSession[C]):
    """Cells whose parts are equally large are trained side by side."""

    recipe: Recipe

    @cached_property
    def truncated(self) -> dict[str, float]:
        """The share of the examples with more words than `max_length`, which are surely cut; nothing if it is 0."""
        words = np.sum([[len(text.split()) for text in column] for column in self.task.texts], axis=0)
        share = float(np.mean(words > self.recipe.max_length))
        return {"truncated_share": share} if share else {}

    @abstractmethod
    def trained(self, courses: Sequence[C]) -> Sequence[torch.Tensor | DivergedError]:
        """Train cells; return the logits of the test examples of each, (n, C) on the CPU, or how it diverged."""

    def together(self, drawn: Sequence[C]) -> list[tuple[Outcome, float]]:
        """Return the outcomes; the work of a cell is the number of epochs that it was trained.

        Nobody is called after the epochs of a training that began again.
        """
        outcomes: dict[str, Outcome] = {}
        work = dict.fromkeys((course.cell.key for course in drawn), 0)
        waiting = list(drawn)
        for attempt in range(1 + self.recipe.restarts):
            for course, logits in self._trained_by_size(waiting):
                key, more = course.cell.key, {"restarts": float(attempt)} if self.recipe.restarts else {}
                outcomes[key] = self._outcome(course, logits, more)
                work[key] += len(course.progress.f1) + (course.diverged is not None)
            if attempt < self.recipe.restarts:
                waiting = [self.draw(redrawn(each.cell, "restart")) for each in waiting if each.collapsed(self.task)]
            for course in waiting:
                course.is_heard = False
        return [(outcomes[course.cell.key], work[course.cell.key]) for course in drawn]

    def _trained_by_size(self, courses: Sequence[C]) -> Iterator[tuple[C, torch.Tensor | DivergedError]]:
        """Train cells, and yield each with what comes of it.

        Splits of our own tasks are stratified and equally large; those of a stranger's task need not be.
        """
        for sizes in sorted({course.sizes for course in courses}):
            same = [course for course in courses if course.sizes == sizes]
            yield from zip(same, self.trained(same), strict=True)

    def _outcome(self, own: C, logits: torch.Tensor | DivergedError, more: Mapping[str, float]) -> Outcome:
        """Return the outcome of a cell, without its wall clock.

        Of a regression, whose logits have one column, predictions are float64 and there are no scores.
        """
        if isinstance(logits, DivergedError):
            return failed(own.cell.key, logits)
        if not bool(torch.isfinite(logits).all()):
            why = "the scores of the test examples are nan or inf. Use a lower learning rate."
            return failed(own.cell.key, L3DError(why))
        predictions, scores = logits[:, 0].double().numpy(), None
        if self.task.form.has_classes:
            predictions = logits.argmax(1).numpy().astype(np.int64)
            scores = torch.softmax(logits.float(), 1).numpy()
        course = {"metrics": {**own.progress.metrics, **more, **self.truncated}, "curves": own.progress.curves}
        return answered(own.cell.key, self.task, own.split.test, predictions, scores, **course)


def check_validation(task: Task, recipe: Recipe, *names: str) -> None:
    """Raise if one of some hyperparameters, which need a validation part, is used, and there is none."""
    if len(task.split(dict.fromkeys(TASK_FACTORS, 0)).validation):
        return
    for name in names:
        value = getattr(recipe, name)
        if value not in (0, HYPERPARAMETERS[name].default):
            fix = "Leave it out (the last epoch counts), or hold examples out with validation_fraction."
            raise ParameterError(f"hyperparameters.{name}", value, "needs a validation part, and there is none", fix)


CACHE: Final = 7 * 2**20
"""Bytes that the working set of a chunk may take on a CPU; see :mod:`mlflow_l3d.approaches.stacked.chunks`.

Measured with 384 features, 128 units, 800 training examples and batches of 8, CPU time of a step of a cell on one of
two cores that others used, too, with 1 MiB of second-level cache: 219 us alone, 136 with three others, 131 with five,
138 with seven (the number that this gives is 8), 166 with eleven: they no longer fit, and wait for memory. On an idle
core with 2 MiB more company was better, 71 ms a cell with eleven others and 64 with 23. Company saves what it takes to
start an operation; the arithmetic of AdamW and of the products, two thirds of the rest, it cannot save.
"""
MEMORY: Final = 2**29
"""Bytes that the cells of a chunk may hold on a CPU: with many training examples, dropout factors of a whole epoch."""


class HeadSession(CourseSession[Head]):
    """Cells on the features of one task; see :class:`~mlflow_l3d.approaches.stacked.chunks.StackedSession`.

    Parameters
    ----------
    task, device
        See :class:`~mlflow_l3d.approaches.stacked.chunks.StackedSession`.
    features
        Shape (n, D), float32, one row per example; may be memory-mapped.
    recipe
        Complete hyperparameters.
    """

    def __init__(self, task: Task, features: FloatArray, recipe: Recipe, device: str) -> None:
        super().__init__(task, device)
        check_validation(task, recipe, "restarts")
        self.features, self.recipe = features, recipe
        examples = len(task.split(dict.fromkeys(TASK_FACTORS, 0)).train)
        step, held = bytes_per_cell(features.shape[1], outputs(task), examples, recipe)
        self.cells_at_once = cells_at_once(step, held, device, cache=CACHE, memory=MEMORY)

    def draw(self, cell: Cell) -> Head:
        """Return the head of a cell at its start."""
        inputs, classes = self.features.shape[1], outputs(self.task)
        weights = initial_head(cell.seeds["model_initialisation"], inputs, self.recipe.hidden_units, classes)
        split, progress = self.task.split(cell.seeds), Progress(self.recipe, metric=stopping_metric(self.task))
        centre, scale = unit_of(self.task, split.train)
        return Head(cell, split, progress, weights, centre=centre, scale=scale)

    def trained(self, courses: Sequence[Head]) -> list[torch.Tensor | DivergedError]:
        """Train heads side by side."""
        return train_heads(courses, self.features, self.task.labels, self.recipe, self.device, self.on_epoch_end)


def bytes_per_cell(inputs: int, classes: int, examples: int, recipe: Recipe) -> tuple[float, float]:
    """Return the bytes of float32 that a cell touches in a step, and those that it holds in training.

    Parameters
    ----------
    inputs, classes
        Sizes D and C.
    examples
        Those that it is trained on.
    recipe
        Complete hyperparameters.
    """
    units = recipe.hidden_units
    weights = (inputs + 1) * units + (units + 1) * classes
    step = 4 * weights + min(examples, recipe.batch_size) * (inputs + 1 + 4 * units + 4 * classes)
    masks = examples * units if recipe.dropout else 0
    return 4.0 * step, 4.0 * (step + weights + masks + examples * 3 * classes)
