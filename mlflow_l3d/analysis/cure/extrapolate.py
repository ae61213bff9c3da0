"""Moments of more members than can be measured, from those of fewer."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.cure.spread import LUCK, MEAN, TOTAL, WITHIN
from mlflow_l3d.analysis.intervals import FloatArray, IntArray

DOUBT: Final = 0.1
"""What the logarithm of an extrapolated spread may be off for each doubling of the members; of a mean, relative."""
FURTHEST: Final = 2
"""At most so many times as many members as are measured."""
_MOST_OFFSET: Final = 3.0
_USUAL_OFFSET: Final = 1.0


def extended(members: IntArray, moments: FloatArray, like: npt.NDArray[np.bool_]) -> FloatArray:
    """Return moments of all numbers of members from those that are known, shape (..., K, 8).

    Parameters
    ----------
    members
        Shape (K,): the members behind one result, ascending, first 1. Those of a vote are odd: ties decide even ones.
    moments
        nan if unknown.
    like
        Shape (K, 8): which are known in the estimate; without a row or column the same are used.

    Notes
    -----
    The variance within rows is ``b / (k + c)``, that between rows stays; other moments are ``a + b / (k + c)``,
    agreements with the root of k + c: two results differ if the margin is small against its standard deviation. The
    inverse of the variance within rows is linear in k, which gives c. Theory: an ensemble of k is as good as one run
    whose noise has a k-th of the variance; c is the noise of one run in units of what it distinguishes.
    """
    whole = moments.copy()
    if not (like[:, WITHIN] & like[:, TOTAL]).any():
        return whole
    # The luck of test examples follows the accuracy: the law describes the rest.
    luck = moments[..., LUCK] - moments[..., :1, LUCK]
    rest_of = moments.copy()
    rest_of[..., TOTAL] -= np.nan_to_num(luck)
    offset, amount, between = _variances(members, rest_of, like)
    for moment in range(moments.shape[-1]):
        measured, wanted = like[:, moment], members[~like[:, moment]]
        if moment in (TOTAL, WITHIN):
            rest = between[..., None] * (moment == TOTAL)
            whole[..., ~measured, moment] = amount[..., None] / (wanted + offset[..., None]) + rest
        elif measured.sum() > 1:
            # The first member follows the law least, because some runs collapse.
            several = measured & (members > 1)
            several = several if several.sum() > 1 else measured
            power = 1.0 if moment in (MEAN, LUCK) else 0.5
            line = _line(members[several], moments[..., several, moment], wanted, offset[..., None], power)
            whole[..., ~measured, moment] = line if moment == MEAN else np.clip(line, 0, 1)
    more = np.nan_to_num(whole[..., LUCK] - whole[..., :1, LUCK])
    whole[..., TOTAL] += np.where(like[:, TOTAL], 0.0, more)
    whole[whole[..., TOTAL] < 0, TOTAL] = np.nan  # few runs know neither part
    return whole


def _variances(
    members: IntArray, moments: FloatArray, like: npt.NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return c and b of the variance within rows, and the variance between rows, which stays."""
    places = np.flatnonzero(like[:, WITHIN] & like[:, TOTAL])
    between = np.maximum(0.0, moments[..., places[-1], TOTAL] - moments[..., places[-1], WITHIN])
    sizes, within = members[places], moments[..., places, WITHIN]
    others = np.flatnonzero(like[:, TOTAL] & (members > sizes[-1]))[:1]
    if len(sizes) == 1 and len(others):
        # Two runs in a row: that of two is the total less what is between rows.
        more = moments[..., others, TOTAL] - between[..., None]
        sizes, within = np.append(sizes, members[others]), np.concatenate([within, more], axis=-1)
    sizes, within = sizes[-3:], np.maximum(within[..., -3:], 1e-18)
    steps = sizes - sizes.mean()
    slope = (steps / within).sum(axis=-1) / max(1e-18, (steps**2).sum())
    rises = slope > 0
    offset = (1 / within).mean(axis=-1) / np.where(rises, slope, 1.0) - sizes.mean()
    offset = np.where(rises, np.clip(offset, 0, _MOST_OFFSET), _USUAL_OFFSET)
    return offset, (within * (sizes + offset[..., None])).mean(axis=-1), between


def _line(sizes: IntArray, values: FloatArray, wanted: IntArray, offset: FloatArray, power: float) -> FloatArray:
    """Return ``a + b (k + c) ** -power`` at the wanted k, by least squares; each k counts 1 / k."""
    steps, weights = (sizes + offset) ** -power, 1 / sizes
    centre = (weights * steps).sum(axis=-1, keepdims=True) / weights.sum()
    middle = (weights * values).sum(axis=-1, keepdims=True) / weights.sum()
    slope = (weights * (steps - centre) * (values - middle)).sum(axis=-1) / (weights * (steps - centre) ** 2).sum(
        axis=-1
    )
    line: FloatArray = middle + slope[..., None] * ((wanted + offset) ** -power - centre)
    return line
