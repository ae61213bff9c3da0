"""Difference of the corrected importance of two factors whose tables share their rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from mlflow_l3d.analysis.importance.estimate import Estimate, smallest_tail
from mlflow_l3d.analysis.importance.models import TableModel
from mlflow_l3d.analysis.jackknife import LEVEL, jackknife_variance
from mlflow_l3d.analysis.typing import FloatArray


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Difference of the corrected importance of two factors, from the rows they share.

    Attributes
    ----------
    first, second
        The factors.
    first_importance, second_importance, difference
        Corrected scores, and first minus second.
    low, high
        Interval of the difference for this pair alone.
    p
        Two-sided p-value of "no difference".
    rows
        Shared rows.
    """

    first: str
    second: str
    first_importance: float
    second_importance: float
    difference: float
    low: float
    high: float
    p: float
    rows: int

    def turned(self) -> PairedDifference:
        """Return second minus first."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            first_importance=self.second_importance,
            second_importance=self.first_importance,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
        )


@dataclass(frozen=True)
class Compared:
    """What the comparison of one factor with another needs.

    Attributes
    ----------
    factor
        Its name.
    rows
        Rows of the table, the same in all tables that are compared.
    estimate
        The corrected importance; None where the table is too small or constant.
    without_each_row, without_each_column
        Return the corrected importance without each row, or column, in turn. Columns are None where a table has none
        that are draws as rows are.
    columns
        How many of these columns there are; 0 for none.
    """

    factor: str
    rows: int
    estimate: Estimate | None
    without_each_row: Callable[[], FloatArray]
    without_each_column: Callable[[], FloatArray] | None = None
    columns: int = 0


def table_compared(table: FloatArray, factor: str, model: TableModel) -> Compared:
    """Return what the comparison of a factor needs from its complete table, shape (M, N)."""
    of_columns = model.without_each_column
    return Compared(
        factor,
        len(table),
        model.estimate(table),
        lambda: model.without_each_row(table),
        None if of_columns is None else lambda: of_columns(table),
        0 if of_columns is None else table.shape[1],
    )


def paired_difference(first: Compared, second: Compared, *, level: float = LEVEL) -> PairedDifference:
    """Return the difference of two factors.

    Parameters
    ----------
    first, second
        The factors, from tables of the same rows.
    level
        Confidence level of the interval.

    Returns
    -------
    PairedDifference
        Numbers are nan where a table is too small or constant.

    Notes
    -----
    Jackknife over rows, a row being left out of both tables together. Where columns are draws, too, those of the two
    tables are draws of different factors, so the jackknife variance over columns of each is added, and there are
    ``min(M, N) - 1`` degrees of freedom, else M - 1. It is taken on the scale of the importance, which is nearly that
    of the arcsine of sqrt(S_T): its error hardly depends on its value. Where one of the two has no usable logit (rows
    that do not differ for certain), leaving rows out understates the error, and the intervals of the two are set
    against each other instead (squares of their half-widths added, as for independent estimates).
    """
    one, other = first.estimate, second.estimate
    if one is None or other is None or one.limits is None or other.limits is None:
        scores = [math.nan if each is None else each.importance for each in (one, other)]
        nan = math.nan
        return PairedDifference(
            first.factor, second.factor, scores[0], scores[1], scores[0] - scores[1], nan, nan, nan, first.rows
        )
    difference = one.importance - other.importance
    if one.jackknife is None or other.jackknife is None:
        low, high = _against(one, other, level)
        p = min(1.0, 2 * smallest_tail(lambda at: _excludes_zero(*_against(one, other, at))))
    else:
        from scipy.special import stdtr, stdtrit

        variance = jackknife_variance(first.without_each_row() - second.without_each_row())
        of_columns = [each.without_each_column for each in (first, second) if each.without_each_column is not None]
        variance += sum(jackknife_variance(without()) for without in of_columns)
        degrees = min(count for count in (first.rows, first.columns, second.columns) if count) - 1
        error = math.sqrt(variance)
        half = float(stdtrit(degrees, 1 - (1 - level) / 2)) * error
        low, high = difference - half, difference + half
        p = 2 * float(stdtr(degrees, -abs(difference) / error)) if error > 0 else float(difference == 0)
    return PairedDifference(
        first.factor, second.factor, one.importance, other.importance, difference, low, high, p, first.rows
    )


def _against(one: Estimate, other: Estimate, level: float) -> tuple[float, float]:
    """Return the interval of a difference from the intervals of its two parts."""
    (low, high), (other_low, other_high) = one.interval(level), other.interval(level)
    difference = one.importance - other.importance
    return (
        difference - math.hypot(one.importance - low, other_high - other.importance),
        difference + math.hypot(high - one.importance, other.importance - other_low),
    )


def _excludes_zero(low: float, high: float) -> bool:
    return low > 0 or high < 0
