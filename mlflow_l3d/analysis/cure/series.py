"""What is predicted of one number of members, from the moments of several: numbers with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure.ensembles import MOST_CHOICES
from mlflow_l3d.analysis.cure.extrapolate import DOUBT, extended
from mlflow_l3d.analysis.cure.remedy import UNKNOWN, Basis, Kind, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.spread import CONSISTENCY, FRAGILE, MEAN, MOMENTS, OVERSTATEMENT, TOTAL, WITHIN, Table
from mlflow_l3d.analysis.intervals import FloatArray, combined_error, t_quantile

_NONE: Final = 1e-18
"""Variances up to it are none, but rounding errors."""


@dataclass(frozen=True)
class Series:
    """Moments of results of so many `members`: estimates, shape (K, 8), and without each row, columns, and both.

    `exact` has the same shape, nan if a moment is extrapolated.
    """

    members: Sequence[int]
    parts: Sequence[FloatArray]
    exact: FloatArray
    table: Table

    @classmethod
    def of(cls, kind: Kind, measured: Sequence[tuple[FloatArray, ...]], members: Sequence[int], table: Table) -> Series:
        """Return the moments of all numbers of members, from those that were measured."""
        exact = np.full((len(members), MOMENTS), math.nan)
        exact[: len(measured)] = [moments[0] for moments in measured]
        parts = []
        for values in zip(*measured, strict=True):
            some = np.stack(values, axis=-2)
            part = np.full((*some.shape[:-2], *exact.shape), math.nan)
            part[..., : len(measured), :] = some
            law = kind != "choose" and len(members) > 1
            parts.append(extended(np.array(members), part, np.isfinite(exact)) if law else part)
        return cls(members, parts, exact, table)

    def prediction(self, remedy: Remedy, golden: Range, reason: str) -> Prediction:
        """Return what is predicted of one number of members."""
        k, at = remedy.members, self.members.index(remedy.members)
        before, after = ([part[..., place, :] for part in self.parts] for place in (0, at))
        last = int(np.flatnonzero(np.isfinite(self.exact[:, TOTAL]))[-1]) if np.isfinite(self.exact[0, TOTAL]) else 0
        measured = bool(np.isfinite(self.exact[at, [TOTAL, MEAN]]).all())
        basis: Basis = "exact" if math.comb(self.table.size, k) <= MOST_CHOICES else "sampled"
        notes = [reason]
        if not measured:
            basis = "extrapolated"
            notes.append(f"the spread is measured up to {self.members[last]} members")
        if math.isnan(after[0][TOTAL]) or not before[0][TOTAL] > _NONE:
            none = before[0][TOTAL] <= _NONE
            basis, notes = "unknown", [reason, "scores do not vary" if none else "too few rows or columns are complete"]
        ratio, alone = (self._spread(at, paired=paired) for paired in (True, False))
        if not measured:
            # No farther from what is measured is anything known better.
            doubt = DOUBT * math.log2(k / self.members[last])
            ratio, alone = (
                _widened(each, doubt, like=self._spread(last, paired=paired))
                for each, paired in ((ratio, True), (alone, False))
            )
        std = ratio.times(golden) if golden.value >= 0 else alone
        if remedy.kind == "choose" and ratio.low > 1:
            notes.append("increases luck")
        change = [many[..., MEAN] - one[..., MEAN] for one, many in zip(before, after, strict=True)]
        beyond = DOUBT * abs(float(change[0])) if math.isnan(self.exact[at, MEAN]) else 0.0
        consistency, fragile = [
            self._interval([part[..., place] for part in after], (0.0, 1.0), like=[part[..., place] for part in before])
            for place in (CONSISTENCY, FRAGILE)
        ]
        return Prediction(
            remedy=remedy,
            basis=basis,
            std=std,
            ratio=ratio,
            mean_change=self._interval(change, doubt=beyond),
            consistency=consistency,
            fragile=fragile,
            shares=self._shares(remedy, at),
            trainings=k,
            is_trainable=not self.table.draws_tests or (self.table.test_size > 0 and not self.table.test_is_drawn),
            overstatement=float(after[0][OVERSTATEMENT] - before[0][OVERSTATEMENT]),
            std_before=golden.value if golden.value >= 0 else math.sqrt(self.parts[0][0, TOTAL]),
            reason="; ".join(filter(None, notes)),
        )

    def _shares(self, remedy: Remedy, at: int) -> dict[str, float]:
        """Return the shares of the variance; none if its parts are not measured alike, or contradict each other."""
        within, total = self.parts[0][at, [WITHIN, TOTAL]]
        if self.table.test_size and not self.table.test_is_drawn:  # what all results share moves none of them
            return {"+".join(remedy.over): 1.0} if remedy.over and total > _NONE else {}
        alike = np.isfinite(self.exact[at, [WITHIN, TOTAL]])
        if not remedy.over or alike[0] != alike[1] or not total > _NONE or not within < total:
            return {}
        rest = "test examples" if self.table.test_size else "other factors" + "+test examples" * self.table.draws_tests
        return {"+".join(remedy.over): float(within / total), rest: float(1 - within / total)}

    def _spread(self, at: int, *, paired: bool) -> Range:
        """Return a standard deviation of the table, over that of one run if `paired`."""
        after = [part[..., at, TOTAL] for part in self.parts]
        before = [part[..., 0, TOTAL] if paired else np.ones_like(part[..., 0, TOTAL]) for part in self.parts]
        if not before[0] > _NONE or math.isnan(after[0]):
            return UNKNOWN
        value = math.sqrt(after[0] / before[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            error, degrees = self._error([np.log(many / one) / 2 for one, many in zip(before, after, strict=True)])
        return _widened(Range(value, value, value), t_quantile(degrees) * error)

    def _interval(
        self,
        parts: list[FloatArray],
        bounds: tuple[float, float] = (-math.inf, math.inf),
        *,
        doubt: float = 0.0,
        like: list[FloatArray] | None = None,
    ) -> Range:
        """Return a number with its jackknife interval; `doubt` is another error, `like` a part that errs no more."""
        value = float(parts[0])
        if like is not None and np.isnan(parts[2]).all():
            # Columns are not left out of the agreement of several members: that of one run says what they do.
            parts = [*parts[:2], parts[2][:0], parts[3]]
        errors = [self._error(each) for each in ([parts] if like is None else [parts, like])]
        half = max(t_quantile(degrees) * math.hypot(error, doubt) for error, degrees in errors)
        low, high = np.clip([value - half, value + half], *bounds).tolist()
        return Range(value, low, high)

    def _error(self, parts: Sequence[FloatArray]) -> tuple[float, float]:
        """Return the jackknife error and its degrees of freedom; nan if too few units were left out.

        `parts` are the estimate, and those without each row, columns, and both: what a cell does, both its row and its
        column do, too, so it is counted once.
        """
        estimate, rows, columns, cells = parts
        units = [each for each in (rows, columns) if len(each) > 1]  # one row has none that could be left out
        if not units or not all(len(each) > 2 and np.isfinite(each).all() for each in units):
            return math.nan, 1.0
        overlap = 0.0
        if len(units) == 2 and np.isfinite(cells).all():
            both = np.square(cells - rows - columns[:, None] + estimate).sum()
            overlap = float(both) * (1 - 1 / len(rows)) * (1 - 1 / len(columns))
        return combined_error(units, overlap, self.table.collapsed)


def _widened(std: Range, half: float, like: Range | None = None) -> Range:
    """Return a spread whose logarithm has one more, independent error; its own is at least that of `like`."""
    if not std.value > 0:
        return Range(std.value)
    half_width = max(math.log(each.high / each.value) if each.value > 0 else math.nan for each in (std, like or std))
    width = math.exp(math.hypot(half_width, half))
    return Range(std.value, std.value / width, std.value * width)
