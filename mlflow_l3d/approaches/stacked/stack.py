"""The weights of many cells, and what their training remembers between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.stacked.optimisers import Moments, adam, sgd

if TYPE_CHECKING:
    import torch

VECTOR: Final = 64
"""Numbers that a loop over a tensor takes at once, at most."""


class Stack:
    """Two layers of every cell, the bias as the last row of each, met by a constant 1 behind every input.

    Parameters
    ----------
    w1
        Shape (B, D + 1, H): dense layer.
    w2
        Shape (B, H + 1, C): classification layer. Prototypical Networks leave it as it is; C is the number of classes.
    moments
        State of Adam; None before its first step.

    Attributes
    ----------
    w1, w2
        Copies of what was given.
    g1, g2
        Shaped as `w1` and `w2`: the gradient of the latest step.

    Notes
    -----
    Each cell's layers lie in rows of whole vectors. Fused Adam computes the rest of a tensor that fills no vector with
    other roundings: without the filling, a cell's last weights would depend on how many cells there are.
    """

    def __init__(self, w1: torch.Tensor, w2: torch.Tensor, moments: Moments | None = None) -> None:
        self._weights, self._gradients = [_rows(w1), _rows(w2)], [_rows(w1), _rows(w2)]
        self.w1, self.w2 = (_view(rows, like).copy_(like) for rows, like in zip(self._weights, (w1, w2), strict=True))
        self.g1, self.g2 = (_view(rows, like) for rows, like in zip(self._gradients, (w1, w2), strict=True))
        self.moments = moments

    @classmethod
    def of(
        cls,
        weights: Sequence[tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]],
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
        import torch

        kind = dtype or torch.float32
        w1, w2 = (
            torch.stack([torch.from_numpy(np.ascontiguousarray(pair[layer])) for pair in weights]).to(device, kind)
            for layer in range(2)
        )
        return cls(w1, w2)

    def __len__(self) -> int:
        return len(self.w1)

    @property
    def classes(self) -> int:
        """Number of classes, C."""
        return self.w2.shape[2]

    def select(self, cells: Sequence[int] | npt.NDArray[np.integer]) -> Stack:
        """Return a copy with some of the cells, in the order given, that goes on where this one stands."""
        import torch

        index = torch.as_tensor(np.asarray(cells, dtype=np.int64), device=self.w1.device)
        moments = None if self.moments is None else self.moments.select(index)
        return Stack(self.w1.index_select(0, index), self.w2.index_select(0, index), moments)

    def descend(self, optimizer: str, learning_rate: float, weight_decay: float = 0.0) -> None:
        """Update the weights with the gradient in `g1` and `g2`.

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
            sgd(self._weights, self._gradients, learning_rate)
            return
        if self.moments is None:
            self.moments = Moments.of(self._weights)
        decay = weight_decay if optimizer == "adamw" else None
        adam(self._weights, self._gradients, self.moments, learning_rate, decay)


def _rows(like: torch.Tensor) -> torch.Tensor:
    """Return zeros, (B, P): a row for each matrix of `like`, filled up to whole vectors."""
    size = like.shape[1] * like.shape[2]
    return like.new_zeros(len(like), -(-size // VECTOR) * VECTOR)


def _view(rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the part of `rows` that holds matrices of the shape of `like`."""
    return rows[:, : like.shape[1] * like.shape[2]].view(like.shape)
