"""The crossed design: how much of the variance of a score is the investigated factor's, and how sure that is.

The model of a table with rows i (configurations R of all other factors) and columns j (configurations F of the
investigated one) is ``y_ij = mu + b_i + a_j + (ab)_ij + e_ij``. With one score a cell the interaction and the rest
cannot be distinguished; both belong to what the investigated factor contributes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.estimate import (
    BOUNDARY_TAIL,
    NOT_SKEWED,
    Estimate,
    Skewed,
    Variances,
    importance_of_variances,
    leave_out,
    total_index_of,
)
from mlflow_l3d.analysis.importance.estimators.missing_cells import unbalanced_components, variances_without_each
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import rounding_variance, with_scores
from mlflow_l3d.analysis.importance.variances import MeanSquares, skewed_degrees
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, jackknife_variance

FILLED: Final = 1e-6
"""Missing cells are filled in until they change by less than this share of the standard deviation of the scores ..."""
MOST_FILLINGS: Final = 100
"""... or this often: tables that fall into parts have no one answer."""
DOWNDATE_ROUNDING: Final = 1e-12
"""A sum of squares that falls below this share of itself when one row is taken away is rounding, and counts as zero."""


class Effects(NamedTuple):
    """A complete table taken apart: ``table = mean + of_rows + of_columns + residuals``.

    Attributes
    ----------
    of_rows, of_columns, residuals
        Shapes (M,), (N,), (M, N); each sums to zero along every axis.
    floor
        Variances up to this count as zero.
    """

    of_rows: FloatArray
    of_columns: FloatArray
    residuals: FloatArray
    floor: float

    @property
    def turned(self) -> Effects:
        """The same with rows and columns exchanged."""
        return Effects(self.of_columns, self.of_rows, self.residuals.T, self.floor)


def effects(table: FloatArray) -> Effects:
    """Take a complete table apart into the effects of rows, of columns, and the residuals.

    Parameters
    ----------
    table
        Shape (M, N), finite, M and N at least 1.
    """
    centred = table - table.mean()
    of_rows, of_columns = centred.mean(axis=1), centred.mean(axis=0)
    return Effects(of_rows, of_columns, centred - of_rows[:, None] - of_columns, rounding_variance(table))


def crossed_components(table: FloatArray) -> MeanSquares | None:
    """Return the mean squares of a crossed table.

    Parameters
    ----------
    table
        Shape (M, N): rows are mitigation runs, columns investigation runs; nan if a score is missing.

    Returns
    -------
    MeanSquares or None
        None if fewer than two rows or columns have scores, or too few scores are left.

    Notes
    -----
    Two-way random-effects analysis of variance; ``mean_i var1_j(y) = MS_F / M + (1 - 1/M) MS_E`` is the contributed
    variance. If cells are missing:
    :func:`~mlflow_l3d.analysis.importance.estimators.missing_cells.unbalanced_components`.
    """
    table = with_scores(table)
    if min(table.shape) < 2:
        return None
    if not np.isfinite(table).all():
        return unbalanced_components(table)
    parts, (rows, columns) = effects(table), table.shape
    squares = (
        columns * float(parts.of_rows @ parts.of_rows) / (rows - 1),
        float(np.square(parts.residuals).sum()) / ((rows - 1) * (columns - 1)),
        rows * float(parts.of_columns @ parts.of_columns) / (columns - 1),
    )
    of_rows, residual, of_columns = (0.0 if square <= parts.floor else square for square in squares)
    return MeanSquares.complete(rows, columns, of_rows, residual, of_columns)


def crossed_estimate(table: FloatArray) -> Estimate | None:
    """Return the corrected importance of a crossed table with its error.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing.

    Returns
    -------
    Estimate or None
        None if there are fewer than two rows or columns, or too few scores; without an interval below three of
        either, and where no score changes within a row: an effect that shows in some cells only may have been missed.

    Notes
    -----
    Jackknife of ``logit(S_T) = log(contributed / mitigated)``. Rows and columns are both random, so the variance equals
    that of leaving out one row at a time plus that of leaving out one column at a time, less what both count
    (:func:`_overlap`); degrees of freedom by Welch and Satterthwaite. Leaving out rows alone would claim a precision
    that N columns cannot give. The mean square of columns is one of few draws, so that its error is taken on its own
    logarithm: ends lie as far from the centre as that moves the contributed variance, the rest added in squares. Of few
    columns the upper end counts the error of draws as skewed as they are, if it is larger.

    The logit has no bounds near its ends, so :func:`boundary_interval` is used where rows differ no more than chance
    allows (F test of ``MS_R / MS_E``, one-sided at 97.5 %), or a component is zero in the table or in one that lacks a
    row or column. In simulations with normal scores (3 x 3 to 100 x 10, S_T from 0.1 to 1) the two together cover the
    truth in 93 % of tables or more; the jackknife alone in 79 % where the other factors have no effect.
    """
    table = with_scores(table)
    squares = crossed_components(table)
    if squares is None:
        return None
    if min(table.shape) < 3:
        return Estimate(squares.variances(), squares)
    jackknife, without = None, crossed_without_each(table)
    if not squares.contributed > 0:
        return Estimate(squares.variances(), squares, without=without)
    if squares.rows_differ(BOUNDARY_TAIL):
        parts = effects(_filled(table))
        overlap = _overlap(np.isfinite(table), parts, squares)
        skewed = _of_column_means(parts, squares)
        jackknife = leave_out(squares.contributed, squares.mitigated, *without, overlap=overlap, skewed=skewed)
    return Estimate(squares.variances(), squares, jackknife, partial(boundary_interval, squares), without)


def _overlap(known: npt.NDArray[np.bool_], parts: Effects, squares: MeanSquares) -> float:
    """Return the part of the variance of logit(S_T) that leaving out rows and leaving out columns both count.

    Notes
    -----
    The variance of a statistic of two crossed random samples equals that of rows plus that of columns less that of
    cells (Owen 2007, The pigeonhole bootstrap). Of cells: the derivatives of the mean squares by the weight of a cell,
    which are ``e^2``, ``2 r e`` and ``2 c e`` by their degrees of freedom but for what belongs to its row or column
    alone, put together as the logit is, and centred in both directions.
    """
    (rows, columns), rest, degrees = known.shape, parts.residuals, squares.residual_degrees
    residual = np.square(rest) / degrees
    of_rows = 2 * parts.of_rows[:, None] * rest / (rows - 1)
    of_columns = 2 * parts.of_columns * rest / (columns - 1)
    contributed = (of_columns / squares.column_size + (1 - 1 / squares.column_size) * residual) / squares.contributed
    logit = contributed - (of_rows - residual) / squares.row_size / squares.mitigated
    cells = effects(logit).residuals[known]
    return float(cells @ cells) * cells.size / degrees


def _of_column_means(parts: Effects, squares: MeanSquares) -> Skewed:
    """Return the part of the contributed variance that column means have, with the jackknife error of its logarithm."""
    of_columns = mean_squares_without_one_row(parts.turned)[0]
    if not (squares.of_columns > 0 and (of_columns > 0).all()):
        return NOT_SKEWED
    share = squares.of_columns / squares.column_size / squares.contributed
    upward = math.sqrt(2 / skewed_degrees(parts.of_columns, squares.columns - 1))
    return Skewed(share, math.sqrt(jackknife_variance(np.log(of_columns))), upward)


def _filled(table: FloatArray) -> FloatArray:
    """Return a table whose missing cells are the sums of the effects of rows and columns of the others."""
    finite = np.isfinite(table)
    filled = np.where(finite, table, table[finite].mean())
    change = 0.0 if finite.all() else math.inf
    enough, rounds = FILLED * float(table[finite].std()), 0
    while change > enough and rounds < MOST_FILLINGS:
        before, rounds = filled, rounds + 1
        filled = np.where(finite, table, before - effects(before).residuals)
        change = float(np.abs(filled - before).max())
    return filled


def crossed_without_each(table: FloatArray) -> tuple[Variances, Variances]:
    """Return contributed and mitigated variance without each row in turn, and without each column.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing; every row and every column, at least three of each, has one.
    """
    if not np.isfinite(table).all():
        return variances_without_each(table)
    (rows, columns), parts = table.shape, effects(table)
    of_columns, of_rows, residual = mean_squares_without_one_row(parts.turned)
    without_row = _variances(*mean_squares_without_one_row(parts), rows - 1, columns)
    return without_row, _variances(of_rows, of_columns, residual, rows, columns - 1)


def boundary_interval(squares: MeanSquares, level: float = LEVEL) -> tuple[float, float]:
    """Return a conservative interval of the corrected importance where the jackknife is no good.

    Notes
    -----
    :meth:`~mlflow_l3d.analysis.importance.variances.MeanSquares.mitigated_limits` and limits of the contributed
    variance from the chi-squared distribution of ``MS_F``, both two-sided at `level`, set against each other; for
    normal scores the pair covers at least about `level`.
    """
    from scipy.special import chdtri

    columns, column_size, tail = squares.columns, squares.column_size, (1 - level) / 2
    least, most = squares.mitigated_limits(level)
    contributed = [
        squares.of_columns * (columns - 1) / float(chdtri(columns - 1, upper_tail)) / column_size
        + (1 - 1 / column_size) * squares.residual
        for upper_tail in (tail, 1 - tail)
    ]
    return importance_of_variances(contributed[0], most), importance_of_variances(contributed[1], least)


def _variances(of_rows: FloatArray, of_columns: FloatArray, residual: FloatArray, rows: int, columns: int) -> Variances:
    return of_columns / rows + (1 - 1 / rows) * residual, (of_rows - residual) / columns


def mean_squares_without_one_row(parts: Effects) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean squares of rows, columns and residuals of the M tables that each lack one row, shape (M,) each.

    Notes
    -----
    Taking row i away changes column effect j to ``a_j - e_ij / (M - 1)`` and lowers the sums of squares of rows and of
    residuals by ``M / (M - 1)`` times the row's own, so that all M tables cost as much as one.
    """
    rows, columns = parts.residuals.shape
    left = _downdated(np.square(parts.residuals).sum(axis=1), rows / (rows - 1))
    squares = (
        columns * _downdated(np.square(parts.of_rows), rows / (rows - 1)) / (rows - 2),
        (rows - 1) * np.square(parts.of_columns - parts.residuals / (rows - 1)).sum(axis=1) / (columns - 1),
        left / ((rows - 2) * (columns - 1)),
    )
    of_rows, of_columns, residual = (np.where(each <= parts.floor, 0.0, each) for each in squares)
    return of_rows, of_columns, residual


def _downdated(squares: FloatArray, shrink: float) -> FloatArray:
    """Return the sum of squares that is left without each member in turn, rounding errors set to zero."""
    total = squares.sum()
    left = total - shrink * squares
    return np.where(left <= DOWNDATE_ROUNDING * total, 0.0, left)


def with_first_order(record: Importance) -> Importance:
    """Return the record of a crossed table with its first-order index (Sobol' 1993).

    Notes
    -----
    ``S_1 = s2_F / sigma2``, from the variances of the record and not below 0, is what the rows leave: 1 - S_T of the
    table turned, whose columns are the configurations of all other factors. So its interval equals that of the other
    one, turned, and reaches to S_1 where a variance below 0 is cut in one of the two alone.
    """
    components, estimate = record.components, crossed_estimate(record.table.T)
    if components is None or not components.total > 0:
        return record
    index, low, high = max(0.0, components.main) / components.total, math.nan, math.nan
    if estimate is not None:
        low, high = (1 - total_index_of(end) for end in reversed(estimate.interval(record.level)))
        low, high = min(low, index), max(high, index)
    return replace(record, first_order_index=index, first_order_ci_low=low, first_order_ci_high=high)
