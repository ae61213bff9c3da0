"""The features of the examples that a chunk of cells uses, once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.tasks.settings import IntArray

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
        """Return where examples stand in the matrix, in the shape of `positions`, on the device."""
        return torch.from_numpy(self._place[positions]).to(self._matrix.device)

    def empty(self, count: int) -> torch.Tensor:
        """Return memory for `count` rows, their ends included; its content is undefined."""
        return self._matrix.new_empty(count, self._matrix.shape[1])

    def at(self, places: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the rows of some places: shape (*places.shape, D + 1).

        `out`, from :meth:`empty`, takes them if it is given: fresh memory for every step costs as much again.
        """
        chosen = torch.index_select(self._matrix, 0, places.reshape(-1), out=out)
        return chosen.view(*places.shape, self._matrix.shape[1])[..., : self._width]
