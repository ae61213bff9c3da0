"""Training of the heads of many cells in one program, each with its own draws and its own early stopping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.base import OnEpochEnd
from mlflow_l3d.approaches.device_draws import NUMPY, dropout_factors
from mlflow_l3d.approaches.finetuning import training
from mlflow_l3d.approaches.finetuning.kinds import loss_of
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.training import Course, DivergedError
from mlflow_l3d.approaches.stacked.stack import FloatArray, Rows, Stack
from mlflow_l3d.tasks.settings import IntArray

EVALUATED: Final = 2**28
"""Bytes of the rows that are evaluated together on a GPU, at most."""


class HeadNetwork:
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
        self.stack, self.scores = stack, scores
        self._inner = stack.w2[:, :-1].transpose(1, 2)
        self._buffers: dict[int, tuple[torch.Tensor, ...]] = {}

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
        :func:`~mlflow_l3d.approaches.finetuning.kinds.unit_of`.
    """

    weights: tuple[FloatArray, FloatArray]
    centre: float = 0.0
    scale: float = 1.0


def train_heads(
    heads: Sequence[Head],
    features: npt.NDArray[np.floating],
    labels: npt.NDArray[Any],
    recipe: Recipe,
    device: str,
    on_epoch_end: OnEpochEnd | None = None,
) -> list[torch.Tensor | DivergedError]:
    """Train heads side by side, each as often as the soup says, and evaluate the weights that are chosen.

    A cell that is done, is told to end, or whose loss is not finite, leaves the stack; the others continue without it.

    Parameters
    ----------
    heads
        Each at its start; their progress is noted in them. All have the same number of training examples.
    features
        Shape (N, D), float32 (or float64, which the training keeps): those of every example of the task.
    labels
        Shape (N,): classes, or float64 scores.
    recipe, device
        How and where they are trained.
    on_epoch_end
        Gets each finished epoch.

    Returns
    -------
    list
        For each the logits of its test examples, shape (n, C), on the CPU, or how it diverged.
    """
    with torch.inference_mode():
        parts = (part for head in heads for part in (head.split.train, head.split.validation, head.split.test))
        shared = _Training(Rows(features, list(parts), device), labels, recipe, on_epoch_end)
        for _, members in training.soups(heads, recipe):
            shared.fit(members, device)
        ended = [head for head in heads if head.diverged is None]
        if recipe.average_last or recipe.soup > 1:
            validated = shared.logits(ended, [head.split.validation for head in ended], [head.best for head in ended])
            for head, logits in zip(ended, validated, strict=True):
                head.progress.average = training.validate(logits, labels[head.split.validation])
        tested = iter(shared.logits(ended, [head.split.test for head in ended], [head.best for head in ended]))
        return [head.diverged or next(tested) for head in heads]


@dataclass(frozen=True)
class _Training:
    """What the cells of a chunk share."""

    rows: Rows
    labels: npt.NDArray[Any]
    recipe: Recipe
    on_epoch_end: OnEpochEnd | None

    @property
    def scores(self) -> bool:
        """Whether labels are scores, not classes."""
        return self.labels.dtype.kind == "f"

    def fit(self, heads: Sequence[Head], device: str) -> None:
        """Train heads side by side; afterwards they have their `best` weights, or have diverged."""
        recipe, running = self.recipe, list(heads)
        batches = -(-len(heads[0].split.train) // recipe.batch_size)
        rates = training.learning_rates(recipe, recipe.epochs * batches)
        stack = Stack.of([head.weights for head in heads], device, self.rows.dtype)
        network = HeadNetwork(stack, scores=self.scores)
        for epoch in range(recipe.epochs):
            losses = self.epoch(network, epoch, running, rates[epoch * batches :])
            weights = list(zip(network.stack.w1, network.stack.w2, strict=True))
            validation_logits = self.logits(running, [head.split.validation for head in running], weights)
            going = [self.goes_on(*each) for each in zip(running, weights, validation_logits, losses, strict=True)]
            places = np.flatnonzero(going)
            if not len(places):
                return
            if len(places) < len(running):
                network = HeadNetwork(network.stack.select(places), scores=self.scores)
                running = [running[place] for place in places]

    def epoch(self, network: HeadNetwork, epoch: int, heads: Sequence[Head], rates: Sequence[float]) -> list[float]:
        """Visit every training example of every cell once; return the mean loss of each cell."""
        n, recipe, stack = len(heads[0].split.train), self.recipe, network.stack
        order = np.stack(
            [head.split.train[training.batch_order(head.cell.seeds["data_order"], epoch, n)] for head in heads]
        )
        places, targets = self.rows.places(order), torch.from_numpy(self.labels[order])
        wanted = self._wanted(heads, targets, stack.classes).to(stack.w1)
        masks = self._masks(heads, epoch, n, stack.w1) if recipe.dropout else None
        memory, logits = self.rows.empty(len(heads) * min(n, recipe.batch_size)), []
        for start, rate in zip(range(0, n, recipe.batch_size), rates, strict=False):
            part = slice(start, start + recipe.batch_size)
            chosen = places[:, part]
            x = self.rows.at(chosen, memory[: chosen.numel()])
            logits.append(network.differentiate(x, wanted[:, part], None if masks is None else masks[:, part]))
            stack.descend("adamw", rate, recipe.weight_decay)
        whole = self._restored(heads, torch.cat(logits, 1).cpu())
        return [float(loss_of(head, labels)) for head, labels in zip(whole, targets, strict=True)]

    def _masks(self, heads: Sequence[Head], epoch: int, n: int, w1: torch.Tensor) -> torch.Tensor:
        """Return the factors of dropout of an epoch of every cell: shape (B, n, H)."""
        units, dropout = w1.shape[2], self.recipe.dropout
        seeds = [head.cell.seeds["model_randomness"] for head in heads]
        if w1.device.type not in NUMPY:
            starts = [training.head_dropout_seed(seed, epoch) for seed in seeds]
            return dropout_factors(starts, 0, (n, units), dropout, str(w1.device)).to(w1.dtype)
        masks = torch.empty(len(heads), n, units, dtype=w1.dtype)
        for seed, out in zip(seeds, masks, strict=True):
            out.copy_(torch.from_numpy(training.dropout_masks(seed, epoch, n, units, dropout)))
        return masks.to(w1.device)

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

    def goes_on(self, own: Head, weights: Sequence[torch.Tensor], logits: torch.Tensor, loss: float) -> bool:
        """Note an epoch of a cell: weights, validation logits and mean loss; return whether it has another one."""
        better, goes_on = own.note(logits, self.labels[own.split.validation], loss, self.on_epoch_end)
        averaged = own.progress.averaged
        if averaged > 1:
            own.best = tuple(mean.lerp(layer, 1 / averaged) for mean, layer in zip(own.best, weights, strict=True))
        elif better or own.progress.recipe.average_last:
            own.best = tuple(layer.clone() for layer in weights)
        return goes_on

    def logits(
        self, heads: Sequence[Head], parts: Sequence[IntArray], weights: Sequence[Sequence[torch.Tensor]]
    ) -> list[torch.Tensor]:
        """Return the logits of a part of the examples of each cell, shape (n, C) each, on the CPU."""
        return self._restored(heads, self._outputs(parts, weights))

    def _outputs(self, parts: Sequence[IntArray], weights: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Return what the networks give for a part of the examples of each cell, shape (n, C) each, on the CPU.

        On a CPU one cell after another: a product of many rows gains nothing from company. A GPU would spend its time
        on starting what is small; there parts of unequal size are filled up, and the rest of a row is not looked at.
        """
        if all(layer.device.type == "cpu" for layers in weights for layer in layers):
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
