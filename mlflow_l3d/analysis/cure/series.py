"""What is predicted of one number of members, from the moments of several, measured or extrapolated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.cure import UNKNOWN, Basis, Kind, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.ensembles import MOST_CHOICES
from mlflow_l3d.analysis.cure.spread import (
    CONSISTENCY,
    FRAGILE,
    LUCK,
    MEAN,
    MOMENTS,
    OVERSTATEMENT,
    TOTAL,
    WITHIN,
    Table,
)
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, combined_error, t_quantile

DOUBT: Final = 0.1
"""What the logarithm of an extrapolated spread may be off for each doubling of the members; of a mean, relative."""
FURTHEST: Final = 2
"""At most so many times as many members as are measured."""
_MOST_OFFSET: Final = 3.0
_USUAL_OFFSET: Final = 1.0
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
            basis = "unknown"
            notes = [reason, "scores do not vary" if none else "too few rows or columns are complete"]
        ratio, alone = (self._spread(at, paired=paired) for paired in (True, False))
        if not measured:
            # No farther from what is measured is anything known better.
            doubt = DOUBT * math.log2(k / self.members[last])
            likes = [self._spread(last, paired=paired) for paired in (True, False)]
            ratio, alone = (_widened(each, doubt, like) for each, like in zip((ratio, alone), likes, strict=True))
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
        rest = (
            "test examples"
            if self.table.test_size
            else "other factors" + ("+test examples" if self.table.draws_tests else "")
        )
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


def extended(members: IntArray, moments: FloatArray, like: npt.NDArray[np.bool_]) -> FloatArray:
    """Return moments of all numbers of members from those that are known, shape (..., K, 8).

    Parameters
    ----------
    members
        Shape (K,): the members behind one result, ascending, first 1. Those of a vote are odd: ties decide even ones.
    moments
        nan if unknown.
    like
        Shape (K, 8): which are known in the estimate; without a row or column the same are used.

    Notes
    -----
    The variance within rows is ``b / (k + c)``, at most the total; other moments are ``a + b / (k + c)``,
    agreements with the root of k + c: two results differ if the margin is small against its standard deviation. So the
    variance between rows, which votes may raise, changes by the same law. The inverse of the variance within rows is
    linear in k, which gives c. Theory: an ensemble of k is as good as one run whose noise has a k-th of the variance; c
    is the noise of one run in units of what it distinguishes.
    """
    whole = moments.copy()
    if not (like[:, WITHIN] & like[:, TOTAL]).any():
        return whole
    # The luck of test examples follows the accuracy: the law describes the rest.
    luck = moments[..., LUCK] - moments[..., :1, LUCK]
    rest_of = moments.copy()
    rest_of[..., TOTAL] -= np.nan_to_num(luck)
    offset, amount = _variances(members, rest_of, like)
    for moment in range(moments.shape[-1]):
        measured, wanted = like[:, moment], members[~like[:, moment]]
        law = amount[..., None] / (wanted + offset[..., None])
        if moment == WITHIN:
            whole[..., ~measured, moment] = law
        elif measured.sum() > 1:
            # The first member follows the law least, because some runs collapse.
            several = measured & (members > 1)
            several = several if several.sum() > 1 else measured
            power = 1.0 if moment in (MEAN, TOTAL, LUCK) else 0.5
            line = _line(members[several], rest_of[..., several, moment], wanted, offset[..., None], power)
            limits = (law, math.inf) if moment == TOTAL else (0, 1)
            whole[..., ~measured, moment] = line if moment == MEAN else np.clip(line, *limits)
    more = np.nan_to_num(whole[..., LUCK] - whole[..., :1, LUCK])
    whole[..., TOTAL] += np.where(like[:, TOTAL], 0.0, more)
    whole[whole[..., TOTAL] < 0, TOTAL] = np.nan  # few runs know neither part
    return whole


def _variances(members: IntArray, moments: FloatArray, like: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Return c and b of the variance within rows."""
    places = np.flatnonzero(like[:, WITHIN] & like[:, TOTAL])
    sizes, within = members[places], moments[..., places, WITHIN]
    others = np.flatnonzero(like[:, TOTAL] & (members > sizes[-1]))[:1]
    if len(sizes) == 1 and len(others):
        # Two runs in a row: that of two is the total less what is between rows.
        between = np.maximum(0.0, moments[..., places[-1], TOTAL] - moments[..., places[-1], WITHIN])
        more = moments[..., others, TOTAL] - between[..., None]
        sizes = np.append(sizes, members[others])
        within = np.concatenate([within, more], axis=-1)
    sizes, within = sizes[-3:], np.maximum(within[..., -3:], 1e-18)
    steps = sizes - sizes.mean()
    slope = (steps / within).sum(axis=-1) / max(1e-18, (steps**2).sum())
    rises = slope > 0
    offset = (1 / within).mean(axis=-1) / np.where(rises, slope, 1.0) - sizes.mean()
    offset = np.where(rises, np.clip(offset, 0, _MOST_OFFSET), _USUAL_OFFSET)
    return offset, (within * (sizes + offset[..., None])).mean(axis=-1)


def _line(sizes: IntArray, values: FloatArray, wanted: IntArray, offset: FloatArray, power: float) -> FloatArray:
    """Return ``a + b (k + c) ** -power`` at the wanted k, by least squares; each k counts 1 / k."""
    steps, weights = (sizes + offset) ** -power, 1 / sizes
    centre = (weights * steps).sum(axis=-1, keepdims=True) / weights.sum()
    middle = (weights * values).sum(axis=-1, keepdims=True) / weights.sum()
    apart = steps - centre
    slope = (weights * apart * (values - middle)).sum(axis=-1) / (weights * apart**2).sum(axis=-1)
    line: FloatArray = middle + slope[..., None] * ((wanted + offset) ** -power - centre)
    return line
