"""What ensembles of runs, and the best of several, would do: predicted from stored runs, without training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure.ensembles import MOST_CHOICES, Members, can_combine
from mlflow_l3d.analysis.cure.extrapolate import DOUBT, FURTHEST, extended
from mlflow_l3d.analysis.cure.remedy import UNKNOWN, Basis, Kind, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.spread import (
    CONSISTENCY,
    FRAGILE,
    MEAN,
    MOMENTS,
    OVERSTATEMENT,
    ROW_CONSISTENCY,
    TOTAL,
    WITHIN,
    Table,
)
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, combined_error, t_quantile
from mlflow_l3d.metrics.base import Metric

MOST_MEMBERS: Final = 10
FEWEST_RUNS: Final = 10
FEWEST_EXAMPLES: Final = 30
"""Golden runs, and examples that they share, of which something is predicted."""
_NONE: Final = 1e-18
"""Variances up to it are none, but rounding errors."""
_SIZES: Final[dict[Kind, tuple[int, ...]]] = {
    "vote": (3, 5, 7, 9),
    "mean": (2, 3, 4, 5, 7, 10),
    "choose": (2, 3, 4, 5, 7, 10),
}
"""Members of which something is predicted. Of an even number that vote, ties leave the choice to the first ones."""


def predict(
    rows: Sequence[Members],
    *,
    over: Sequence[str],
    metric: Metric,
    classes: int | None,
    golden_std: Range = UNKNOWN,
    most_members: int = MOST_MEMBERS,
    level: float = LEVEL,
    seconds: float = math.nan,
) -> list[Prediction]:
    """Return what each ensemble of up to `most_members` runs, and the best of them by validation score, would do.

    Parameters
    ----------
    rows
        Rows of a table: the runs of a row differ in `over` alone.
    over
        The factors that differ within a row.
    metric, classes
        What is scored, and how many classes are distinguished.
    golden_std
        The spread that is reported (ddof=0), with its interval: the remaining one is this times the ratio that the
        table shows. Unknown: the table alone gives it.
    most_members
        The largest ensemble.
    level
        Confidence level of the intervals.
    seconds
        Of one training.

    Returns
    -------
    list of Prediction
        First one run, as it is (``report_mean`` of 1): consistency and fragile examples before a remedy. Then at least
        one for each kind; if nothing can be predicted, one with a reason.
    """
    table = Table.of(rows, metric, classes)
    lost = len(rows) - len(table.rows)
    reason = f"{lost} of {len(rows)} rows lack runs and are left out" if lost else ""
    why = ""
    if len(table.rows) < 2 or table.size < 2:
        why = f"{len(table.rows)} rows of {table.size} runs that share their examples: at least 2 of 2 are needed"
    return list(_predictions(table, over, golden_std, most_members, level, seconds, why, reason))


def predict_all(
    members: Members,
    *,
    over: Sequence[str],
    metric: Metric,
    classes: int | None,
    test_size: int,
    test_is_drawn: bool = True,
    golden_std: Range = UNKNOWN,
    most_members: int = MOST_MEMBERS,
    level: float = LEVEL,
    seconds: float = math.nan,
) -> list[Prediction]:
    """Return what ensembles over all factors would do, from independent runs on one reference set.

    Parameters
    ----------
    members
        Golden runs and their predictions for examples on which none of them trained.
    over
        All factors that differ between the runs.
    test_size
        Examples that the score of one result is computed from.
    test_is_drawn
        Whether each result has test examples of its own, whose luck no ensemble cures; else all results share them.
    metric, classes, golden_std, most_members, level, seconds
        See :func:`predict`.

    Notes
    -----
    Runs x examples, both random. The variance of scores on the given examples has a part that is theirs alone: of a
    pair of results the jackknife over examples estimates it, and the remainder is the variance of true scores. The luck
    of `test_size` examples is added: that of one result, or if all share them that of a difference of two.
    """
    runs, examples, why = len(members), len(members.labels), ""
    if runs < FEWEST_RUNS or examples < FEWEST_EXAMPLES or test_size < 1:
        why = f"{runs} runs share {examples} examples: at least {FEWEST_RUNS} and {FEWEST_EXAMPLES} are needed"
    table = Table([members], metric, classes, test_size=test_size, test_is_drawn=test_is_drawn)
    return list(_predictions(table, over, golden_std, most_members, level, seconds, why, ""))


def _predictions(
    table: Table,
    over: Sequence[str],
    golden: Range,
    most_members: int,
    level: float,
    seconds: float,
    why: str,
    reason: str,
) -> Iterator[Prediction]:
    rows = table.rows
    if why:
        yield Prediction(remedy=Remedy("vote", tuple(over), 3), basis="unknown", trainings=3, reason=why)
        return
    single = table.moments("vote" if can_combine("vote", rows[0]) else "mean", 1)
    yield Series.of("mean", [single], [1], table).prediction(Remedy("report_mean"), golden, level, seconds, reason)
    for kind, every in _SIZES.items():
        remedy = Remedy(kind, tuple(over), every[0])
        if why := _missing(kind, table, every[0]):
            yield Prediction(remedy=remedy, basis="unknown", trainings=every[0], reason=why)
            continue
        # The best of several has no law by which it could be extrapolated.
        most = min(most_members, table.most_exact * (1 if kind == "choose" else FURTHEST))
        members = [1, *(k for k in every if k <= most)]
        largest = table.most_exact if table.test_size else table.size
        measured = [table.moments(kind, k) for k in members[1:] if k <= largest]
        series = Series.of(kind, [table.moments(kind, 1) if kind == "choose" else single, *measured], members, table)
        for k in members[1:]:
            if math.isfinite(series.parts[0][members.index(k), MEAN]):
                yield series.prediction(replace(remedy, members=k), golden, level, seconds, reason)


def _missing(kind: Kind, table: Table, fewest: int) -> str:
    """Return what the rows lack for a kind of remedy; empty if nothing."""
    rows = table.rows
    validation = [row.validation for row in rows]
    if kind == "choose" and any(each is None or not np.isfinite(each).all() for each in validation):
        return "no validation scores of the runs are known"
    if kind == "vote" and not can_combine("vote", rows[0]):
        return "numbers have no majority: see mean"
    if kind == "mean" and not all(can_combine("mean", row) for row in rows):
        is_class = rows[0].predictions.dtype.kind in "iu"
        return f"{'no class scores of the runs are known' if is_class else 'texts have no mean'}: see vote"
    if table.most_exact >= fewest:
        return ""
    if table.test_size:
        return f"{table.size} independent runs are too few: {table.needed(fewest)} are needed"
    how = f": investigation_runs={table.needed(fewest)}" if table.crossed else f": {fewest} are needed"
    return f"{table.size} runs in a row are too few{how}"


@dataclass(frozen=True)
class Series:
    """Moments of results of so many `members`: estimates, shape (K, 7), and without each row, columns, and both.

    `exact` has the same shape, nan if a moment is extrapolated; `rest` names what causes the rest of the variance.
    """

    members: Sequence[int]
    parts: Sequence[FloatArray]
    exact: FloatArray
    rest: str
    runs: int

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
        return cls(members, parts, exact, "test examples" if table.test_size else "other factors", table.size)

    def prediction(self, remedy: Remedy, golden: Range, level: float, seconds: float, reason: str) -> Prediction:
        """Return what is predicted of one number of members."""
        k, at = remedy.members, self.members.index(remedy.members)
        before, after = ([part[..., place, :] for part in self.parts] for place in (0, at))
        last = int(np.flatnonzero(np.isfinite(self.exact[:, TOTAL]))[-1]) if np.isfinite(self.exact[0, TOTAL]) else 0
        measured = bool(np.isfinite(self.exact[at, [TOTAL, MEAN]]).all())
        basis: Basis = "exact" if math.comb(self.runs, k) <= MOST_CHOICES else "sampled"
        notes = [reason]
        if not measured:
            basis = "extrapolated"
            notes.append(f"the spread is measured up to {self.members[last]} members")
        if math.isnan(after[0][TOTAL]) or not before[0][TOTAL] > _NONE:
            none = before[0][TOTAL] <= _NONE
            basis, notes = "unknown", [reason, f"{'scores do not vary' if none else 'too few rows are complete'}"]
        ratio, alone = (self._spread(at, level, paired=paired) for paired in (True, False))
        if not measured:
            # No farther from what is measured is anything known better.
            doubt = DOUBT * math.log2(k / self.members[last])
            ratio, alone = (
                _widened(own, doubt, like=self._spread(last, level, paired=paired))
                for own, paired in ((ratio, True), (alone, False))
            )
        std = alone
        if golden.value >= 0:
            of_golden = math.log(golden.high / golden.low) / 2 if golden.low > 0 else math.nan
            std = _widened(Range(*(golden.value * each for each in ratio)), of_golden)
        if remedy.kind == "choose" and ratio.low > 1:
            notes.append("increases luck")
        change = [many[..., MEAN] - one[..., MEAN] for one, many in zip(before, after, strict=True)]
        beyond = DOUBT * abs(float(change[0])) if math.isnan(self.exact[at, MEAN]) else 0.0
        agreements = [
            _interval(
                [part[..., place] for part in after], level, (0.0, 1.0), like=[part[..., place] for part in before]
            )
            for place in (CONSISTENCY, ROW_CONSISTENCY, FRAGILE)
        ]
        return Prediction(
            remedy=remedy,
            basis=basis,
            std=std,
            ratio=ratio,
            mean_change=_interval(change, level, doubt=beyond),
            consistency=agreements[0],
            row_consistency=agreements[1],
            fragile=agreements[2],
            shares=self._shares(remedy, at),
            trainings=k,
            seconds=k * seconds,
            overstatement=float(after[0][OVERSTATEMENT] - before[0][OVERSTATEMENT]),
            std_before=golden.value if golden.value >= 0 else math.sqrt(self.parts[0][0, TOTAL]),
            reason="; ".join(filter(None, notes)),
        )

    def _shares(self, remedy: Remedy, at: int) -> dict[str, float]:
        """Return the shares of the variance; none if its parts are not measured alike, or contradict each other."""
        within, total = self.parts[0][at, [WITHIN, TOTAL]]
        alike = np.isfinite(self.exact[at, [WITHIN, TOTAL]])
        if not remedy.over or alike[0] != alike[1] or not total > _NONE or not within < total:
            return {}
        return {"+".join(remedy.over): float(within / total), self.rest: float(1 - within / total)}

    def _spread(self, at: int, level: float, *, paired: bool) -> Range:
        """Return a standard deviation of the table, over that of one run if `paired`."""
        after = [part[..., at, TOTAL] for part in self.parts]
        before = [part[..., 0, TOTAL] if paired else np.ones_like(part[..., 0, TOTAL]) for part in self.parts]
        if not before[0] > _NONE or math.isnan(after[0]):
            return UNKNOWN
        value = math.sqrt(after[0] / before[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            error, degrees = _error([np.log(many / one) / 2 for one, many in zip(before, after, strict=True)])
        return _widened(Range(value, value, value), t_quantile(degrees, level) * error)


def _error(parts: Sequence[FloatArray]) -> tuple[float, float]:
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
    return combined_error(units, overlap)


def _widened(std: Range, half: float, like: Range | None = None) -> Range:
    """Return a spread whose logarithm has one more, independent error; its own is at least that of `like`."""
    if not std.value > 0:
        return Range(std.value)
    own = max(math.log(each.high / each.value) if each.value > 0 else math.nan for each in (std, like or std))
    width = math.exp(math.hypot(own, half))
    return Range(std.value, std.value / width, std.value * width)


def _interval(
    parts: list[FloatArray],
    level: float,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    *,
    doubt: float = 0.0,
    like: list[FloatArray] | None = None,
) -> Range:
    """Return a number with its jackknife interval; `doubt` is an independent error, `like` a part that errs no more."""
    value = float(parts[0])
    if like is not None and np.isnan(parts[2]).all():
        # Columns are not left out of the agreement of several members: that of one run says what they do.
        parts = [*parts[:2], parts[2][:0], parts[3]]
    errors = [_error(each) for each in ([parts] if like is None else [parts, like])]
    half = max(t_quantile(degrees, level) * math.hypot(error, doubt) for error, degrees in errors)
    low, high = np.clip([value - half, value + half], *bounds).tolist()
    return Range(value, low, high)
