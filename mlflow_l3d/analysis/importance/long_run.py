"""What the published importance tends to with many runs: its interval, and how unevenly rows are spread."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import BOUNDARY_TAIL
from mlflow_l3d.analysis.importance.estimators import LEVELS, TableModel
from mlflow_l3d.analysis.importance.tables import known_std, with_scores
from mlflow_l3d.analysis.importance.variances import std_shrinkage
from mlflow_l3d.analysis.intervals import (
    LEVEL,
    FloatArray,
    combined_error,
    jackknife_variance,
    means_without,
    t_quantile,
)

NOWHERE: Final = (math.nan, math.nan)


def published_interval(
    table: FloatArray, golden: FloatArray, model: TableModel, *, level: float = LEVEL
) -> tuple[float, float]:
    """Return the interval of what the published importance tends to with many rows, columns and golden runs.

    Parameters
    ----------
    table
        Shape (M, N): scores, nan if one is missing.
    golden
        Shape (L,): golden scores, finite.
    model
        How the columns belong together.
    level
        Confidence level.

    Returns
    -------
    tuple of float
        Cut at -1 and 1, between which the limit lies if golden runs vary as the table does. Both nan below three rows,
        golden runs, or columns (nested: two), and if a standard deviation is 0.

    Notes
    -----
    The estimand is ``(E[s_i] - sd(m_i)) / sd(golden)``: s_i is the standard deviation and m_i the mean of a row of
    endless length, and rows are drawn. The published number itself is biased: its standard deviations within rows are
    too small by the factor of :func:`~mlflow_l3d.analysis.importance.variances.std_shrinkage`, and its row means hold
    a part of the factor. Both are taken out, and what bias is left by the jackknife. Errors: jackknife over rows plus
    columns if these are draws, plus that of the golden runs; t with min(M, N) - 1 degrees of freedom (nested: M - 1).
    The error of ``E[s_i]`` is taken on the scale of its logarithm. If rows do not differ significantly, limits of their
    variance from the F distribution take the place of the jackknife (Zou and Donner 2008).
    """
    table = with_scores(table)
    if model is LEVELS:
        table = table[np.isfinite(table).all(axis=1)]
    if min(len(table), len(golden)) < 3 or table.shape[1] < model.least_columns:
        return NOWHERE
    estimate, golden_std = model.estimate(table), known_std(golden, ddof=1)
    if estimate is None or (squares := estimate.squares) is None or not (squares.contributed > 0 and golden_std > 0):
        return NOWHERE
    spreads = _spreads(table, model)
    within = float(np.nanmean(spreads))
    of_rows = math.sqrt(max(0.0, squares.mitigated))
    variances = estimate.without
    left_within = [means_without(spreads)]
    if model.shared_columns:
        left_within.append(_within_without_columns(table))
    left = [
        each - np.sqrt(np.maximum(0.0, mitigated)) for each, (_, mitigated) in zip(left_within, variances, strict=True)
    ]
    squared_distances = np.square(golden - golden.mean())
    golden_left = (
        np.log(np.maximum(squared_distances.sum() - len(golden) / (len(golden) - 1) * squared_distances, 1e-300)) / 2
    )
    difference = within - of_rows
    centre = (difference - sum((len(each) - 1) * (each.mean() - difference) for each in left)) / golden_std
    error, _ = combined_error([*(each / golden_std for each in left), centre * golden_left])
    if not (math.isfinite(error) and min(each.min() for each in left_within) > 0):
        return NOWHERE
    quantile = t_quantile(min(len(each) for each in left) - 1, level)
    of_log, _ = combined_error([np.log(each) for each in left_within])
    sure = model is LEVELS or squares.rows_differ(BOUNDARY_TAIL)
    if sure and all((mitigated > 0).all() for _, mitigated in variances):
        part = within / golden_std
        rest = quantile * math.sqrt(max(0.0, error**2 - (part * of_log) ** 2))
        low, high = (part * math.expm1(sign * quantile * of_log) for sign in (-1, 1))
    else:
        centre, least, most = difference / golden_std, *squares.mitigated_limits(level)
        rest = quantile * abs(centre) * math.sqrt(jackknife_variance(golden_left))
        low = -math.hypot(within * math.expm1(-quantile * of_log), math.sqrt(most) - of_rows) / golden_std
        high = math.hypot(within * math.expm1(quantile * of_log), of_rows - math.sqrt(least)) / golden_std
    return max(-1.0, centre - math.hypot(rest, low)), min(1.0, centre + math.hypot(rest, high))


def uneven_rows(table: FloatArray, model: TableModel) -> tuple[float, float]:
    """Return how unevenly rows are spread, and how likely so uneven a table is if all rows spread alike.

    Parameters
    ----------
    table, model
        As for :func:`published_interval`.

    Returns
    -------
    tuple of float
        Squared coefficient of variation of the true standard deviations of rows, at least 0; and its one-sided p-value.
        Both nan below five rows or four columns (levels: two).

    Notes
    -----
    The covariance over rows of the standard deviations in two halves of the columns: what luck makes of a half, the
    other does not repeat, whatever the tails of the scores. The halves are even and odd columns, and the test is
    Spearman's rank correlation. If the columns are all levels, rows show their true spread.
    """
    from scipy.special import stdtr

    table = with_scores(table)
    levels = model is LEVELS
    if table.shape[1] < (2 if levels else 4):
        return NOWHERE
    one, other = (_spreads(table[:, at::2] if not levels else table, model) for at in (0, 1))
    both = np.isfinite(one) & np.isfinite(other)
    one, other, rows = one[both], other[both], int(both.sum())
    rounding = 1e-9 * float(np.nanmax(np.abs(table), initial=0.0))
    if rows < 5 or not (np.ptp(one) > rounding and np.ptp(other) > rounding):
        return NOWHERE
    covariance = float(np.cov(one, other)[0, 1])
    product = one.mean() * other.mean() - covariance / rows
    if not product > 0:
        return NOWHERE
    unevenness = max(0.0, covariance / product)
    if levels:
        return unevenness, 0.0
    # By pandas, since scipy.stats takes a second to import.
    first, second = (pd.Series(each).rank().to_numpy() for each in (one, other))
    correlation = float(np.clip(np.corrcoef(first, second)[0, 1], 1e-12 - 1, 1 - 1e-12))
    return unevenness, float(stdtr(rows - 2, -correlation * math.sqrt((rows - 2) / (1 - correlation**2))))


def _spreads(table: FloatArray, model: TableModel) -> FloatArray:
    """Return the standard deviation of each row without bias for normal scores; nan below two scores."""
    count = np.isfinite(table).sum(axis=1)
    squares = _squares(table).sum(axis=1)
    return np.sqrt(squares / count) if model is LEVELS else _std(squares, count)


def _within_without_columns(table: FloatArray) -> FloatArray:
    """Return the mean spread of rows without each column in turn, shape (N,); nan if no row has two scores left."""
    finite, squares = np.isfinite(table), _squares(table)
    count = finite.sum(axis=1, keepdims=True)
    left = squares.sum(axis=1, keepdims=True) - count / np.maximum(1, count - 1) * squares
    spreads = _std(np.maximum(0.0, left), count - finite)
    known = np.isfinite(spreads).sum(axis=0)
    means: FloatArray = np.nansum(spreads, axis=0) / np.where(known > 0, known, np.nan)
    return means


def _squares(table: FloatArray) -> FloatArray:
    """Return squared distances from the mean of the row, 0 if a score is missing."""
    count = np.isfinite(table).sum(axis=1, keepdims=True)
    means = np.nan_to_num(table).sum(axis=1, keepdims=True) / np.maximum(1, count)
    squares: FloatArray = np.nan_to_num(np.square(table - means))
    return squares


def _std(squares: FloatArray, count: npt.NDArray[np.int64]) -> FloatArray:
    degrees = np.where(count > 1, count - 1, np.nan)
    return np.sqrt(squares / degrees) / std_shrinkage(degrees)
