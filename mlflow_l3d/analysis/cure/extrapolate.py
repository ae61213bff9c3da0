"""Moments of more members than can be measured, from those of fewer."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.cure.remedy import Kind
from mlflow_l3d.analysis.cure.spread import MEAN, OVERSTATEMENT, TOTAL, WITHIN
from mlflow_l3d.analysis.intervals import FloatArray

DOUBT_OF_STD: Final = 0.1
"""What the logarithm of an extrapolated spread may be off for each doubling of the members."""
DOUBT_OF_MEAN: Final = 0.1
"""Relative error of an extrapolated change of the mean."""
_MOST_OFFSET: Final = 3.0
_USUAL_OFFSET: Final = 1.0


def extended(kind: Kind, moments: FloatArray, most: int, like: npt.NDArray[np.bool_]) -> FloatArray:
    """Return moments of 1 to `most` members, shape (..., most, 7), from those of 1 to K, shape (..., K, 7).

    Parameters
    ----------
    kind
        The best of several follows no such law: its unknown moments stay nan. A vote of an even number is extrapolated
        from even numbers, of an odd one from odd ones, because ties decide the former.
    moments
        nan if unknown.
    like
        Shape (K, 7): which are known in the estimate; without a row or column the same are used.

    Notes
    -----
    The variance within rows is ``b / (k + c)``, that between rows stays; other moments are ``a + b / (k + c)``,
    agreements with the root of k + c: two results differ if the margin is small against its standard deviation. The
    inverse of the variance within rows is linear in k, which gives c. Theory: an ensemble of k is as good as one run
    whose noise has a k-th of the variance; c is the noise of one run in units of what it distinguishes.
    """
    size = moments.shape[-2]
    whole = np.full((*moments.shape[:-2], most, moments.shape[-1]), math.nan)
    whole[..., : min(size, most), :] = moments[..., :most, :]
    if kind == "choose":
        return whole
    for parity in (0, 1) if kind == "vote" else (None,):
        family = np.arange(1, most + 1)
        family = family if parity is None else family[family % 2 == parity]
        measured = family[family <= size]
        if not (like[measured - 1, WITHIN] & like[measured - 1, TOTAL]).any():
            continue
        offset, amount, between = _variances(moments, measured, like)
        for moment in range(moments.shape[-1]):
            sizes = measured[like[measured - 1, moment]]
            wanted = family[~np.isin(family, sizes)]
            if moment in (TOTAL, WITHIN):
                rest = between[..., None] * (moment == TOTAL)
                whole[..., wanted - 1, moment] = amount[..., None] / (wanted + offset[..., None]) + rest
            elif moment != OVERSTATEMENT and len(sizes) > 1:
                # The first member follows the law least, because some runs collapse.
                sizes = sizes[sizes > 1] if (sizes > 1).sum() > 1 else sizes
                power = 1.0 if moment == MEAN else 0.5
                line = _line(sizes, moments[..., sizes - 1, moment], wanted, offset[..., None], power)
                whole[..., wanted - 1, moment] = line if moment == MEAN else np.clip(line, 0, 1)
    return whole


def _variances(
    moments: FloatArray, measured: npt.NDArray[np.int64], like: npt.NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return c and b of the variance within rows, and the variance between rows, which stays."""
    sizes = measured[like[measured - 1, WITHIN] & like[measured - 1, TOTAL]]
    last = sizes[-1] - 1
    between = np.maximum(0.0, moments[..., last, TOTAL] - moments[..., last, WITHIN])
    within = moments[..., sizes - 1, WITHIN]
    others = measured[like[measured - 1, TOTAL] & (measured > sizes[-1])][:1]
    if len(sizes) == 1 and len(others):
        # Two runs in a row: that of two is the total less what is between rows.
        more = moments[..., others - 1, TOTAL] - between[..., None]
        sizes, within = np.append(sizes, others), np.concatenate([within, more], axis=-1)
    sizes, within = sizes[-3:], np.maximum(within[..., -3:], 1e-18)
    steps = sizes - sizes.mean()
    slope = (steps / within).sum(axis=-1) / max(1e-18, (steps**2).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        offset = (1 / within).mean(axis=-1) / slope - sizes.mean()
    offset = np.where(np.isfinite(offset) & (slope > 0), np.clip(offset, 0, _MOST_OFFSET), _USUAL_OFFSET)
    return offset, (within * (sizes + offset[..., None])).mean(axis=-1), between


def _line(
    sizes: npt.NDArray[np.int64], values: FloatArray, wanted: npt.NDArray[np.int64], offset: FloatArray, power: float
) -> FloatArray:
    """Return ``a + b (k + c) ** -power`` at the wanted k, by least squares; each k counts 1 / k."""
    steps, weights = (sizes + offset) ** -power, 1 / sizes
    centre = (weights * steps).sum(axis=-1, keepdims=True) / weights.sum()
    middle = (weights * values).sum(axis=-1, keepdims=True) / weights.sum()
    slope = (weights * (steps - centre) * (values - middle)).sum(axis=-1) / (weights * (steps - centre) ** 2).sum(
        axis=-1
    )
    line: FloatArray = middle + slope[..., None] * ((wanted + offset) ** -power - centre)
    return line
