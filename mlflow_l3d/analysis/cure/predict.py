"""What ensembles of runs, and the best of several, would do: predicted from stored runs, without training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure.ensembles import Members, can_combine
from mlflow_l3d.analysis.cure.extrapolate import DOUBT_OF_MEAN, DOUBT_OF_STD, extended
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
_KINDS: Final[tuple[Kind, ...]] = ("vote", "mean", "choose")


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
    yield Series.of("mean", [single], 1, table).prediction(Remedy("report_mean"), golden, level, seconds, reason)
    for kind in _KINDS:
        # Two that vote are the first of them. The best of more has no law by which it could be extrapolated.
        fewest = 3 if kind == "vote" else 2
        most = min(most_members, table.most_exact) if kind == "choose" else most_members
        remedy = Remedy(kind, tuple(over), fewest)
        why = _missing(kind, rows, min(table.size, most) if kind != "mean" else most, fewest)
        if why:
            yield Prediction(remedy=remedy, basis="unknown", trainings=fewest, reason=why)
            continue
        first = table.moments(kind, 1) if kind == "choose" else single
        largest = min(most, table.most_exact if table.test_size else table.size)
        measured = [first, *(table.moments(kind, k) for k in range(2, largest + 1))]
        series = Series.of(kind, measured, most, table)
        for k in range(fewest, most + 1):
            if math.isfinite(series.estimate[k - 1, MEAN]):
                yield series.prediction(replace(remedy, members=k), golden, level, seconds, reason)


def _missing(kind: Kind, rows: Sequence[Members], most: int, fewest: int) -> str:
    """Return what the rows lack for a kind of remedy; empty if nothing."""
    validation = [row.validation for row in rows]
    if kind == "choose" and any(each is None or not np.isfinite(each).all() for each in validation):
        return "runs have no validation scores"
    if kind == "vote" and not can_combine("vote", rows[0]):
        return "numbers have no majority: see mean"
    if kind == "mean" and not all(can_combine("mean", row) for row in rows):
        return "runs have no class scores to average: see vote"
    return "" if most >= fewest else f"fewer than {fewest} runs in a row: unknown until verified"


@dataclass(frozen=True)
class Series:
    """Moments of results of 1, 2, ... members: estimates, shape (K, 7), and without each row, columns, and both.

    `exact` has the same shape, nan if a moment is extrapolated; `rest` names what causes the rest of the variance.
    """

    estimate: FloatArray
    left_out: Sequence[FloatArray]
    exact: FloatArray
    rest: str

    @classmethod
    def of(cls, kind: Kind, measured: Sequence[tuple[FloatArray, ...]], most: int, table: Table) -> Series:
        """Return the series up to `most` members, from the measured moments of 1, 2, ... members."""
        parts = [np.stack([each[part] for each in measured], axis=-2) for part in range(4)]
        exact = np.full((most, MOMENTS), math.nan)
        exact[: parts[0].shape[0]] = parts[0]
        whole = [extended(kind, part, most, like=np.isfinite(parts[0])) for part in parts]
        for part in whole[1:]:
            for place in range(1, most):
                # What a column does to large ensembles cannot be measured: as much as to smaller ones.
                moved = whole[0][place] + part[..., place - 1, :] - whole[0][place - 1]
                part[..., place, :] = np.where(np.isnan(part[..., place, :]), moved, part[..., place, :])
        return cls(whole[0], whole[1:], exact, "test examples" if table.test_size else "other factors")

    def prediction(self, remedy: Remedy, golden: Range, level: float, seconds: float, reason: str) -> Prediction:
        """Return what is predicted of one number of members."""
        k = remedy.members
        before, after = ([part[..., at, :] for part in (self.estimate, *self.left_out)] for at in (0, k - 1))
        largest = int(np.isfinite(self.exact[:, TOTAL]).sum())
        basis: Basis = "exact" if np.isfinite(self.exact[k - 1, [TOTAL, MEAN]]).all() else "extrapolated"
        notes = [reason, "" if basis == "exact" else f"the spread is measured up to {largest} members"]
        if math.isnan(after[0][TOTAL]) or not before[0][TOTAL] > _NONE:
            basis, notes = "unknown", [reason, "scores of single runs do not vary, or too few rows are complete"]
        std = self._std([part[..., TOTAL] for part in before], [part[..., TOTAL] for part in after], golden, level)
        if basis == "extrapolated":
            std = _widened(std, DOUBT_OF_STD * math.log2(k / largest))
        if remedy.kind == "choose" and std.value > self._before(golden):
            notes.append("increases luck")
        change = [many[..., MEAN] - one[..., MEAN] for one, many in zip(before, after, strict=True)]
        beyond = math.isnan(self.exact[k - 1, MEAN])
        within, total = after[0][WITHIN], after[0][TOTAL]
        share = min(1.0, float(within / total)) if total > _NONE else math.nan
        agreements = [
            _interval([part[..., place] for part in after], level, bounds=(0.0, 1.0))
            for place in (CONSISTENCY, ROW_CONSISTENCY, FRAGILE)
        ]
        return Prediction(
            remedy=remedy,
            basis=basis,
            std=std,
            mean_change=_interval(change, level, doubt=DOUBT_OF_MEAN * abs(float(change[0])) if beyond else 0.0),
            consistency=agreements[0],
            row_consistency=agreements[1],
            fragile=agreements[2],
            shares={"+".join(remedy.over): share, self.rest: 1 - share} if share >= 0 and remedy.over else {},
            trainings=k,
            seconds=k * seconds,
            overstatement=float(after[0][OVERSTATEMENT] - before[0][OVERSTATEMENT]),
            std_before=self._before(golden),
            reason="; ".join(filter(None, notes)),
        )

    def _before(self, golden: Range) -> float:
        return golden.value if golden.value >= 0 else math.sqrt(self.estimate[0, TOTAL])

    def _std(self, before: list[FloatArray], after: list[FloatArray], golden: Range, level: float) -> Range:
        """Return the remaining spread: the reported one times the root of the ratio of two variances of the table."""
        if math.isnan(golden.value):
            golden, before = Range(1.0, 1.0, 1.0), [np.ones_like(part) for part in after]
        if not before[0] > _NONE or math.isnan(after[0]):
            return UNKNOWN
        value = golden.value * math.sqrt(after[0] / before[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            error, degrees = _error([np.log(many / one) / 2 for one, many in zip(before, after, strict=True)])
        of_golden = math.log(golden.high / golden.low) / 2 if golden.low > 0 else math.nan
        return _widened(Range(value, value, value), math.hypot(t_quantile(degrees, level) * error, of_golden))


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


def _widened(std: Range, half: float) -> Range:
    """Return a spread whose logarithm has one more, independent error."""
    low, high = (math.copysign(math.hypot(math.log(end / std.value), half), side) if std.value > 0 else math.nan
                 for end, side in ((std.low, -1), (std.high, 1)))  # fmt: skip
    return Range(std.value, std.value * math.exp(low), std.value * math.exp(high))


def _interval(
    parts: list[FloatArray], level: float, bounds: tuple[float, float] = (-math.inf, math.inf), doubt: float = 0.0
) -> Range:
    """Return a number with its jackknife interval; `doubt` is an independent error."""
    value = float(parts[0])
    error, degrees = _error(parts)
    half = t_quantile(degrees, level) * math.hypot(error, doubt)
    low, high = np.clip([value - half, value + half], *bounds).tolist()
    return Range(value, low, high)
