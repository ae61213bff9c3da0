"""``trainable=head``: the encoder stays frozen, dense heads are trained on its features, many cells a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from mlflow_l3d.approaches.finetuning.head_training import Head, train_heads
from mlflow_l3d.approaches.finetuning.kinds import outputs, stopping_metric, unit_of
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.session import CourseSession, check_validation
from mlflow_l3d.approaches.finetuning.training import DivergedError, Progress
from mlflow_l3d.approaches.stacked.chunks import cells_at_once
from mlflow_l3d.approaches.stacked.stack import FloatArray, initial_head
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.tasks.base import Task

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
