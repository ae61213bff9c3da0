"""What ensembles of runs, and the best of several, would do: predicted from stored runs, without training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mlflow_l3d.analysis.cure import spread
from mlflow_l3d.analysis.cure.ensembles import Members, can_combine
from mlflow_l3d.analysis.cure.extrapolate import extended
from mlflow_l3d.analysis.cure.remedy import UNKNOWN, Basis, Kind, Prediction, Range, Remedy
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, combined_error, t_quantile
from mlflow_l3d.metrics.base import Metric

MOST_MEMBERS: Final = 10
OTHERS: Final = "other factors"
_NONE: Final = 1e-18
"""Variances up to it are none, but rounding errors."""


def predict(
    rows: Sequence[Members],
    *,
    over: Sequence[str],
    metric: Metric,
    classes: int | None,
    golden_std: Range | float = UNKNOWN,
    most_members: int = MOST_MEMBERS,
    level: float = LEVEL,
    seconds: float = math.nan,
) -> list[Prediction]:
    """Return what each ensemble of 2 to `most_members` runs, and the best of them by validation score, would do.

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
        table shows. Unknown: the remaining spread is that of the table.
    most_members
        The largest ensemble.
    level
        Confidence level of the intervals.
    seconds
        Of one training.

    Returns
    -------
    list of Prediction
        At least one for each kind; if nothing can be predicted, one with a reason.
    """
    rows = [row for row in rows if len(row) and len(row.labels)]
    golden = golden_std if isinstance(golden_std, Range) else Range(float(golden_std))
    reason = _obstacle(rows)
    if reason:
        return [Prediction(remedy=Remedy("vote", tuple(over), 2), basis="unknown", trainings=2, reason=reason)]
    table = spread.Table.of(rows, metric, classes)
    single = table.moments("choose" if _has_validation(rows) else "vote" if _votes(rows) else "mean", 1)
    found: list[Prediction] = []
    kinds: tuple[Kind, ...] = ("vote", "mean", "choose")
    for kind in kinds:
        # Two that vote are the first of them.
        fewest = 3 if kind == "vote" else 2
        most = min(most_members, table.most_exact) if kind == "choose" else most_members
        remedy = Remedy(kind, tuple(over), fewest)
        why = _missing(kind, rows, table.size if kind == "vote" else most, fewest)
        if why:
            found.append(Prediction(remedy=remedy, basis="unknown", trainings=fewest, reason=why))
            continue
        measured = [single, *(table.moments(kind, k) for k in range(2, min(most, table.size) + 1))]
        series = Series.of(kind, measured, most, table.most_exact)
        sizes = [k for k in range(fewest, most + 1) if np.isfinite(series.estimate[k - 1, spread.MEAN])]
        found += [series.prediction(replace(remedy, members=k), golden, level, seconds) for k in sizes]
    return found


def _missing(kind: Kind, rows: Sequence[Members], most: int, fewest: int) -> str:
    """Return what the rows lack for a kind of remedy; empty if nothing."""
    if kind == "choose" and not _has_validation(rows):
        return "runs have no validation scores"
    if kind == "vote" and not all(can_combine(kind, row) for row in rows):
        return "numbers have no majority: see mean"
    if kind == "mean" and not all(can_combine(kind, row) for row in rows):
        return "runs have no class scores to average: see vote"
    return "" if most >= fewest else f"needs {fewest} runs in a row, or more: unknown until verified"


def baseline(
    rows: Sequence[Members], *, metric: Metric, classes: int | None, golden_std: Range | float = UNKNOWN, level: float = LEVEL
) -> Prediction:
    """Return what one run does, in the form of a prediction: consistency and fragile examples before a remedy."""
    rows = [row for row in rows if len(row) and len(row.labels)]
    remedy, reason = Remedy("report_mean"), _obstacle(rows)
    if reason:
        return Prediction(remedy=remedy, basis="unknown", reason=reason)
    single = spread.Table.of(rows, metric, classes).moments("vote" if _votes(rows) else "mean", 1)
    golden = golden_std if isinstance(golden_std, Range) else Range(float(golden_std))
    return Series.of("report_mean", [single], 1, 1).prediction(remedy, golden, level)


def _obstacle(rows: Sequence[Members]) -> str:
    """Return why nothing can be predicted; empty if something can."""
    if len(rows) < 2:
        return f"{len(rows)} rows of runs that share their examples: at least 2 are needed"
    if max(len(row) for row in rows) < 2:
        return "no two runs differ in these factors alone"
    if len({row.predictions.dtype.kind for row in rows}) > 1:
        return "rows have predictions of different kinds"
    return ""


def _has_validation(rows: Sequence[Members]) -> bool:
    return all(row.validation is not None and np.isfinite(row.validation).all() for row in rows)


def _votes(rows: Sequence[Members]) -> bool:
    return can_combine("vote", rows[0])


@dataclass(frozen=True)
class Series:
    """Moments of results of 1, 2, ... members: the estimate, and without each row and block of columns.

    Shapes (K, 7), (M, K, 7) and (B, K, 7); `exact` says which are not extrapolated.
    """

    estimate: FloatArray
    left_out: tuple[FloatArray, ...]
    exact: FloatArray

    @classmethod
    def of(
        cls, kind: Kind, measured: Sequence[tuple[FloatArray, FloatArray, FloatArray]], most: int, most_exact: int
    ) -> Series:
        """Return the series up to the `most` members, from the measured moments of 1, 2, ... members."""
        parts = [np.stack([each[part] for each in measured], axis=-2) for part in range(3)]
        largest = np.arange(1, parts[0].shape[-2] + 1)
        for part in parts:
            part[..., largest > most_exact, spread.TOTAL] = math.nan
        exact = np.full((most, spread.MOMENTS), math.nan)
        exact[: len(largest)] = parts[0]
        whole = [extended(kind, part, most, like=np.isfinite(parts[0])) for part in parts]
        for part in whole[1:]:
            for place in range(1, most):
                # What a column does to large ensembles cannot be measured: as much as to smaller ones.
                moved = whole[0][place] + part[:, place - 1] - whole[0][place - 1]
                part[:, place] = np.where(np.isnan(part[:, place]), moved, part[:, place])
        return cls(whole[0], tuple(part for part in whole[1:] if len(part)), exact)

    def prediction(self, remedy: Remedy, golden: Range, level: float, seconds: float = math.nan) -> Prediction:
        """Return what is predicted of one number of members."""
        k = remedy.members
        place, basis = k - 1, self._basis(remedy.members)
        parts = (self.estimate, *self.left_out)
        single, many = ([part[..., at, :] for part in parts] for at in (0, place))
        largest = int(np.isfinite(self.exact[:, spread.TOTAL]).sum())
        reason = "" if basis == "exact" else f"the spread is measured up to {largest} members"
        doubt = math.log2(max(1.0, k / max(1, largest)))
        std = self._std(single, many, golden, level, doubt if basis == "extrapolated" else 0.0)
        changes = [after[..., spread.MEAN] - before[..., spread.MEAN] for before, after in zip(single, many, strict=True)]
        beyond = math.isnan(self.exact[place, spread.MEAN])
        shares = {}
        within, total = many[0][spread.WITHIN], many[0][spread.TOTAL]
        if total > _NONE and within >= 0:
            share = min(1.0, float(within / total))
            shares = {"+".join(remedy.over): share, OTHERS: 1 - share}
        consistency, row_consistency, fragile = (
            _interval([part[..., at] for part in many], level, (0.0, 1.0))
            for at in (spread.CONSISTENCY, spread.ROW_CONSISTENCY, spread.FRAGILE)
        )
        optimism = [float(each[0][spread.OVERSTATEMENT]) for each in (single, many)]
        if remedy.kind == "choose" and std.value > golden.value:
            reason = "increases luck"
        return Prediction(
            remedy=remedy,
            basis=basis,
            std=std,
            mean_change=_interval(changes, level, doubt=DOUBT_OF_MEAN * abs(changes[0]) if beyond else 0.0),
            consistency=consistency,
            row_consistency=row_consistency,
            fragile=fragile,
            shares=shares,
            trainings=k,
            seconds=k * seconds,
            overstatement=optimism[1] - optimism[0] if remedy.kind == "choose" else math.nan,
            std_before=golden.value,
            reason=reason,
        )

    def _basis(self, members: int) -> Basis:
        place = members - 1
        if math.isnan(self.estimate[place, spread.TOTAL]):
            return "unknown"
        return "exact" if np.isfinite(self.exact[place, [spread.TOTAL, spread.MEAN]]).all() else "extrapolated"

    def _std(
        self, single: list[FloatArray], many: list[FloatArray], golden: Range, level: float, doubt: float
    ) -> Range:
        before, after = ([part[..., spread.TOTAL] for part in parts] for parts in (single, many))
        if math.isnan(golden.value):
            golden, before = Range(1.0, 1.0, 1.0), [np.ones_like(part) for part in after]
        if not before[0] > _NONE or math.isnan(after[0]):
            return UNKNOWN
        value = golden.value * math.sqrt(max(0.0, after[0]) / before[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [np.log(each / one) / 2 for one, each in zip(before[1:], after[1:], strict=True)]
        if not logs or not all(len(each) > 2 and np.isfinite(each).all() for each in logs) or value <= 0:
            return Range(value)
        error, degrees = combined_error(logs)
        known = golden.low > 0 and golden.high > 0
        of_golden = math.log(golden.high / golden.low) / 2 if known else math.nan
        half = math.hypot(t_quantile(degrees, level) * math.hypot(error, DOUBT_OF_STD * doubt), of_golden)
        return Range(value, value * math.exp(-half), value * math.exp(half))


DOUBT_OF_STD: Final = 0.05
"""Relative error of an extrapolated spread for each doubling of the members, found on tables of ten columns."""
DOUBT_OF_MEAN: Final = 0.1
"""Relative error of an extrapolated change of the mean."""


def _interval(
    parts: list[FloatArray], level: float, bounds: tuple[float, float] = (-math.inf, math.inf), doubt: float = 0.0
) -> Range:
    """Return a number with its jackknife interval, from its value and those without each row and each column."""
    value = float(parts[0])
    if math.isnan(value):
        return UNKNOWN
    left = [each[np.isfinite(each)] for each in parts[1:]]
    if not left or any(len(each) < 3 for each in left):
        return Range(value)
    error, degrees = combined_error(left)
    half = t_quantile(degrees, level) * math.hypot(error, doubt)
    return Range(value, max(bounds[0], value - half), min(bounds[1], value + half))
