"""``trainable=head``: the encoder stays frozen, dense heads are trained on its features, many cells a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import torch

from mlflow_l3d.approaches.device_draws import cell_dropout
from mlflow_l3d.approaches.finetuning import training
from mlflow_l3d.approaches.finetuning.head_training import Head, HeadNetwork, logits_of
from mlflow_l3d.approaches.finetuning.kinds import loss_of, outputs, stopping_metric, unit_of
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.session import CourseSession, check_validation
from mlflow_l3d.approaches.finetuning.training import DivergedError, Progress
from mlflow_l3d.approaches.stacked.chunks import cells_at_once
from mlflow_l3d.approaches.stacked.stack import FloatArray, Rows, Stack, initial_head
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

CACHE: Final = 7 * 2**20
"""Bytes that the working set of a chunk may take on a CPU; see :mod:`mlflow_l3d.approaches.stacked.chunks`.

Measured with 384 features, 128 units, 800 training examples and batches of 8, CPU time of a step of a cell on one of
two cores that others used, too, with 1 MiB of second-level cache: 219 us alone, 136 with three others, 131 with five,
138 with seven (the number that this gives is 8), 166 with eleven: they no longer fit, and wait for memory. On an idle
core with 2 MiB more company was better, 71 ms a cell with eleven others and 64 with 23. Company saves what it takes to
start an operation; the arithmetic of AdamW and of the products, two thirds of the rest, it cannot save.
"""
EVALUATED: Final = 2**28
"""Bytes of the rows that are evaluated together on a GPU, at most."""
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
        return Head(cell, split, progress, weights, *unit_of(self.task, split.train))

    def trained(self, courses: Sequence[Head]) -> list[torch.Tensor | DivergedError]:
        """Train heads side by side; those that diverge leave the numbers of the others as they are."""
        parts = [part for head in courses for part in (head.split.train, head.split.validation, head.split.test)]
        self.rows, self.scores = Rows(self.features, parts, self.device), self.task.labels.dtype.kind == "f"
        try:
            with torch.inference_mode():
                for _, members in training.soups(courses, self.recipe):
                    stack = Stack.of([head.weights for head in members], self.device, self.rows.dtype)
                    self.fit(members, HeadNetwork(stack, scores=self.scores))
                return self.tested(courses)
        finally:
            del self.rows

    def epoch(self, courses: Sequence[Head], number: int, weights: HeadNetwork, rates: Sequence[float]) -> list[float]:
        """See :meth:`CourseSession.epoch`."""
        n, recipe, stack, heads = len(courses[0].split.train), self.recipe, weights.stack, courses
        order = np.stack(
            [head.split.train[training.batch_order(head.cell.seeds["data_order"], number, n)] for head in heads]
        )
        places, targets = self.rows.places(order), torch.from_numpy(self.task.labels[order])
        wanted = self._wanted(heads, targets, stack.classes).to(stack.w1)
        masks = None
        if recipe.dropout:
            seeds, shape = [head.cell.seeds["model_randomness"] for head in heads], (n, recipe.hidden_units)
            (masks,) = cell_dropout(seeds, ("head_dropout", str(number)), 1, shape, recipe.dropout, stack.w1)
        memory, logits = self.rows.empty(len(heads) * min(n, recipe.batch_size)), []
        for start, rate in zip(range(0, n, recipe.batch_size), rates, strict=True):
            part = slice(start, start + recipe.batch_size)
            chosen = places[:, part]
            x = self.rows.at(chosen, memory[: chosen.numel()])
            logits.append(weights.differentiate(x, wanted[:, part], None if masks is None else masks[:, part]))
            stack.descend("adamw", rate, recipe.weight_decay)
        whole = self._restored(heads, torch.cat(logits, 1).cpu())
        return [float(loss_of(head, labels)) for head, labels in zip(whole, targets, strict=True)]

    def _wanted(self, heads: Sequence[Head], labels: torch.Tensor, classes: int) -> torch.Tensor:
        """Return what the networks are to give for labels (B, n): one-hot classes (B, n, C), or scores (B, n, 1)."""
        if not self.scores:
            return torch.nn.functional.one_hot(labels, classes)
        units = [(row - head.centre) / head.scale for head, row in zip(heads, labels, strict=True)]
        return torch.stack(units)[..., None]

    def _restored(self, heads: Sequence[Head], outputs: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Return outputs of each cell, scores in float64 and the unit of the labels."""
        if not self.scores:
            return list(outputs)
        return [output.double() * head.scale + head.centre for head, output in zip(heads, outputs, strict=True)]

    def logits(
        self, parts: Sequence[IntArray], courses: Sequence[Head], weights: HeadNetwork | None = None
    ) -> list[torch.Tensor]:
        """See :meth:`CourseSession.logits`."""
        best = [head.best for head in courses]
        return self._restored(courses, self._outputs(parts, [*zip(*weights.tensors, strict=True)] if weights else best))

    def _outputs(self, parts: Sequence[IntArray], weights: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Return what the networks give for a part of the examples of each cell, shape (n, C) each, on the CPU.

        On a CPU one cell after another: a product of many rows gains nothing from company. A GPU would spend its time
        on starting what is small; there parts of unequal size are filled up, and the rest of a row is not looked at.
        """
        if torch.device(self.device).type == "cpu":
            return [
                logits_of(self.rows.at(self.rows.places(positions)), *each)
                for positions, each in zip(parts, weights, strict=True)
            ]
        longest = max(parts, key=len)
        places = self.rows.places(np.stack([np.concatenate([part, longest[len(part) :]]) for part in parts]))
        outputs: list[torch.Tensor] = []
        size = max(1, EVALUATED // max(1, self.rows.empty(len(longest)).nbytes))
        for start in range(0, len(parts), size):
            layers = (torch.stack(layer) for layer in zip(*weights[start : start + size], strict=True))
            outputs += logits_of(self.rows.at(places[start : start + size]), *layers).cpu()
        return [output[: len(part)] for output, part in zip(outputs, parts, strict=True)]


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
