"""The radial design: n base runs, and for every factor the same n runs with only that factor drawn anew.

It gives the importance of all K factors at once from n (K + 1) runs. Base and swap runs each are n independent draws of
every factor, so they serve as golden runs too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.components import ROUNDING
from mlflow_l3d.analysis.importance.differences import Compared
from mlflow_l3d.analysis.importance.estimate import Estimate, LogitJackknife, log_ratio
from mlflow_l3d.analysis.importance.models import importances_of_variances
from mlflow_l3d.analysis.importance.nested import nested_components, nested_limits, rows_differ
from mlflow_l3d.analysis.importance.variances import variance_components
from mlflow_l3d.analysis.jackknife import jackknife_variance
from mlflow_l3d.analysis.typing import FloatArray

JACKKNIFE_TAIL: Final = 0.0005
"""One-sided level of the F test for rows that differ; the jackknife of the logit is used only where they do.

Chosen by simulation (normal scores, n from 20 to 100): with 0.025 the intervals cover 0.90 at S_T from 0.8 to 0.9.
"""


def radial_sets(base: npt.ArrayLike, swaps: Mapping[str, npt.ArrayLike]) -> FloatArray:
    """Return base and swap runs side by side, shape (n, K + 1), nan where a score is missing.

    Parameters
    ----------
    base
        Shape (n,): scores of the base runs.
    swaps
        Factor -> shape (n,): scores of the same runs with that factor drawn anew.

    Raises
    ------
    ValueError
        If there is no factor, or a set has another length than the base.
    """
    sets = [np.array(values, dtype=np.float64) for values in (base, *swaps.values())]
    if not swaps or any(values.shape != (len(sets[0]),) for values in sets):
        shapes = ", ".join(str(values.shape) for values in sets)
        msg = f"base and swaps must have one axis and equal lengths, one swap a factor at least; got {shapes}"
        raise ValueError(msg)
    return np.column_stack(sets)


def radial_estimate(sets: FloatArray, place: int) -> Estimate | None:
    """Return the corrected importance of one factor with its error.

    Parameters
    ----------
    sets
        Shape (n, K + 1): column 0 the base runs, the others one factor each; nan where a score is missing.
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

    Jackknife over rows (a row is left out of every set) of logit(S_T,k), degrees of freedom: rows - 1. Base and swap of
    one factor are a nested table of two columns; where its rows do not differ for certain (F test at the one-sided
    level :data:`JACKKNIFE_TAIL`), or the logit has no value, the limits of that table are used
    (:func:`mlflow_l3d.analysis.importance.nested.nested_limits`).
    """
    known = np.isfinite(sets)
    paired = known[:, 0] & known[:, place]
    rows = int(paired.sum())
    pairs = nested_components(sets[paired][:, [0, place]])
    if pairs is None:
        return None
    floor = (ROUNDING * float(np.abs(sets[known]).max())) ** 2
    tau2 = _above(float(_half_squares(sets, place).sum()) / rows, floor)
    sigma2 = _above(_mean_variance(sets), floor)
    variances = variance_components(
        "radial", "jansen", rows=rows, columns=2, contributed=tau2, mitigated=sigma2 - tau2, total=max(sigma2, tau2)
    )
    if rows < 3 or not sigma2 > 0:
        return Estimate(variances)
    jackknife = None
    if rows_differ(pairs, tail=JACKKNIFE_TAIL) and 0 < tau2 < sigma2:
        logits = log_ratio(*radial_variances_without_each(sets, place))
        if np.isfinite(logits).all():
            centre = math.log(tau2) - math.log(sigma2 - tau2)
            jackknife = LogitJackknife(centre, math.sqrt(jackknife_variance(logits)), rows - 1)
    return Estimate(variances, jackknife, lambda level: nested_limits(pairs, level=level))


def radial_variances_without_each(sets: FloatArray, place: int) -> tuple[FloatArray, FloatArray]:
    """Return contributed and (untruncated) mitigated variance of a factor without each row that has a score in turn.

    Parameters
    ----------
    sets, place
        As for :func:`radial_estimate`; at least three rows with both base and swap.
    """
    known = np.isfinite(sets)
    used = known.any(axis=1)
    paired = (known[:, 0] & known[:, place])[used]
    halves = _half_squares(sets, place)[used]
    left = (halves.sum() - halves) / (paired.sum() - paired)
    return left, _variance_without_each(sets[used]) - left


def sets_of(tables: Mapping[str, FloatArray], factor: str) -> FloatArray:
    """Return the base runs, the swaps of one factor, and those of the others, shape (n, K + 1).

    Parameters
    ----------
    tables
        Factor -> shape (n, 2): base beside swap.
    factor
        Whose swaps come first.
    """
    others = [table[:, 1] for other, table in tables.items() if other != factor]
    return np.column_stack([tables[factor], *others])


def radial_compared(tables: Mapping[str, FloatArray], factor: str) -> Compared:
    """Return what the comparison of a factor needs; parameters as :func:`sets_of`, all factors of the design."""
    sets = sets_of(tables, factor)
    return Compared(
        factor,
        len(sets),
        radial_estimate(sets, 1),
        lambda: importances_of_variances(*radial_variances_without_each(sets, 1)),
    )


def _half_squares(sets: FloatArray, place: int) -> FloatArray:
    """Return half the squared difference of base and swap, 0 where one is missing, shape (n,)."""
    halves: FloatArray = np.nan_to_num(np.square(sets[:, 0] - sets[:, place]) / 2, nan=0.0)
    return halves


def _above(value: float, floor: float) -> float:
    return float(value) if value > floor else 0.0


def _mean_variance(sets: FloatArray) -> float:
    """Return the mean over sets of the variance within a set (ddof=1), sets with fewer than two scores left out."""
    variances = [float(values.var(ddof=1)) for column in sets.T if len(values := column[np.isfinite(column)]) >= 2]
    return float(np.mean(variances)) if variances else math.nan


def _variance_without_each(sets: FloatArray) -> FloatArray:
    """Return shape (n,): the mean over sets of the variance within a set, without each row in turn."""
    known = np.isfinite(sets)
    chosen = sets[:, known.sum(axis=0) >= 3]
    known = np.isfinite(chosen)
    centred = np.where(known, chosen - np.nanmean(chosen, axis=0), 0.0)
    # Taking one of n scores away lowers the sum of squares by n / (n - 1) times its own.
    count = known.sum(axis=0)
    squares = np.square(centred)
    left = (squares.sum(axis=0) - count / (count - 1) * squares) / (count - known - 1)
    means: FloatArray = left.mean(axis=1)
    return means
