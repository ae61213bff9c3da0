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
    Each moment is ``a + b / (k + c)``, agreements with the root of k + c: two results differ if the margin is small
    against its standard deviation. The variance within rows must vanish with many members, so that its inverse is
    linear in k, which gives c for all moments. Theory: an ensemble of k is as good as one run whose noise has a k-th of
    the variance; c is the noise of one run in units of what it distinguishes.
    """
    size = moments.shape[-2]
    whole = np.full((*moments.shape[:-2], most, moments.shape[-1]), math.nan)
    whole[..., : min(size, most), :] = moments[..., :most, :]
    if kind == "choose":
        return whole
    for parity in (0, 1) if kind == "vote" else (None,):
        members = np.arange(1, most + 1)
        family = members if parity is None else members[members % 2 == parity]
        offset = _offset(moments, family[family <= size], like)
        for moment in range(moments.shape[-1]):
            known = family[(family <= size)]
            known = known[like[known - 1, moment]]
            wanted = family[~np.isin(family, known)]
            if moment == OVERSTATEMENT or len(known) < 2 or not len(wanted):
                continue
            # The first member alone follows the law least: some runs collapse.
            known = known[-3:]
            # Two results differ where the margin is small against its standard deviation.
            power = 1.0 if moment in (MEAN, TOTAL, WITHIN) else 0.5
            steps = (known + offset[..., None]) ** -power
            values = moments[..., known - 1, moment]
            centre, middle = steps.mean(axis=-1, keepdims=True), values.mean(axis=-1, keepdims=True)
            slope = ((steps - centre) * (values - middle)).sum(axis=-1) / ((steps - centre) ** 2).sum(axis=-1)
            line = middle + slope[..., None] * ((wanted + offset[..., None]) ** -power - centre)
            if moment in (TOTAL, WITHIN):
                line = np.maximum(line, 0)
            elif moment != MEAN:
                line = np.clip(line, 0, 1)
            whole[..., wanted - 1, moment] = line
    return whole


def _offset(moments: FloatArray, family: npt.NDArray[np.int64], like: npt.NDArray[np.bool_]) -> FloatArray:
    """Return c, shape (...,), cut at 0 and 3: 1 if the variance within rows is known of one number of members only."""
    known = family[like[family - 1, WITHIN]][-3:]
    shape = moments.shape[:-2]
    if len(known) < 2:
        return np.full(shape, _USUAL_OFFSET)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1 / moments[..., known - 1, WITHIN]
    steps = known - known.mean()
    slope = (inverse * steps).sum(axis=-1) / (steps**2).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        offset = inverse.mean(axis=-1) / slope - known.mean()
    return np.where(np.isfinite(offset) & (slope > 0), np.clip(offset, 0, _MOST_OFFSET), _USUAL_OFFSET)
