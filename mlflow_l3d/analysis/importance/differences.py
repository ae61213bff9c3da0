"""Difference of the corrected importance of two factors whose tables share their rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from mlflow_l3d.analysis.importance.components import (
    effects,
    mean_squares_without_one_column,
    mean_squares_without_one_row,
)
from mlflow_l3d.analysis.importance.estimate import LEVEL, Estimate, jackknife_variance, smallest_tail
from mlflow_l3d.analysis.importance.intervals import crossed_estimate
from mlflow_l3d.analysis.importance.nested import nested_estimate, nested_variances_without_each
from mlflow_l3d.analysis.importance.radial import radial_estimate, radial_variances_without_each
from mlflow_l3d.analysis.importance.variances import Design
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


def paired_difference(
    tables: Mapping[str, FloatArray], first: str, second: str, *, design: Design, level: float = LEVEL
) -> PairedDifference:
    """Return the difference of two factors.

    Parameters
    ----------
    tables
        Factor -> shape (M, N), finite, the same rows in all; radial: (n, 2), base and swap, of all factors of the
        design (all of them serve the total).
    first, second
        Names in `tables`.
    design
        How all of them are laid out.
    level
        Confidence level of the interval.

    Returns
    -------
    PairedDifference
        Numbers are nan where a table is too small or constant.

    Notes
    -----
    Jackknife over rows, a row being left out of both tables together. In the crossed design the columns of the two
    tables are draws of different factors, so the jackknife variance over columns of each is added, and there are
    ``min(M, N) - 1`` degrees of freedom, else M - 1. It is taken on the scale of the importance, which is nearly that
    of the arcsine of sqrt(S_T): its error hardly depends on its value. Where one of the two has no usable logit (rows
    that do not differ for certain), leaving rows out understates the error, and the intervals of the two are set
    against each other instead (squares of their half-widths added, as for independent estimates).
    """
    rows = len(tables[first])
    estimates = [_estimate(tables, name, design) for name in (first, second)]
    one, other = estimates
    if one is None or other is None or one.limits is None or other.limits is None:
        scores = [math.nan if each is None else each.importance for each in estimates]
        nan = math.nan
        return PairedDifference(first, second, scores[0], scores[1], scores[0] - scores[1], nan, nan, nan, rows)
    difference = one.importance - other.importance
    if one.jackknife is None or other.jackknife is None:
        low, high = _against(one, other, level)
        p = min(1.0, 2 * smallest_tail(lambda at: _excludes_zero(*_against(one, other, at))))
    else:
        from scipy.special import stdtr, stdtrit

        of_rows = _without_each_row(tables, first, design) - _without_each_row(tables, second, design)
        variance = jackknife_variance(of_rows)
        degrees = rows - 1
        if design == "crossed":
            variance += sum(jackknife_variance(_without_each_column(tables[name])) for name in (first, second))
            degrees = min(rows, *(tables[name].shape[1] for name in (first, second))) - 1
        error = math.sqrt(variance)
        half = float(stdtrit(degrees, 1 - (1 - level) / 2)) * error
        low, high = difference - half, difference + half
        p = 2 * float(stdtr(degrees, -abs(difference) / error)) if error > 0 else float(difference == 0)
    return PairedDifference(first, second, one.importance, other.importance, difference, low, high, p, rows)


def _estimate(tables: Mapping[str, FloatArray], name: str, design: Design) -> Estimate | None:
    if design == "crossed":
        return crossed_estimate(tables[name])
    if design == "nested":
        return nested_estimate(tables[name])
    return radial_estimate(_sets(tables, name), 1)


def _sets(tables: Mapping[str, FloatArray], name: str) -> FloatArray:
    """Return the base runs, the swaps of one factor, and those of the others, shape (n, K + 1)."""
    others = [table[:, 1] for other, table in tables.items() if other != name]
    return np.column_stack([tables[name][:, 0], tables[name][:, 1], *others])


def _without_each_row(tables: Mapping[str, FloatArray], name: str, design: Design) -> FloatArray:
    """Return the corrected importance without each row in turn, shape (M,)."""
    table = tables[name]
    if design == "nested":
        return _importances(*nested_variances_without_each(table))
    if design == "radial":
        return _importances(*radial_variances_without_each(_sets(tables, name), 1))
    rows, columns = table.shape
    return _crossed(*mean_squares_without_one_row(effects(table)), rows - 1, columns)


def _without_each_column(table: FloatArray) -> FloatArray:
    """Return the corrected importance of a crossed table without each column in turn, shape (N,)."""
    rows, columns = table.shape
    return _crossed(*mean_squares_without_one_column(effects(table)), rows, columns - 1)


def _crossed(of_rows: FloatArray, of_columns: FloatArray, residual: FloatArray, rows: int, columns: int) -> FloatArray:
    return _importances(of_columns / rows + (1 - 1 / rows) * residual, (of_rows - residual) / columns)


def _importances(contributed: FloatArray, mitigated: FloatArray) -> FloatArray:
    left = np.maximum(0.0, mitigated)
    scores: FloatArray = (np.sqrt(contributed) - np.sqrt(left)) / np.sqrt(contributed + left)
    return scores


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
