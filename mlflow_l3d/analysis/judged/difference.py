"""Whether one system is better than another by the judgements of one scorer, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.difference import POWERS, interval, p_value, runs_needed
from mlflow_l3d.analysis.comparison.predictions import least_error
from mlflow_l3d.analysis.comparison.results import KEPT
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_quantile
from mlflow_l3d.analysis.judged import JudgedDifference
from mlflow_l3d.analysis.judged.table import Sides, pair_sides
from mlflow_l3d.errors import ParameterError

FEWEST_ROWS: Final = 6
"""Paired rows below which nothing is decided."""
REPEATS: Final = (1, 2, 3, 5, 10)
"""Answers per row that a plan is made for."""
_ALIKE: Final = 1e-9
"""Part of the range of all values by which differences of rows are alike."""


@dataclass(frozen=True, slots=True)
class RowSpread:
    """What a mean difference over rows varies by.

    Attributes
    ----------
    of_row
        Variance of the difference of one row.
    rows
        How many there are.
    drawn
        Variance and degrees of freedom that each factor brings of which the sides drew levels of their own.
    """

    of_row: float
    rows: int
    drawn: tuple[tuple[float, float], ...] = ()

    @property
    def error(self) -> float:
        """Standard error."""
        return self.with_runs(self.rows)[0]

    @property
    def degrees(self) -> float:
        """Degrees of freedom by Welch and Satterthwaite."""
        return self.with_runs(self.rows)[1]

    def with_runs(self, runs: float) -> tuple[float, float]:
        """Return standard error and degrees of freedom with so many rows."""
        parts = [(self.of_row / runs, max(1.0, runs - 1)), *self.drawn]
        total = sum(variance for variance, _ in parts)
        uncertain = sum(variance**2 / degrees for variance, degrees in parts)
        return math.sqrt(total), total**2 / uncertain if uncertain > 0 else max(1.0, runs - 1)


def difference(
    a: pd.DataFrame,
    b: pd.DataFrame,
    *,
    smallest_effect: float | None = None,
    higher_is_better: bool = True,
    level: float = LEVEL,
) -> JudgedDifference:
    """Return the difference of two systems, `a` less `b`, from their judgements by one scorer.

    Parameters
    ----------
    a, b
        Tables of judgements, see :func:`mlflow_l3d.analysis.judged.components.components`. Rows are matched by ``row``.
    smallest_effect
        Above 0: differences up to this count for nothing. Needed for ``equivalent``.
    higher_is_better
        Whether a larger value is better.
    level
        Of intervals and claims: a claim is wrong with probability ``1 - level`` at most.

    Returns
    -------
    JudgedDifference
        Undecided below six paired rows, if all judgements are equal numbers, or if a side has one judge, whom the other
        lacks.

    Raises
    ------
    ParameterError
        If a table cannot be read, or the smallest effect is not above 0.

    Notes
    -----
    Answers are averaged within a row, judge by judge and prompt by prompt for those that both sides have, so repeats
    count as repeats. The interval is Student's, from the differences of rows. The variance of these is raised by one
    over the number of rows that differ from the most common difference: few discordant rows are little evidence (as
    the pseudo-observations of Agresti and Min 2005). If none does, or all rows of a side are alike, it is at least that
    of :func:`mlflow_l3d.analysis.comparison.predictions.least_error`; and the p-value is never below that of a sign
    test in which all rows that differ do so in the same direction. A judge or prompt of both sides is kept: its luck
    cancels as much as it is shared. If the sides have different judges or prompts,
    several each, the spread of their means is added.

    Equivalence is claimed from the same interval: two one-sided tests at ``(1 - level) / 2`` each.

    Examples
    --------
    >>> lines = pd.DataFrame({"row": range(20), "answer": range(20), "judge": "exact match", "value": [1, 0] * 10})
    >>> found = difference(lines.assign(value=1), lines)
    >>> found.difference, found.verdict
    (0.5, 'better')
    """
    if smallest_effect is not None and not smallest_effect > 0:
        raise ParameterError("smallest_effect", smallest_effect, "must be above 0")
    sides = pair_sides(a, b)
    fields, rows, of_rows = sides.fields, len(sides.rows), sides.rows.to_numpy().T
    gap = fields["first_mean"] - fields["second_mean"]
    spread = row_spread(of_rows[0], of_rows[1], sides.width, sides.drawn) if rows > 1 else None
    if rows < FEWEST_ROWS:
        fields["obstacle"] = fields["obstacle"] or f"only {rows} of the {FEWEST_ROWS} paired rows that are needed"
    if spread is None or not spread.error > 0:
        spread, low, high, p = None, math.nan, math.nan, math.nan
        fields["obstacle"] = fields["obstacle"] or "all judgements are equal, so their luck is not known"
    else:
        low, high = np.clip(interval(gap, spread, level), -fields["largest"], fields["largest"])
        p = p_value(gap, spread)
    planned = gap if smallest_effect is None else smallest_effect
    return JudgedDifference(
        **fields,
        difference=gap,
        low=low,
        high=high,
        p=p,
        p_adjusted=p,
        joint_low=low,
        joint_high=high,
        smallest_effect=math.nan if smallest_effect is None else smallest_effect,
        error=math.nan if spread is None else spread.error,
        degrees=math.nan if spread is None else spread.degrees,
        rows_needed={} if spread is None else {power: _rows_needed(planned, spread, power, level) for power in POWERS},
        needed=_plans(sides, spread, planned, level),
        level=level,
        higher_is_better=higher_is_better,
    )


def _luck(sides: Sides, shares: Sequence[float]) -> float:
    """Return what answers add to the variance of the difference of a row, which counts these shares of them."""
    return sum(variance * share for variance, share in zip(sides.answer_variances, shares, strict=True))


def row_spread(
    first: FloatArray, second: FloatArray, width: float, drawn: tuple[tuple[float, float], ...] = ()
) -> RowSpread:
    """Return what the mean difference over rows varies by, more than the rows show if few of them depart from the rest.

    Parameters
    ----------
    first, second
        Shape (rows,), two rows or more: mean of each row on either side.
    width
        What one row that departs may differ by: the range of all values.
    drawn
        See :class:`RowSpread`.
    """
    from scipy.special import stdtrit

    of_rows, rows = first - second, len(first)
    _, counts = np.unique(np.rint(of_rows / (_ALIKE * width or 1.0)), return_counts=True)
    variance = float(of_rows.var(ddof=1)) * (1 + 1 / max(1, rows - int(counts.max())))
    if min(map(np.ptp, (first, second, of_rows))) <= _ALIKE * width:  # a departure was too rare to be seen on a side
        variance = max(variance, rows * least_error(width, rows) ** 2)
    # However alike they are, rows that differ are no more evidence than as many heads in as many throws.
    by_sign = float(stdtrit(rows - 1, 1 - min(0.5, 0.5 ** np.count_nonzero(np.abs(of_rows) > _ALIKE * width))))
    if by_sign > 0:
        variance = max(variance, rows * float(of_rows.mean() / by_sign) ** 2)
    return RowSpread(variance, rows, drawn)


def _rows_needed(effect: float, spread: RowSpread, power: float, level: float) -> float:
    return max(float(FEWEST_ROWS), runs_needed(effect, spread, power, level))


def _plans(sides: Sides, spread: RowSpread | None, effect: float, level: float) -> pd.DataFrame:
    """Return rows and answers that are needed at 80 % power, for several numbers of answers per row."""
    lines, luck_now = [], _luck(sides, sides.answer_shares)
    for repeats in REPEATS if not math.isnan(luck_now) else ():
        if spread is not None:
            luck = max(0.0, spread.of_row - luck_now) + _luck(sides, [1 / (repeats * cells) for cells in sides.cells])
            rows = _rows_needed(effect, replace(spread, of_row=luck), POWERS[0], level)
            lines.append((repeats, rows, rows * repeats * sum(sides.cells)))
    return pd.DataFrame(lines, columns=["repeats", "rows", "answers"])


def differences(several: Sequence[JudgedDifference]) -> list[JudgedDifference]:
    """Return the same differences, adjusted for their number, so that all claims hold together.

    p-values by Holm (1979), intervals by Bonferroni: each hold together whatever the dependence of scorers and
    systems. With a smallest effect, signs and equivalences hold together. Where Holm's test alone establishes the sign,
    the interval ends at 0 (Strassburger and Bretz 2008).

    Examples
    --------
    >>> lines = pd.DataFrame({"row": range(20), "answer": range(20), "judge": "exact match", "value": [1, 0] * 10})
    >>> found = difference(lines.assign(value=1), lines)
    >>> [round(each.p_adjusted / found.p, 6) for each in differences([found, found])]
    [2.0, 2.0]
    """
    claims = [each for each in several if not math.isnan(each.p)]
    kept = 0.0 if all(math.isnan(each.smallest_effect) for each in several) else KEPT
    joint = []
    for each, p in zip(several, holm([each.p for each in several], kept=kept), strict=True):
        low = high = math.nan
        if not math.isnan(each.p):
            half = t_quantile(each.degrees, 1 - (1 - each.level) / len(claims)) * each.error
            low, high = (max(-each.largest, min(each.largest, each.difference + end)) for end in (-half, half))
            if p <= 1 - each.level:
                low, high = (max(low, 0.0), high) if each.difference > 0 else (low, min(high, 0.0))
        joint.append(replace(each, p_adjusted=float(p), joint_low=low, joint_high=high))
    return joint
