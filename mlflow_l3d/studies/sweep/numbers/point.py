"""The points of a sweep: in what they differ, which of them share configurations, and their numbers with errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.estimate import Estimate, importances_of_variances
from mlflow_l3d.analysis.importance.estimators.nested import variance_without_each
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, IntArray, Measured, Source, combined_error
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named

Choice = str | float
"""A value that a systematic choice has at a point."""
Choices = Mapping[str, Sequence[Choice]]
"""Choice -> its values over points that differ in it."""
TASK = "task"
FACTOR = "factor"


@dataclass(frozen=True, slots=True)
class SweptPoint:
    """One point of a sweep.

    Attributes
    ----------
    run_id
        The parent run of its investigation; the empty text if there is none.
    choices
        Systematic choice -> its value here, of what differs between points (``model``, ``shots``, ...).
    task
        Name of the task, also where all points share it.
    analysis
        That of its investigation; None if it has none.
    error
        Why it has none, in one line.
    """

    run_id: str
    choices: Mapping[str, Choice]
    task: str
    analysis: Analysis | None
    error: str = ""

    @property
    def name(self) -> str:
        """Its choices in a few words, as in ``shots=4, prompt_format=B``."""
        return point_name(self.choices, self.task)

    @property
    def complete(self) -> bool:
        """Whether it has an analysis with a factor."""
        return self.analysis is not None and bool(self.analysis.importances)


def point_name(choices: Mapping[str, Choice], task: str) -> str:
    """Return choices in a few words, as in ``shots=4, prompt_format=B``; the task if there is nothing to choose."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in choices.items()) or task


def value_text(value: Choice) -> str:
    """Return a value of a choice as people write it."""
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def choices_of(points: Sequence[SweptPoint]) -> dict[str, tuple[Choice, ...]]:
    """Return choice -> its values over points that differ in it: numbers by size, texts in the order of points.

    Tasks that differ are a choice, also where points do not name it; investigated factors are none.
    """
    by_point = [_choices(point) for point in points]
    names = dict.fromkeys(name for each in by_point for name in each if name != FACTOR)
    choices = {name: tuple(dict.fromkeys(each[name] for each in by_point if name in each)) for name in names}
    return {
        name: tuple(sorted(values, key=float)) if is_numeric(values) else values
        for name, values in choices.items()
        if len(values) > 1 or any(name not in each for each in by_point)
    }


def value_of(point: SweptPoint, choice: str) -> Choice | None:
    """Return the value of a choice at a point; None if it has none."""
    return _choices(point).get(choice)


def is_numeric(values: Sequence[Choice]) -> bool:
    """Return whether all values of a choice are finite numbers, so that it has a trend."""
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


def _choices(point: SweptPoint) -> dict[str, Choice]:
    return {TASK: point.task, **{name: _number(value) for name, value in point.choices.items()}}


def _number(value: Choice) -> Choice:
    """Return a text of digits as the number that it is: parameters of runs are texts."""
    if not isinstance(value, str | bool):
        return value
    with suppress(ValueError):
        if math.isfinite(number := float(str(value))):
            return number
    return str(value)


_SAME_CONFIGURATIONS = ("task", "root_seed", "num_labelled", "design")
"""Points that differ in one of these do not share configurations."""


def clusters_of(points: Sequence[SweptPoint], choices: Choices) -> list[object]:
    """Return for each point what is equal for two points that share configurations."""
    named = [name for name in _SAME_CONFIGURATIONS if name in choices and name != TASK]
    return [(point.task, *(value_of(point, name) for name in named)) for point in points]


def blocks_of(points: Sequence[SweptPoint], choices: Choices, choice: str) -> list[object]:
    """Return for each point what is equal for two points that are alike in all other choices.

    A choice that says nothing beyond this one, or beyond which this one says nothing (the number of classes of a task),
    is none of the others.
    """
    follows = {name for name in choices if follows_from(points, name, choice) or follows_from(points, choice, name)}
    others = [name for name in choices if name not in {*follows, choice}]
    return [tuple(value_of(point, name) for name in others) for point in points]


def groups(labels: Sequence[object]) -> list[IntArray]:
    """Return the places of equal labels, in the order in which these first occur."""
    found: dict[object, list[int]] = {}
    for at, label in enumerate(labels):
        found.setdefault(label, []).append(at)
    return [np.array(each, dtype=np.int64) for each in found.values()]


def follows_from(points: Sequence[SweptPoint], one: str, other: str) -> bool:
    """Return whether points that are alike in `other` are alike in `one`."""
    pairs = {(value_of(point, other), value_of(point, one)) for point in points}
    return len({value for value, _ in pairs}) == len(pairs)


LeftOut = tuple[FloatArray, ...]
"""For each kind of unit that was sampled (rows, columns), a number without one unit at a time."""
GOLDEN_STD: Final = "golden_std"
UNRELIABLE: Final = ("L3D009", "L3D013")
"""Checks of too narrow intervals that no test uses. L3D010 is none: few orders cause it, and tests hold (simulated)."""
_ALONE: Final = "alone"
"""Source of an error that a point has by itself."""


@np.errstate(invalid="ignore")  # without one unit no variance may be left: then the share is nan
def without_each(estimate: Estimate | None) -> LeftOut | None:
    """Return the corrected importance without each row, and without each column; None if that is not known.

    If rows do not differ significantly, or a share of the variance comes out as 1, the importance without a unit may be
    at its bound. S_T has none: its jackknife tells which units, shared by points, bring how much of the error, and the
    interval how large the error is: half its width over the quantile of the normal distribution.
    """
    if estimate is None or not estimate.without:
        return None
    if not estimate.at_the_end:
        return tuple(importances_of_variances(*each) for each in estimate.without)
    low, high = estimate.interval()
    if not high > low:
        return None
    shares = [contributed / (contributed + mitigated) for contributed, mitigated in estimate.without]
    error, _ = combined_error(shares)
    if not 0 < error < math.inf:
        return None
    size = (high - low) / 2 / _normal_quantile(LEVEL) / error
    return tuple(estimate.importance + size * (share - share.mean()) for share in shares)


def importances(
    points: Sequence[SweptPoint], clusters: Sequence[object], factor: str, left_out: Mapping[tuple[int, str], LeftOut]
) -> tuple[IntArray, Measured]:
    """Return the corrected importance of a factor at the points that have one with an error.

    Parameters
    ----------
    points
        The sweep.
    clusters
        Equal for two points whose tables have the same configurations.
    factor
        A factor of these points.
    left_out
        (point, factor) -> its corrected importance without one row, and without one column, at a time.

    Returns
    -------
    tuple
        Numbers of these points, and the values.

    Notes
    -----
    Rows and columns of points of one cluster are left out together, so that what they share cancels in differences.
    If runs collapsed the importance describes the runs that did not. Points whose interval is too narrow
    (:data:`UNRELIABLE`) are not among them. A point whose importance is not known without each unit shares nothing; its
    error is half the width of the interval over the quantile of the normal distribution.
    """
    numbers: dict[int, float] = {}
    drawn: dict[tuple[object, ...], dict[int, FloatArray]] = {}
    for at, point in enumerate(points):
        if point.analysis is None or factor not in point.analysis.importances:
            continue
        warned = point.analysis.warned(factor)
        record, whole = _counted(point.analysis, factor)
        half = (record.importance_corrected_ci_high - record.importance_corrected_ci_low) / 2
        if warned.intersection(UNRELIABLE) or not (math.isfinite(record.importance_corrected) and half > 0):
            continue
        numbers[at] = record.importance_corrected
        own = left_out.get((at, factor)) if whole else None
        if own is None:
            drawn[_ALONE, at] = {at: np.array([half / _normal_quantile(record.level)])}
            continue
        for kind, values in enumerate(own):
            drawn.setdefault((clusters[at], kind, len(values)), {})[at] = values
    return _measured(numbers, drawn)


def golden_stds(points: Sequence[SweptPoint], clusters: Sequence[object]) -> tuple[IntArray, Measured]:
    """Return the log of the golden standard deviation of points, of the runs that did not collapse.

    Golden runs of points of one cluster are left out together; see :func:`importances`. All designs but the radial one
    have the same golden runs. In that a base run is left out with its repetitions; pooled runs have no error.
    """
    numbers: dict[int, float] = {}
    drawn: dict[tuple[object, ...], dict[int, FloatArray]] = {}
    for at, point in enumerate(points):
        if point.analysis is None or not point.complete:
            continue
        record, whole = _counted(point.analysis, next(iter(point.analysis.importances)))
        scores = record.golden[np.isfinite(record.golden)]
        # From five golden runs on their standard deviation has an error.
        if record.golden_pooled or len(scores) < 5 or not np.ptp(scores) > 0:
            continue
        sets = scores[:, None]
        shared = whole and len(scores) == len(record.golden)
        if radial := design_named(record.design).tables_are_golden:
            if not (record.golden_std_ci_low > 0 and math.isfinite(record.golden_std_ci_high)):
                continue
            sets = record.golden.reshape(-1, len(record.table)).T
            sets = sets[np.isfinite(sets).any(axis=1)]
            numbers[at] = math.log(record.golden_std)
        else:
            numbers[at] = math.log(float(scores.std(ddof=1)))
        with np.errstate(divide="ignore"):
            without = np.log(variance_without_each(sets)) / 2
        source = clusters[at] if shared else (_ALONE, scores.tobytes())
        drawn.setdefault((source, radial, len(without)), {})[at] = without
    return _measured(numbers, drawn)


def _counted(analysis: Analysis, factor: str) -> tuple[Importance, bool]:
    """Return the record of a factor that counts, and whether it describes all runs."""
    if analysis.collapse is None:
        return analysis.importances[factor], True
    return analysis.collapse.rest[factor], False


def _measured(
    numbers: Mapping[int, float], drawn: Mapping[tuple[object, ...], Mapping[int, FloatArray]]
) -> tuple[IntArray, Measured]:
    """Return places and numbers; `drawn` has for each source what a point is without each unit, or its error alone."""
    places = {at: place for place, at in enumerate(numbers)}
    sources = []
    for (cluster, *_), members in drawn.items():
        units = len(next(iter(members.values())))
        deviations = np.zeros((units, len(numbers)))
        for at, values in members.items():
            # Constant scores: the log of their deviation is -inf, its error nan.
            centred = values - values.mean() if np.isfinite(values).all() else np.full(units, math.nan)
            deviations[:, places[at]] = values if cluster == _ALONE else centred * math.sqrt((units - 1) / units)
        sources.append(Source(deviations, math.inf if cluster == _ALONE else _degrees(deviations)))
    values = np.array(list(numbers.values()), dtype=np.float64)
    return np.array(list(numbers), dtype=np.int64), Measured(values, tuple(sources))


def _degrees(deviations: FloatArray) -> float:
    """Return the degrees of freedom of the variances that deviations, shape (units, points), sum up to.

    One less than there are units; less where few of them are large, as they are of skewed scores: 2 over the squared
    coefficient of variation of a sum of so many squares.
    """
    squares, units = np.square(deviations), len(deviations)
    total = float(np.square(squares.sum(axis=0)).sum())
    variation = float(np.square(squares).sum()) / total - 1 / units if total > 0 else 0.0
    return min(units - 1.0, 2 / variation) if variation > 0 else units - 1.0


def _normal_quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))
