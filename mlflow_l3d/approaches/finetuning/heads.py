"""Training of the heads of many cells in one program, each with its own draws and its own early stopping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import OnEpochEnd
from mlflow_l3d.approaches.callbacks import should_stop
from mlflow_l3d.approaches.finetuning.draws import batch_order, dropout_masks
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.training import DivergedError, Progress, learning_rates, validate
from mlflow_l3d.approaches.stacked.rows import Rows
from mlflow_l3d.approaches.stacked.stack import FloatArray, Stack
from mlflow_l3d.tasks.settings import IntArray, Split

if TYPE_CHECKING:
    import torch


class HeadNetwork:
    """Dense layer, ReLU, dropout, classification layer; cross-entropy; AdamW.

    Cells never meet in an operation: one that diverges leaves the numbers of the others as they are.

    Parameters
    ----------
    stack
        Weights of the B cells, which the network trains.
    weight_decay
        Decoupled, on every weight.
    """

    def __init__(self, stack: Stack, weight_decay: float) -> None:
        self.stack = stack
        self.weight_decay = weight_decay
        self._inner = stack.w2[:, :-1].transpose(1, 2)
        self._buffers: dict[int, tuple[torch.Tensor, ...]] = {}

    def differentiate(self, x: torch.Tensor, onehot: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Put the gradient of a batch's mean cross-entropy into the stack; return the logits, shape (B, b, C).

        Parameters
        ----------
        x
            Shape (B, b, D + 1): b examples of each cell, the last column 1.
        onehot
            Shape (B, b, C).
        mask
            Shape (B, b, H): the factors of dropout; None: no dropout.
        """
        import torch

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
        logits = torch.bmm(rows, stack.w2)
        error = torch.softmax(logits, 2).sub_(onehot).div_(examples)
        torch.bmm(rows_t, error, out=stack.g2)
        torch.bmm(error, self._inner, out=back)
        back.mul_(active.sign_())  # 1 where the unit was active, else 0
        if mask is not None:
            back.mul_(mask)
        torch.bmm(x.transpose(1, 2), back, out=stack.g1)
        return logits

    def update(self, learning_rate: float) -> None:
        """Take one step of AdamW with the gradient of the latest batch."""
        self.stack.descend("adamw", learning_rate, self.weight_decay)

    def _empty(self, examples: int) -> tuple[torch.Tensor, ...]:
        """Return memory for batches of a size: hidden rows with a constant 1, parts of them, activations, errors."""
        w1, units = self.stack.w1, self.stack.w1.shape[2]
        rows = w1.new_ones(len(w1), examples, units + 1)
        active, back = (w1.new_empty(len(w1), examples, units) for _ in range(2))
        return rows, rows[:, :, :-1], rows.transpose(1, 2), active, back


def logits_of(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Return the logits, shape (n, C), of rows (n, D + 1) for the weights of one cell, without dropout.

    One cell at a time: a product of many rows gains nothing from company, and parts may have another size in each cell.
    """
    import torch

    hidden = x.new_ones(len(x), len(w2))
    torch.mm(x, w1, out=hidden[:, :-1])
    return torch.mm(hidden.clamp_min_(0), w2)


@dataclass
class Head:
    """One cell: what its factors decide, and where its training stands.

    Attributes
    ----------
    split
        Positions of its examples.
    weights
        Initial weights of the two layers, shapes (D + 1, H) and (H + 1, C).
    seeds
        Those of ``data_order`` and ``model_randomness`` are used.
    progress
        Its course so far.
    best
        Weights of the two layers after its best epoch so far.
    diverged
        Why it has no result.
    key, on_epoch_end
        Key of the cell, and who is told of its epochs.
    """

    split: Split
    weights: tuple[FloatArray, FloatArray]
    seeds: Mapping[str, int]
    progress: Progress
    best: tuple[torch.Tensor, ...] = ()
    diverged: DivergedError | None = None
    key: str = ""
    on_epoch_end: OnEpochEnd | None = None


def train_heads(
    heads: Sequence[Head], features: npt.NDArray[np.floating], labels: IntArray, recipe: Recipe, device: str
) -> list[torch.Tensor | DivergedError]:
    """Train heads side by side and evaluate the best epoch of each.

    A cell that is done, is told to end, or whose loss is not finite, leaves the stack; the others go on without it.

    Parameters
    ----------
    heads
        Each at its start; their progress is noted in them. All have the same number of training examples.
    features
        Shape (N, D), float32 (or float64, which the training keeps): those of every example of the task.
    labels
        Shape (N,).
    recipe, device
        How and where they are trained.

    Returns
    -------
    list
        For each the logits of its test examples, shape (n, C), on the CPU, or how it diverged.

    Raises
    ------
    ValueError
        If the numbers of training examples differ.
    """
    import torch

    sizes = {len(own.split.train) for own in heads}
    if len(sizes) > 1:
        msg = f"heads that are trained together must have equally many training examples, not {sorted(sizes)}"
        raise ValueError(msg)
    batches = -(-sizes.pop() // recipe.batch_size)
    rates = learning_rates(recipe, recipe.epochs * batches)
    with torch.inference_mode():
        parts = (part for own in heads for part in (own.split.train, own.split.validation, own.split.test))
        rows = Rows(features, list(parts), device)
        network = HeadNetwork(Stack.of([own.weights for own in heads], device, rows.dtype), recipe.weight_decay)
        running = list(heads)
        for epoch in range(recipe.epochs):
            losses = _epoch(network, epoch, running, rows, labels, recipe, rates[epoch * batches :])
            going = [
                place
                for place, (own, loss) in enumerate(zip(running, losses, strict=True))
                if _goes_on(own, network.stack, place, loss, rows, labels)
            ]
            if not going:
                break
            if len(going) < len(running):
                network = HeadNetwork(network.stack.select(going), recipe.weight_decay)
                running = [running[place] for place in going]
        return [own.diverged or _logits(rows, own.split.test, own.best) for own in heads]


def _epoch(
    network: HeadNetwork,
    epoch: int,
    heads: Sequence[Head],
    rows: Rows,
    labels: IntArray,
    recipe: Recipe,
    rates: Sequence[float],
) -> list[float]:
    """Visit every training example of every cell once; return the mean loss of each cell."""
    import torch

    n, size = len(heads[0].split.train), recipe.batch_size
    order = np.stack([own.split.train[batch_order(own.seeds["data_order"], epoch, n)] for own in heads])
    places, targets = rows.places(order), torch.from_numpy(labels[order])
    onehot = torch.nn.functional.one_hot(targets, network.stack.classes).to(network.stack.w1)
    masks = _masks(heads, epoch, n, network.stack, recipe.dropout)
    memory, logits = rows.empty(len(heads) * min(n, size)), []
    for start, rate in zip(range(0, n, size), rates, strict=False):
        part = slice(start, start + size)
        chosen = places[:, part]
        x = rows.at(chosen, memory[: chosen.numel()])
        logits.append(network.differentiate(x, onehot[:, part], None if masks is None else masks[:, part]))
        network.update(rate)
    whole = torch.cat(logits, 1).cpu()
    return [float(torch.nn.functional.cross_entropy(own, wanted)) for own, wanted in zip(whole, targets, strict=True)]


def _goes_on(own: Head, stack: Stack, place: int, loss: float, rows: Rows, labels: IntArray) -> bool:
    """Note an epoch of the cell at `place` of the stack; return whether it has another one."""
    weights = stack.w1[place], stack.w2[place]
    held = own.split.validation
    logits = _logits(rows, held, weights)
    try:
        better = own.progress.add(*validate(logits, labels[held]), loss)
    except DivergedError as error:
        own.diverged = error
        return False
    if better:
        own.best = weights[0].clone(), weights[1].clone()
    told = should_stop(own.on_epoch_end, own.key, len(own.progress.f1) - 1, logits, labels[held])
    return not told and not own.progress.stop


def _logits(rows: Rows, positions: IntArray, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the logits of one cell's examples on the CPU."""
    return logits_of(rows.at(rows.places(positions)), *weights).cpu()


def _masks(heads: Sequence[Head], epoch: int, n: int, stack: Stack, probability: float) -> torch.Tensor | None:
    """Return the epoch's dropout factors where the network computes: shape (B, n, H); None without dropout."""
    import torch

    if probability == 0:
        return None
    units = stack.w1.shape[2]
    masks = stack.w1.new_empty(len(heads), n, units)
    for own, out in zip(heads, masks, strict=True):
        out.copy_(torch.from_numpy(dropout_masks(own.seeds["model_randomness"], epoch, n, units, probability)))
    return masks
