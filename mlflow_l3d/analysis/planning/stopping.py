"""When enough rows have been run: the published rule, and one whose claims hold however often one looks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance import importance_path
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.tables import usable

FIRST_ANALYSIS: Final = 20
"""Rows at the first look of the interval rule; each further look comes after twice as many."""
LEAST_ROWS: Final = 3
"""No stop of the epsilon rule before; the paper says only that the start must not be too small."""
Decision = Literal["continue", "stop"]


@dataclass(frozen=True, slots=True)
class InterimAnalysis:
    """One look at an investigation that is running.

    Attributes
    ----------
    rule
        ``epsilon`` or ``interval``.
    rows
        Rows that had been run, failed ones included.
    decision
        ``continue`` or ``stop``.
    reason
        One line with the numbers.
    importance
        The number the rule is about: importance (``epsilon``), corrected importance (``interval``).
    alpha, low, high
        Error probability that the look spends, and the interval at level ``1 - alpha``; nan with ``epsilon``.
    change
        Largest change since one row before; nan with ``interval``.
    claim
        ``dominates`` or ``minor`` if the interval excludes 0, else empty.
    """

    rule: Literal["epsilon", "interval"]
    rows: int
    decision: Decision
    reason: str
    importance: float = math.nan
    alpha: float = math.nan
    low: float = math.nan
    high: float = math.nan
    change: float = math.nan
    claim: Literal["", "dominates", "minor"] = ""


INTERIM_COLUMNS: Final = tuple(InterimAnalysis.__dataclass_fields__)


@dataclass
class _Rule:
    history: list[InterimAnalysis] = field(default_factory=list, kw_only=True)

    @property
    def stopped(self) -> bool:
        """Whether the last look said stop."""
        return bool(self.history) and self.history[-1].decision == "stop"

    def history_frame(self) -> pd.DataFrame:
        """Return one row a look, columns are the fields of :class:`InterimAnalysis`."""
        return pd.DataFrame(self.history, columns=list(INTERIM_COLUMNS))


@dataclass
class EpsilonRule(_Rule):
    """Stop when another row changes nothing much (Pecher et al. 2024, Appendix B.3).

    Attributes
    ----------
    epsilon
        Largest change of `contributed_std`, `mitigated_std` and `importance`, all three, from one row to the next that
        counts as none. The first two are in the scores' unit, so fractions call for a smaller one than percentage
        points.
    history
        Looks so far, one per row from the second on.

    Notes
    -----
    A change may be small by chance, so this rule says nothing about the error of the score. See :class:`IntervalRule`.
    """

    epsilon: float

    def analyse(self, table: npt.ArrayLike, golden: npt.ArrayLike) -> InterimAnalysis:
        """Return the decision after the rows run so far.

        Parameters
        ----------
        table
            Shape (rows so far, N).
        golden
            Shape (golden runs so far,), which count in proportion for the rows before.

        Returns
        -------
        InterimAnalysis
            The first that said stop, or else that of the last row. Rows that came since the last call are looked at
            one by one, so that it does not matter how often the rule is asked.
        """
        if self.stopped:
            return self.history[-1]
        scores = usable(table)
        seen = self.history[-1].rows if self.history else 0
        path = importance_path(scores, golden, start=seen)
        names = ["contributed_std", "mitigated_std", "importance"]
        changes = path[names].diff().abs().max(axis=1, skipna=False)
        for rows, score, change in zip(path["rows"], path["importance"], changes, strict=True):
            if rows <= seen:
                continue
            stop = rows >= LEAST_ROWS and change < self.epsilon
            if math.isnan(change):
                reason = f"after {rows} rows there is no change to look at yet"
            else:
                relation = "below" if change < self.epsilon else "not below"
                reason = f"row {rows} changed the results by {change:.4g}, {relation} epsilon {self.epsilon:.4g}"
            decision: Decision = "stop" if stop else "continue"
            self.history.append(
                InterimAnalysis("epsilon", int(rows), decision, reason, float(score), change=float(change))
            )
            if stop:
                break
        return self.history[-1] if self.history else _early("epsilon", len(scores), "after 2 rows")


@dataclass
class IntervalRule(_Rule):
    """Stop when the interval of the corrected importance excludes 0, or is narrow enough; one object for each factor.

    Attributes
    ----------
    half_width
        The interval is narrow enough at this half-width, above 0 and below 1.
    alpha
        Probability that any look of any factor makes a false claim about its importance.
    factors
        How many factors are investigated; each gets its share of alpha.
    history
        Looks so far.

    Notes
    -----
    Look k comes after ``FIRST_ANALYSIS * 2 ** (k - 1)`` rows and spends ``alpha_k = 6 alpha / (pi^2 k^2) / factors``,
    which sums to at most alpha over all looks and factors, so that the claims hold together although one looks
    repeatedly (Bonferroni over infinitely many looks). The interval is
    :meth:`~mlflow_l3d.analysis.importance.estimate.Estimate.careful_interval`: with the jackknife alone, rows of two
    columns made false claims in 6 % of investigations at alpha = 5 % and a true importance of 0.

    A look may take back what an earlier one said: while the rule of another factor says continue, this one continues,
    so that at the end all say stop of the same rows. No claim is made of scores whose tails are long
    (:mod:`mlflow_l3d.analysis.importance.shape`).

    In simulations at a true importance of 0 the share of false claims is below alpha for normal and slightly skewed
    effects in all designs. It is not for long-tailed ones in nested tables, where exponential effects make 8 to 11 %
    (`benchmarks/statistics_simulation.py`).
    """

    half_width: float
    alpha: float = 0.05
    factors: int = 1

    def spent(self, number: int) -> float:
        """Return alpha_k of look `number`, counted from 1."""
        return 6 * self.alpha / (math.pi**2 * number**2) / self.factors

    def level(self, rows: int) -> float:
        """Return the confidence level of an interval after so many rows, be a look due there or not."""
        number = 1
        while FIRST_ANALYSIS * 2 ** (number - 1) < rows:
            number += 1
        return 1 - self.spent(number)

    def analyse(
        self, total: int, estimate: Callable[[int], Estimate | None], long_tails: Callable[[int], bool] | None = None
    ) -> InterimAnalysis:
        """Return the decision after the rows run so far.

        Parameters
        ----------
        total
            How many rows have been run.
        estimate
            Returns the corrected importance of the first so many rows.
        long_tails
            Returns whether the scores of the first so many rows have tails so long that nothing is to be claimed.

        Returns
        -------
        InterimAnalysis
            The first of those due since the last call that says stop, or else the last. A look takes exactly the rows
            that it is due at; rows with missing cells count as run.
        """
        while (rows := FIRST_ANALYSIS * 2 ** len(self.history)) <= total:
            self.history.append(self._at(rows, estimate(rows), long_tails is not None and long_tails(rows)))
            if self.stopped:
                break
        return self.history[-1] if self.history else _early("interval", total, f"after {FIRST_ANALYSIS} rows")

    def _at(self, rows: int, estimate: Estimate | None, long_tails: bool) -> InterimAnalysis:
        alpha = self.spent(len(self.history) + 1)
        low, high = (math.nan, math.nan) if estimate is None else estimate.careful_interval(1 - alpha)
        if estimate is None or math.isnan(low) or math.isnan(high):
            reason = f"after {rows} rows there is no interval: too few rows, or constant scores"
            return InterimAnalysis("interval", rows, "continue", reason, alpha=alpha)
        half = (high - low) / 2
        claim: Literal["", "dominates", "minor"] = "dominates" if low > 0 else "minor" if high < 0 else ""
        narrow = half <= self.half_width
        found = f"after {rows} rows the {100 * (1 - alpha):.4g} % interval is {low:+.2f} to {high:+.2f}"
        if claim and long_tails:
            claim = ""
            reason = f"{found}, which excludes 0, but the scores have long tails (L3D013): no claim"
        elif claim:
            reason = f"{found}, which excludes 0: {claim}"
        elif narrow:
            reason = f"{found}, half-width {half:.2f} of at most {self.half_width:.2f}"
        else:
            reason = f"{found}, which contains 0 and is wider than wanted (half-width {half:.2f})"
        decision: Decision = "stop" if claim or narrow else "continue"
        return InterimAnalysis("interval", rows, decision, reason, estimate.importance, alpha, low, high, claim=claim)


def _early(rule: Literal["epsilon", "interval"], rows: int, when: str) -> InterimAnalysis:
    return InterimAnalysis(rule, rows, "continue", f"the first look comes {when}, {rows} were run")
