"""The weights of many cells: how they begin, and SGD, Adam and AdamW: one call updates a layer of every cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from mlflow_l3d.cells.factors import stream
from mlflow_l3d.tasks.settings import IntArray

FloatArray: TypeAlias = npt.NDArray[np.float32]
VECTOR: Final = 64
"""Numbers that a loop over a tensor takes at once, at most."""
BETA_1: Final = 0.9
BETA_2: Final = 0.999
EPSILON: Final = 1e-8


def initial_head(seed: int, inputs: int, hidden: int, classes: int) -> tuple[FloatArray, FloatArray]:
    """Return new weights of the two layers of the head, the bias as the last row of each.

    Parameters
    ----------
    seed
        That of ``model_initialisation``.
    inputs, hidden, classes
        Sizes D, H, C.

    Returns
    -------
    tuple
        Shapes (D + 1, H) and (H + 1, C): uniform in +-1/sqrt(fan-in), weights and biases alike, as ``torch.nn.Linear``.
    """
    return _uniform(seed, "hidden", inputs, hidden), _uniform(seed, "output", hidden, classes)


def _uniform(seed: int, layer: str, fan_in: int, fan_out: int) -> FloatArray:
    draws = stream(seed, "head", layer).random((fan_in + 1, fan_out), dtype=np.float32)
    return (2 * draws - 1) / np.float32(np.sqrt(fan_in))


def dropout_factors(generator: np.random.Generator, shape: tuple[int, ...], probability: float) -> FloatArray:
    """Return the next factors of dropout: of `shape`, 0 or 1/(1 - probability)."""
    draws = generator.random(shape, dtype=np.float32)
    return (draws >= np.float32(probability)) * np.float32(1.0 / (1.0 - probability))


class Stack:
    """Two layers of every cell, the bias as the last row of each, met by a constant 1 behind every input.

    Parameters
    ----------
    w1
        Shape (B, D + 1, H): dense layer.
    w2
        Shape (B, H + 1, C): classification layer. Prototypical Networks leave it as it is; C is the number of classes.
    moments
        What Adam remembers: running means of the gradients and of their squares, of all layers, and the steps taken, a
        scalar that is the same for all cells. Empty before its first step.

    Attributes
    ----------
    w1, w2
        Copies of the given values.
    g1, g2
        Shaped as `w1` and `w2`: the gradient of the latest step.

    Notes
    -----
    Both layers of a cell lie in one row, so that a step of an optimiser is one operation on one tensor; each is filled
    up to whole vectors. Fused Adam computes the rest of a tensor that fills no vector with other roundings: without the
    filling, a cell's last weights would depend on how many cells there are.
    """

    def __init__(self, w1: torch.Tensor, w2: torch.Tensor, moments: Sequence[torch.Tensor] = ()) -> None:
        self._weights, self.w1, self.w2 = _row_of(w1, w2)
        self._gradients, self.g1, self.g2 = _row_of(w1, w2)
        self.w1.copy_(w1)
        self.w2.copy_(w2)
        self.moments = moments

    @classmethod
    def of(
        cls,
        weights: Sequence[Sequence[npt.NDArray[np.floating]]],
        device: str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> Stack:
        """Stack the initial weights of some cells.

        Parameters
        ----------
        weights
            Shapes (D + 1, H) and (H + 1, C) for each cell.
        device, dtype
            Where and with what precision they are trained; None: float32.
        """
        layers = (np.stack(layer) for layer in zip(*weights, strict=True))
        w1, w2 = (torch.from_numpy(layer).to(device, dtype or torch.float32) for layer in layers)
        return cls(w1, w2)

    def __len__(self) -> int:
        return len(self.w1)

    @property
    def classes(self) -> int:
        """Number of classes, C."""
        return self.w2.shape[2]

    def select(self, cells: Sequence[int] | npt.NDArray[np.integer]) -> Stack:
        """Return a copy with some of the cells, in the order given, that continues where this one stands."""
        index = torch.as_tensor(np.asarray(cells, dtype=np.int64), device=self.w1.device)
        moments = [part.index_select(0, index) if part.dim() else part.clone() for part in self.moments]
        return Stack(self.w1.index_select(0, index), self.w2.index_select(0, index), moments)

    def descend(self, optimizer: str, learning_rate: float, weight_decay: float = 0.0) -> None:
        """Update the weights with the gradient in `g1` and `g2`.

        A step of Adam is algorithm 1 of Kingma and Ba (2015) with betas 0.9 and 0.999 and epsilon 1e-8, one of AdamW
        algorithm 2 of Loshchilov and Hutter (2019).

        Parameters
        ----------
        optimizer
            ``adam``, ``adamw`` or ``sgd``.
        learning_rate
            Step size.
        weight_decay
            Decoupled, on every weight; of ``adamw`` only.
        """
        if optimizer == "sgd":
            self._weights.add_(self._gradients, alpha=-learning_rate)
            return
        if not self.moments:
            means = torch.zeros_like(self._weights), torch.zeros_like(self._weights)
            self.moments = *means, torch.zeros((), device=self._weights.device)
        mean, square, steps = self.moments
        step: Callable[..., None] = adam if optimizer == "adam" else adamw
        decay = 0.0 if optimizer == "adam" else weight_decay
        settings = {"lr": learning_rate, "weight_decay": decay, "eps": EPSILON, "beta1": BETA_1, "beta2": BETA_2}
        flags = {"fused": True, "amsgrad": False, "maximize": False}
        step([self._weights], [self._gradients], [mean], [square], [], [steps], **settings, **flags)


def _row_of(w1: torch.Tensor, w2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return zeros, (B, P), a row for each cell, and the parts of it that hold layers of these shapes."""
    sizes = [like.shape[1] * like.shape[2] for like in (w1, w2)]
    widths = [-(-size // VECTOR) * VECTOR for size in sizes]
    rows = w1.new_zeros(len(w1), sum(widths))
    first = rows[:, : sizes[0]]
    second = rows[:, widths[0] : widths[0] + sizes[1]]
    return rows, first.view(w1.shape), second.view(w2.shape)


ALIGNED: Final = 16
"""Rows begin at multiples of so many numbers. The order in which libraries sum depends on where a matrix begins in
memory, so that elsewhere a cell would not have the same numbers at every place of a stack."""


class Rows:
    """Features in memory of torch's own, with the constant 1 behind them.

    Parameters
    ----------
    features
        Shape (N, D), float32 (or float64, which the rows keep), one row per example of the task; may be memory-mapped.
    positions
        The examples that are used, each once or more often; what is read of `features` is theirs.
    device
        Where the rows are kept.
    """

    def __init__(self, features: npt.NDArray[np.floating], positions: Sequence[IntArray], device: str) -> None:
        used = np.zeros(len(features), dtype=bool)
        for part in positions:
            used[part] = True
        used_positions = np.flatnonzero(used)
        self._place = np.cumsum(used) - 1
        kind = torch.float64 if features.dtype == np.float64 else torch.float32
        self._width = features.shape[1] + 1
        matrix = torch.zeros(len(used_positions), -(-self._width // ALIGNED) * ALIGNED, dtype=kind)
        matrix.numpy()[:, : self._width - 1] = features[used_positions]
        matrix[:, self._width - 1] = 1
        self._matrix = matrix.to(device)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the rows."""
        return self._matrix.dtype

    def places(self, positions: IntArray) -> torch.Tensor:
        """Return where examples are in the matrix, in the shape of `positions`, on the device."""
        return torch.from_numpy(self._place[positions]).to(self._matrix.device)

    def padded(self, parts: Sequence[IntArray]) -> torch.Tensor:
        """Return the places of parts of unequal size, a row each: what fills a row up is not to be looked at."""
        longest = max(parts, key=len)
        return self.places(np.stack([np.concatenate([part, longest[len(part) :]]) for part in parts]))

    def empty(self, count: int) -> torch.Tensor:
        """Return memory for `count` rows, their ends included; its content is undefined."""
        return self._matrix.new_empty(count, self._matrix.shape[1])

    def at(self, places: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the rows of some places: shape (*places.shape, D + 1).

        `out`, from :meth:`empty`, takes them if it is given: fresh memory for every step costs as much again.
        """
        chosen = torch.index_select(self._matrix, 0, places.reshape(-1), out=out)
        return chosen.view(*places.shape, self._matrix.shape[1])[..., : self._width]
