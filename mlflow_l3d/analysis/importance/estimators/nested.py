"""The nested design: fresh columns for every row, so that rows are independent of each other.

The model of a table is ``y_ij = mu + b_i + w_ij``: rows i are configurations of all other factors, and the N
configurations of the investigated factor under a row occur nowhere else. What the factor contributes (main effect and
interaction together) is the variance within rows.

The radial design has n base runs, and for every factor the same n runs with only that factor redrawn. It gives the
importance of all K factors at once from n (K + 1) runs. Base and swap runs each are n independent draws of every
factor, so they serve as golden runs too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from mlflow_l3d.analysis.importance.estimate import (
    BOUNDARY_TAIL,
    SMALLEST_SHARE,
    Estimate,
    Variances,
    atanh_left,
    importance_of_atanh,
    importance_of_variances,
    leave_out,
    log_ratio,
)
from mlflow_l3d.analysis.importance.tables import rounding_variance, with_scores
from mlflow_l3d.analysis.importance.variances import MeanSquares, VarianceComponents
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, kurtosis_degrees

UNEQUAL: Final = 1.645
"""Standard errors from which variances of rows differ by more than chance."""


def nested_components(table: FloatArray) -> MeanSquares | None:
    """Return the mean squares of a nested table.

    Parameters
    ----------
    table
        Shape (M, N): rows are mitigation runs, each with investigation runs of its own; nan if a score is missing.

    Returns
    -------
    MeanSquares or None
        None if fewer than two rows, or places in a row, have scores, or no row has two.
    """
    table = with_scores(table)
    return _mean_squares(_Rows.of(table), table.shape) if min(table.shape) >= 2 else None


def _mean_squares(rows: _Rows, shape: tuple[int, ...]) -> MeanSquares | None:
    """Return the mean squares of a table of this shape; None if no row has two scores."""
    degrees = int(rows.scores.sum()) - shape[0]
    if degrees < 1:
        return None
    of_rows = float((rows.scores * np.square(rows.means)).sum()) / (shape[0] - 1)
    residual = float(rows.within.sum()) / degrees
    of_rows = 0.0 if of_rows <= rows.floor else of_rows
    size = float(_row_size(rows.scores.sum(), np.square(rows.scores).sum(), shape[0]))
    no_columns = math.nan  # rows share none
    return MeanSquares(shape[0], shape[1], of_rows, residual, no_columns, size, no_columns, degrees)


def nested_estimate(table: FloatArray) -> Estimate | None:
    """Return the corrected importance of a nested table with its error.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing.

    Returns
    -------
    Estimate or None
        None as for :func:`nested_components`; without an interval below three rows, and where no score changes within
        a row.

    Notes
    -----
    Jackknife over rows of ``logit(S_T) = log(tau2 / s2_R)`` with M - 1 degrees of freedom, or fewer if some rows have
    more scores than others, or spread more: those of the kurtosis (:func:`kurtosis_degrees`). If rows do not differ
    significantly (F test, one-sided at 97.5 %) the logit has no usable error, and :func:`nested_limits` is used. The
    interval of unequal rows holds these limits, too: where 15 of 20 rows had one score of ten, 6.9 % of claims of 5 %
    were false without them.
    """
    table = with_scores(table)
    if min(table.shape) < 2 or (squares := _mean_squares(rows := _Rows.of(table), table.shape)) is None:
        return None
    if len(table) < 3:
        return Estimate(squares.variances(), squares)
    jackknife, without = None, _without_each(rows)
    if not squares.contributed > 0:
        return Estimate(squares.variances(), squares, without=(without,))
    inequality = _inequality(rows)
    if squares.rows_differ(BOUNDARY_TAIL):
        degrees = _row_degrees(squares, rows.scores)
        jackknife = leave_out(squares.contributed, squares.mitigated, without, most=(degrees,))
        if jackknife is not None and inequality:
            degrees = kurtosis_degrees(log_ratio(*without))
            jackknife = replace(jackknife, degrees=min(jackknife.degrees, degrees))
    unequal = rows if np.ptp(rows.scores) else None
    limits = partial(nested_limits, squares, inequality=inequality, unequal=unequal)
    return Estimate(squares.variances(), squares, jackknife, limits, (without,), is_careful=unequal is not None)


def _inequality(rows: _Rows) -> float:
    """Return the squared coefficient of variation of the true variances within rows, 0 if chance alone may make it.

    By moments of normal scores, with the score test of equal variances (Neyman and Scott 1966), one-sided at 5 %.
    """
    several = rows.scores > 1
    degrees, count = rows.scores[several] - 1, int(several.sum())
    variances = rows.within[several] / degrees
    squares = np.square(variances / variances.mean())
    others = max(count - float(squares.mean()), SMALLEST_SHARE)
    inequality = min(count, float((squares * degrees / (degrees + 2)).mean()) * (count - 1) / others) - 1
    return inequality if inequality * math.sqrt((degrees * (degrees + 2)).sum() / 8) > UNEQUAL else 0.0


def _row_degrees(squares: MeanSquares, scores: FloatArray) -> float:
    """Return the degrees of freedom of the jackknife for normal scores (Satterthwaite 1946), from the scores by row.

    Its variance is a sum over rows, in which those with many scores count more.
    """
    within = (scores - 1) / squares.residual_degrees**2
    between = (scores * squares.mitigated + squares.residual) / squares.of_rows / (squares.rows - 1)
    parts = within + np.square(between)
    return float((1 - 1 / squares.rows) * parts.sum() ** 2 / np.square(parts).sum())


def nested_limits(
    squares: MeanSquares, level: float = LEVEL, *, inequality: float = 0.0, unequal: _Rows | None = None
) -> tuple[float, float]:
    """Return the interval of the corrected importance from the F distribution of ``MS_R / MS_W``.

    Notes
    -----
    Exact for normal scores and rows of one variance: ``MS_R / MS_W`` is ``1 + N s2_R / tau2`` times an F variable with
    M - 1 and M(N - 1) degrees of freedom; see :meth:`~mlflow_l3d.analysis.importance.variances.MeanSquares.chance`.
    Rows of `unequal` numbers n_i of scores make it with weights ``n_i / (1 + n_i s2_R / tau2)`` (Wald 1940).
    """
    from scipy.optimize import brentq

    if unequal is None or squares.of_rows <= squares.residual:
        least, most = squares.mitigated_limits(level, inequality)
        return importance_of_variances(squares.residual, most), importance_of_variances(squares.residual, least)

    def surplus(ratio: float, chance: float, rows: _Rows = unequal) -> float:
        weights = rows.scores / (1 + ratio * rows.scores)
        squared = np.square(rows.means - weights @ rows.means / weights.sum())
        return float(weights @ squared) / (squares.rows - 1) / squares.residual - chance

    ratios = []
    for chance in squares.chance(level, inequality):
        most = 2 * float(unequal.means.var(ddof=1)) / squares.residual / chance
        ratios.append(brentq(surplus, 0, most, chance) if surplus(0, chance) > 0 else 0.0)
    return importance_of_variances(1.0, ratios[1]), importance_of_variances(1.0, ratios[0])


class _Rows(NamedTuple):
    """Scores of each row, shape (M,), about the mean of all."""

    scores: FloatArray
    """How many there are."""
    means: FloatArray
    within: FloatArray
    """Sums of squares about the mean of the row."""
    floor: float
    """Variances up to this are rounding, and count as zero."""

    @classmethod
    def of(cls, table: FloatArray) -> _Rows:
        finite = np.isfinite(table)
        floor = rounding_variance(table[finite])
        count = finite.sum(axis=1, dtype=np.float64)
        centred = np.where(finite, table - table.mean(where=finite), 0.0)
        means = centred.sum(axis=1) / count
        squares = np.square(np.where(finite, centred - means[:, None], 0.0)).sum(axis=1)
        return cls(count, means, np.where(squares <= count * floor, 0.0, squares), floor)


def _row_size(scores: FloatArray, squares: FloatArray, rows: int) -> FloatArray:
    """Return how many scores a row counts for in the mean square of rows, from all scores and their squares by row."""
    return (scores - squares / scores) / (rows - 1)


def _without_each(rows: _Rows) -> Variances:
    """Return contributed and (untruncated) mitigated variance without each of 3 or more rows in turn, shape (M,)."""
    count, scores = rows.scores, rows.scores.sum()
    left, members = scores - count, len(count) - 1
    degrees = left - members
    contributed = (rows.within.sum() - rows.within) / np.where(degrees > 0, degrees, np.nan)
    # The rows' sum is zero, so that without row i their mean is -count_i mean_i / left_i.
    of_row = count * np.square(rows.means)
    of_means = (of_row.sum() - of_row * scores / left) / (members - 1)
    size = _row_size(left, np.square(count).sum() - np.square(count), members)
    return contributed, (of_means - contributed) / size


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
    come out above 1, where a logit has no value. If this scale has none either (S_T,k above 2, or 0 without one pair,
    since no other differs), the limits of base and swap as a nested table of two columns are used
    (:func:`mlflow_l3d.analysis.importance.estimators.nested.nested_limits`). If no pair differs there is no interval:
    an effect that shows in some pairs only may have been missed by all (L3D010).
    """
    finite = np.isfinite(sets)
    paired = finite[:, 0] & finite[:, place]
    table = sets[paired][:, [0, place]]
    pairs = nested_components(table)
    if pairs is None:
        return None
    floor = rounding_variance(sets[finite])
    # A set with a pair has two scores or more; others with fewer are left out.
    of_sets = [values.var(ddof=1) for column in sets.T if len(values := column[np.isfinite(column)]) >= 2]
    squares = float(_half_squares(sets, place).sum()) / pairs.rows, float(np.mean(of_sets))
    tau2, sigma2 = (square if square > floor else 0.0 for square in squares)
    size, total = (pairs.rows, 2), max(sigma2, tau2)
    parts = (tau2, sigma2 - tau2)
    variances = VarianceComponents("radial", "jansen", *size, *parts, total=total, contributed_degrees=pairs.rows)
    if pairs.rows < 3 or not (sigma2 > 0 and tau2 > 0 and pairs.contributed > 0):
        return Estimate(variances, pairs)
    without = radial_variances_without_each(sets, place)
    jackknife = leave_out(tau2, sigma2 - tau2, without, scale=atanh_left, importance=importance_of_atanh)
    limits = partial(nested_limits, pairs, inequality=_inequality(_Rows.of(table)))
    return Estimate(variances, pairs, jackknife, limits, (without,))


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
