"""The record of one factor: its importance score and what accompanies it; checks, and the numbers in their texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.intervals import FloatArray, known, with_interval

IMPORTANCE_METRICS = (
    *with_interval("importance"),
    "contributed_std",
    "mitigated_std",
    "golden_std",
    *with_interval("importance_corrected"),
    "moves_by_std",
    "unevenness",
    "score_mean",
    "score_std",
    "collapsed_share",
)
"""Metrics of one factor that a parent has, by their plain names; all are fields of :class:`Importance`."""


FURTHER_METRICS = (
    "score_iqr",
    *with_interval("golden_std")[1:],
    "first_order_index",
    *with_interval("first_order")[1:],
)


@dataclass(frozen=True, slots=True)
class Check:
    """A numbered warning: what is doubtful, and what to do.

    Attributes
    ----------
    code
        ``L3D001`` and so on; explained in docs/checks.md.
    severity
        ``info`` or ``warning``.
    title
        A few words.
    message
        One or two sentences with the numbers, and what to do.
    factor
        The factor it is about; None for the whole investigation.
    """

    code: str
    severity: Literal["info", "warning"]
    title: str
    message: str
    factor: str | None = None


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance score of one factor (Pecher et al. 2024, Algorithm 1), and what accompanies it.

    Attributes
    ----------
    factor
        The investigated factor.
    importance
        ``(contributed_std - mitigated_std) / golden_std``, as published; above 0 is "important" by the published rule.
    importance_ci_low, importance_ci_high
        Interval of what it tends to with many runs, widened to contain `importance`, whose bias may put it outside: see
        :func:`mlflow_l3d.analysis.importance.long_run.published_interval`; nan for designs that compare pairs
        or blocks of runs, which do not show how rows are spread, and for pooled golden runs.
    contributed_std, mitigated_std, golden_std
        Population standard deviations (ddof=0): mean over rows of the std within a row, std of the row means, std of
        the golden runs.
    golden_std_ci_low, golden_std_ci_high
        Its interval; nan if the golden runs are not independent of each other (pooled cells).
    importance_corrected, importance_corrected_ci_low, importance_corrected_ci_high
        ``sqrt(S_T) - sqrt(1 - S_T)``, S_T the estimated share of the variance, and its interval. It tends to another
        number than `importance` if rows are unevenly spread.
    moves_by_std
        Standard deviation that the factor causes, interactions included, without the bias of few runs.
    unevenness
        Squared coefficient of variation of the true standard deviations within rows; nan if the table does not show it.
    score_mean, score_std
        Over all cells of the factor's table (ddof=0).
    collapsed_share
        Share of the table's cells with a score below that of guessing; nan if that is not known.
    table
        Shape (M, N): rows are mitigation runs, columns investigation runs; nan if a cell is missing.
    golden
        Shape (L,): golden scores, nan where missing.
    rows_used
        Rows with a score: the rows behind the numbers above.
    cells_missing, golden_missing
        How many cells of the table, and golden runs, have no score.
    design
        Name of the design. In the ``radial`` design the table has two columns, base and swap, and the golden
        runs are all base and swap runs; see :func:`mlflow_l3d.analysis.importance.radial_importance`. A
        baseline strategy (``random``, ``fixed``) has one row and no importance.
    level
        Confidence level of the intervals, which may be above 95 % so that those of all factors hold together.
    components
        The variances behind the corrected importance, not cut at zero; None if there are none.
    score_iqr, golden_iqr
        Distance of the quartiles of all cells, and of the golden runs: spread that a few collapsed runs do not move.
    first_order_index, first_order_ci_low, first_order_ci_high
        S_1, the share of the variance that the factor causes by itself, and its interval; nan if the design
        does not identify it (all but the crossed one).
    golden_pooled
        Whether `golden` is not golden runs but the pooled cells of all tables, because there are none.
    """

    factor: str
    importance: float
    contributed_std: float
    mitigated_std: float
    golden_std: float
    score_mean: float
    score_std: float
    collapsed_share: float
    table: FloatArray
    golden: FloatArray
    rows_used: int
    cells_missing: int
    golden_missing: int
    design: str = "crossed"
    level: float = 0.95
    components: VarianceComponents | None = None
    importance_corrected: float = math.nan
    importance_corrected_ci_low: float = math.nan
    importance_corrected_ci_high: float = math.nan
    importance_ci_low: float = math.nan
    importance_ci_high: float = math.nan
    moves_by_std: float = math.nan
    unevenness: float = math.nan
    score_iqr: float = math.nan
    golden_iqr: float = math.nan
    golden_pooled: bool = False
    golden_std_ci_low: float = math.nan
    golden_std_ci_high: float = math.nan
    first_order_index: float = math.nan
    first_order_ci_low: float = math.nan
    first_order_ci_high: float = math.nan

    @property
    def corrected_interval(self) -> tuple[float, float]:
        """Interval of the corrected importance."""
        return self.importance_corrected_ci_low, self.importance_corrected_ci_high

    def estimated(self, estimate: Estimate) -> Importance:
        """Return the record with the corrected importance of an estimate, its interval and variances."""
        numbers = (estimate.importance, *estimate.interval(self.level))
        corrected: dict[str, Any] = dict(zip(with_interval("importance_corrected"), numbers, strict=True))
        parts = estimate.components
        return replace(self, **corrected, moves_by_std=parts.moves_by_std, components=parts)

    def metrics(self) -> dict[str, float]:
        """Return the parent metrics of this factor, by their plain names; those that are nan are left out."""
        return known({name: float(getattr(self, name)) for name in IMPORTANCE_METRICS})

    def details(self) -> dict[str, float]:
        """Return the further metrics that a finished parent has; those that are nan are left out.

        ``score_iqr``, the interval of ``golden_std``, the first-order index with its interval, and the variances behind
        the corrected importance: ``variance_main``, ``variance_interaction``, ``variance_mitigated``,
        ``variance_contributed``, ``variance_total``, in squared units of the score, not cut at 0.
        """
        values = {name: getattr(self, name) for name in FURTHER_METRICS}
        if self.components is not None:
            names = ("main", "interaction", "mitigated", "contributed", "total")
            values |= {f"variance_{name}": float(getattr(self.components, name)) for name in names}
        return known(values)


SHOWN: Final = 8
"""How many rows or columns a message names."""


def points(value: float) -> str:
    """Return a fraction as percentage points with two decimals, as the papers print it."""
    return f"{100 * value:.2f}"


def in_unit(value: float, *, percent: bool) -> str:
    """Return a score or standard deviation in percentage points, or, if it is not read so, as it is."""
    return points(value) if percent else f"{value:.4g}"


def counted(number: int, noun: str) -> str:
    """Return "1 cell", or "2 cells"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted_of(number: int, noun: str, total: int, verb: Literal["has", "is"]) -> str:
    """Return "1 cell of 40 has", or "2 cells of 40 have"."""
    return f"{counted(number, noun)} of {total} {verb if number == 1 else {'has': 'have', 'is': 'are'}[verb]}"


def named(noun: str, numbers: Sequence[int]) -> str:
    """Return the first few of a list of row or column numbers, as people say it."""
    shown = ", ".join(str(number) for number in numbers[:SHOWN])
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"{noun}{'' if len(numbers) == 1 else 's'} {shown}{more}"
