"""Closure: a table and its golden runs estimate the same total variance, unless a seed reaches what it should not."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mlflow_l3d.analysis.importance.models import TableModel
from mlflow_l3d.analysis.importance.tables import rounding_variance, with_scores
from mlflow_l3d.analysis.jackknife import jackknife_variance
from mlflow_l3d.analysis.typing import FloatArray


class Closure(NamedTuple):
    """Two estimates of the standard deviation when every factor varies, and whether chance alone makes them differ.

    Attributes
    ----------
    table_std, golden_std
        From the table, and of the golden runs (both from variances without bias).
    p
        Two-sided p-value of "no difference".
    left_out
        Runs below chance, in table and golden runs, that were left out.
    """

    table_std: float
    golden_std: float
    p: float
    left_out: int


def closure(table: FloatArray, golden: FloatArray, model: TableModel, *, chance: float | None = None) -> Closure | None:
    """Compare the total variance of a table with that of golden runs.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing.
    golden
        Shape (L,), likewise.
    model
        How the columns of the table belong together.
    chance
        Score of guessing. Runs below it are left out: a few of them are most of a variance, and are easily all in the
        golden runs or all in the table.

    Returns
    -------
    Closure or None
        None if there are fewer than three golden runs, rows or (crossed) columns, or a variance is zero.

    Notes
    -----
    Welch's t test of the two log variances. Their errors come from leaving out one golden run, row or column at a time,
    so that scores need not be normal. Where a table has few rows, these may all be ordinary though the scores have a
    long tail; so its error is never taken for less than the tail of the golden runs says, with the degrees of freedom
    that the table has for normal scores.
    """
    left_out = 0
    if chance is not None:
        left_out = int((table < chance).sum() + (golden < chance).sum())
        table, golden = np.where(table < chance, np.nan, table), golden[~(golden < chance)]
    table, golden = with_scores(table), golden[np.isfinite(golden)]
    count = len(golden)
    if count < 3 or len(table) < 3 or table.shape[1] < model.least_columns:
        return None
    components, variance = model.components(table), float(golden.var(ddof=1))
    if components is None or not components.total > 0 or variance <= rounding_variance(golden):
        return None
    squares = np.square(golden - golden.mean())
    golden_error = _error((squares.sum() - count / (count - 1) * squares) / (count - 2))
    totals = [contributed + np.maximum(0.0, mitigated) for contributed, mitigated in model.without_each(table)]
    of_the_table = sum(map(_error, totals)), min(map(len, totals)) - 1
    of_the_tail = golden_error * (count - 1) / components.total_degrees, count - 1
    table_error, table_degrees = max(of_the_table, of_the_tail)
    error = table_error + golden_error
    if not math.isfinite(error) or error <= 0:
        return None
    from scipy.special import stdtr

    degrees = error**2 / (table_error**2 / table_degrees + golden_error**2 / (count - 1))
    difference = math.log(components.total) - math.log(variance)
    p = 2 * float(stdtr(degrees, -abs(difference) / math.sqrt(error)))
    return Closure(math.sqrt(components.total), math.sqrt(variance), p, left_out)


def _error(variances: FloatArray) -> float:
    """Return the jackknife variance of a log variance from the variances without each unit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return jackknife_variance(np.log(variances))
