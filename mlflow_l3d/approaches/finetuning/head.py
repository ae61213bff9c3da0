"""``trainable=head``: the encoder stays frozen, dense heads are trained on its features, many cells a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.chunks import cells_at_once
from mlflow_l3d.approaches.device_draws import cell_dropout
from mlflow_l3d.approaches.finetuning import training
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.session import CourseSession, RowWeights, loss_of, outputs, unit_of
from mlflow_l3d.approaches.finetuning.training import Course, DivergedError
from mlflow_l3d.approaches.stack import FloatArray, Rows, Stack, initial_head
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray


class HeadNetwork(RowWeights):
    """Dense layer, ReLU, dropout, output layer; cross-entropy of classes, or the squared error of scores.

    Cells never meet in an operation: one that diverges leaves the numbers of the others as they are.

    Parameters
    ----------
    stack
        Weights of the B cells.
    scores
        Whether the one output is a score.
    """

    def __init__(self, stack: Stack, *, scores: bool = False) -> None:
        super().__init__((stack.w1, stack.w2))
        self.scores = scores
        self._hold(stack)

    def _hold(self, stack: Stack) -> None:
        self.stack = stack
        self.tensors = (stack.w1, stack.w2)
        self._inner = stack.w2[:, :-1].transpose(1, 2)
        self._buffers: dict[int, tuple[torch.Tensor, ...]] = {}

    def select(self, places: npt.NDArray[np.intp]) -> None:
        """Go on with some of the cells, in their order."""
        super().select(places)
        self._hold(self.stack.select(places))

    def differentiate(self, x: torch.Tensor, wanted: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Put the gradient of a batch's mean loss into the stack; return the logits, shape (B, b, C).

        Parameters
        ----------
        x
            Shape (B, b, D + 1): b examples of each cell, the last column 1.
        wanted
            Shape (B, b, C): one-hot classes, or scores.
        mask
            Shape (B, b, H): the factors of dropout; None: no dropout.
        """
        stack, examples = self.stack, x.shape[1]
        if examples not in self._buffers:
            self._buffers[examples] = self._empty(examples)
        rows, hidden, rows_t, active, back = self._buffers[examples]
        torch.bmm(x, stack.w1, out=active)
        active.clamp_min_(0)
        if mask is None:
            hidden.copy_(active)
        else:
            torch.mul(active, mask, out=hidden)
        if self.scores:
            # A batched product with one column is rounded in another way for one cell than for several.
            logits = (rows * stack.w2.transpose(1, 2)).sum(2, keepdim=True)
            error = logits.sub(wanted).mul_(2)
        else:
            logits = torch.bmm(rows, stack.w2)
            error = torch.softmax(logits, 2).sub_(wanted)
        error.div_(examples)
        torch.bmm(rows_t, error, out=stack.g2)
        torch.bmm(error, self._inner, out=back)
        back.mul_(active.sign_())  # 1 if the unit was active, else 0
        if mask is not None:
            back.mul_(mask)
        torch.bmm(x.transpose(1, 2), back, out=stack.g1)
        return logits

    def _empty(self, examples: int) -> tuple[torch.Tensor, ...]:
        """Return memory for batches of a size: hidden rows with a constant 1, parts of them, activations, errors."""
        w1, units = self.stack.w1, self.stack.w1.shape[2]
        rows = w1.new_ones(len(w1), examples, units + 1)
        active, back = (w1.new_empty(len(w1), examples, units) for _ in range(2))
        return rows, rows[:, :, :-1], rows.transpose(1, 2), active, back


def logits_of(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Return the logits, shape (n, C), of rows (n, D + 1) for the weights of one cell, without dropout.

    Or those of several cells, if all three have one more dimension in front.
    """
    product = torch.mm if x.dim() == 2 else torch.bmm
    hidden = x.new_ones(*x.shape[:-1], w2.shape[-2])
    product(x, w1, out=hidden[..., :-1])
    return product(hidden.clamp_min_(0), w2)


@dataclass(eq=False)
class Head(Course):
    """One cell, whose seeds of ``data_order`` and ``model_randomness`` are used.

    Attributes
    ----------
    weights
        Initial weights of the two layers, shapes (D + 1, H) and (H + 1, C).
    centre, scale
        Of scores: those of its training labels, which are trained on in this unit; see
        :func:`~mlflow_l3d.approaches.finetuning.session.unit_of`.
    """

    weights: tuple[FloatArray, FloatArray]
    centre: float = 0.0
    scale: float = 1.0


CACHE: Final = 7 * 2**20
"""Bytes that the working set of a chunk may take on a CPU; see :mod:`mlflow_l3d.approaches.chunks`.

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
    """Cells on the features of one task; see :class:`~mlflow_l3d.approaches.chunks.StackedSession`.

    Parameters
    ----------
    task, device
        See :class:`~mlflow_l3d.approaches.chunks.StackedSession`.
    features
        Shape (n, D), float32, one row per example; may be memory-mapped.
    recipe
        Complete hyperparameters.
    truncated_share
        Share of the examples that were cut before they became features.
    """

    def __init__(
        self, task: Task, features: FloatArray, recipe: Recipe, device: str, truncated_share: float = 0.0
    ) -> None:
        super().__init__(task, recipe, device)
        self.features, self.truncated_share = features, truncated_share
        step, held = bytes_per_cell(features.shape[1], outputs(task), len(task.first_split.train), recipe)
        self.cells_at_once = cells_at_once(step, held, device, cache=CACHE, memory=MEMORY)

    def draw(self, cell: Cell) -> Head:
        """Return the head of a cell at its start."""
        inputs, classes = self.features.shape[1], outputs(self.task)
        weights = initial_head(cell.seeds["model_initialisation"], inputs, self.recipe.hidden_units, classes)
        split, progress = self.task.split(cell.seeds), self.progress()
        return Head(cell, split, progress, weights, *unit_of(self.task, split.train))

    def trained(self, courses: Sequence[Head]) -> list[torch.Tensor | DivergedError]:
        """Train heads side by side; those that diverge leave the numbers of the others as they are."""
        parts = [part for head in courses for part in (head.split.train, head.split.validation, head.split.test)]
        self.rows = Rows(self.features, parts, self.device)
        self.scores = self.task.labels.dtype.kind == "f"
        try:
            with torch.inference_mode():
                for _, members in training.soups(courses, self.recipe):
                    stack = Stack.of([head.weights for head in members], self.device, self.rows.dtype)
                    self.fit(members, HeadNetwork(stack, scores=self.scores))
                return self.tested(courses)
        finally:
            del self.rows

    def epoch(
        self, courses: Sequence[Head], number: int, order: IntArray, weights: HeadNetwork, rates: Sequence[float]
    ) -> list[float]:
        """See :meth:`CourseSession.epoch`."""
        n = len(courses[0].split.train)
        recipe = self.recipe
        stack = weights.stack
        places = self.rows.places(order)
        targets = torch.from_numpy(self.task.labels[order])
        wanted = self._wanted(courses, targets, stack.classes).to(stack.w1)
        masks = None
        if recipe.dropout:
            seeds = [head.cell.seeds["model_randomness"] for head in courses]
            shape = (n, recipe.hidden_units)
            (masks,) = cell_dropout(seeds, ("head_dropout", str(number)), 1, shape, recipe.dropout, stack.w1)
        memory = self.rows.empty(len(courses) * min(n, recipe.batch_size))
        logits = []
        for start, rate in zip(range(0, n, recipe.batch_size), rates, strict=True):
            part = slice(start, start + recipe.batch_size)
            chosen = places[:, part]
            x = self.rows.at(chosen, memory[: chosen.numel()])
            logits.append(weights.differentiate(x, wanted[:, part], None if masks is None else masks[:, part]))
            stack.descend("adamw", rate, recipe.weight_decay)
        whole = self._restored(courses, torch.cat(logits, 1).cpu())
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
        places = self.rows.padded(parts)
        outputs: list[torch.Tensor] = []
        size = max(1, EVALUATED // max(1, self.rows.empty(places.shape[1]).nbytes))
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
