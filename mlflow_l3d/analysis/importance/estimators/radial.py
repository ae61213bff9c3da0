"""The radial design: n base runs, and for every factor the same n runs with only that factor drawn anew.

It gives the importance of all K factors at once from n (K + 1) runs. Base and swap runs each are n independent draws of
every factor, so they serve as golden runs too.
"""

from __future__ import annotations

import math

import numpy as np

from mlflow_l3d.analysis.importance.estimate import ATANH, Estimate, Variances, leave_out
from mlflow_l3d.analysis.importance.estimators.nested import nested_components, nested_limits
from mlflow_l3d.analysis.importance.tables import rounding_variance
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.typing import FloatArray


def radial_estimate(sets: FloatArray, place: int) -> Estimate | None:
    """Return the corrected importance of one factor with its error.

    Parameters
    ----------
    sets
        Shape (n, K + 1): column 0 the base runs, the others one factor each; nan if a score is missing.
    place
        Column of the factor, from 1 on.

    Returns
    -------
    Estimate or None
        None below two rows with both base and swap; without an interval below three.

    Notes
    -----
    Jansen (1999), with the total over all sets as in Saltelli et al. (2010)::

        tau2_k = mean_i (y_i - y_ki)^2 / 2          sigma2 = mean over the K + 1 sets of var1
        S_T,k  = tau2_k / sigma2                    s2_R = sigma2 - tau2_k

    Jackknife over rows (a row is left out of every set) of atanh(1 - S_T,k), degrees of freedom: rows - 1. S_T,k may
    come out above 1, where a logit has no value. If this scale has none either (S_T,k above 2, or equal scores), the
    limits of base and swap as a nested table of two columns are used
    (:func:`mlflow_l3d.analysis.importance.estimators.nested.nested_limits`). If no pair differs there is no interval:
    an effect that shows in some pairs only may have been missed by all (L3D010).
    """
    finite = np.isfinite(sets)
    paired = finite[:, 0] & finite[:, place]
    pairs = nested_components(sets[paired][:, [0, place]])
    if pairs is None:
        return None
    floor = rounding_variance(sets[finite])
    tau2 = _above(float(_half_squares(sets, place).sum()) / pairs.rows, floor)
    sigma2 = _above(_mean_variance(sets), floor)
    variances = VarianceComponents(
        *("radial", "jansen", pairs.rows, 2, tau2, sigma2 - tau2),
        total=max(sigma2, tau2),
        contributed_degrees=pairs.rows,
    )
    if pairs.rows < 3 or not (sigma2 > 0 and tau2 > 0):
        return Estimate(variances)
    without = radial_variances_without_each(sets, place)
    jackknife = leave_out(tau2, sigma2 - tau2, without, scale=ATANH)
    return Estimate(variances, jackknife, lambda level: nested_limits(pairs, level=level))


def radial_variances_without_each(sets: FloatArray, place: int) -> Variances:
    """Return contributed and (untruncated) mitigated variance of a factor without each row that has a score in turn.

    Parameters
    ----------
    sets, place
        As for :func:`radial_estimate`; at least three rows with both base and swap.
    """
    finite = np.isfinite(sets)
    used = finite.any(axis=1)
    paired = (finite[:, 0] & finite[:, place])[used]
    halves = _half_squares(sets, place)[used]
    left = (halves.sum() - halves) / (paired.sum() - paired)
    return left, variance_without_each(sets[used]) - left


def _half_squares(sets: FloatArray, place: int) -> FloatArray:
    """Return half the squared difference of base and swap, 0 if one is missing, shape (n,)."""
    return np.nan_to_num(np.square(sets[:, 0] - sets[:, place]) / 2, nan=0.0)


def _above(value: float, floor: float) -> float:
    return float(value) if value > floor else 0.0


def _mean_variance(sets: FloatArray) -> float:
    """Return the mean over sets of the variance within a set (ddof=1), sets with fewer than two scores left out."""
    variances = [float(values.var(ddof=1)) for column in sets.T if len(values := column[np.isfinite(column)]) >= 2]
    return float(np.mean(variances)) if variances else math.nan


def variance_without_each(sets: FloatArray) -> FloatArray:
    """Return shape (n,): the mean over sets of the variance within a set, without each row in turn; n at least 3."""
    finite = np.isfinite(sets)
    chosen = sets[:, finite.sum(axis=0) >= 3]
    if not chosen.size:
        return np.full(len(sets), math.nan)
    finite = np.isfinite(chosen)
    centred = np.where(finite, chosen - np.nanmean(chosen, axis=0), 0.0)
    # Taking one of n scores away lowers the sum of squares by n / (n - 1) times its own.
    count = finite.sum(axis=0)
    squares = np.square(centred)
    left = (squares.sum(axis=0) - count / (count - 1) * squares) / (count - finite - 1)
    means: FloatArray = np.maximum(0.0, left).mean(axis=1)  # rounding alone makes it negative
    return means
