"""Trends: importance, or the golden standard deviation, over a number such as shots, classes, labelled examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, IntArray, Measured, degrees_of, t_p_value, t_quantile
from mlflow_l3d.studies.sweep.numbers.point import Choices, SweptPoint, blocks_of, groups, value_of

FEWEST_TASKS: Final = 3
"""Tasks from which on a slope is one of tasks in general."""
_SMALLEST: Final = 1e-12
_SMALL: Final = 1e-3
"""An error is not taken for smaller than this share of the median one, in squares: no point rules all others."""
_MOST: Final = 1e6
"""Degrees of freedom that stand for infinitely many."""


@dataclass(frozen=True, slots=True)
class Slope:
    """A slope with its error.

    Attributes
    ----------
    value, error, degrees
        The slope, its standard error and degrees of freedom of Student's t; error and degrees nan if none is known.
    between
        Standard deviation of what lies between the line and the true numbers.
    points
        How many numbers it rests on.
    sampling
        The part of the error that comes from the errors of the numbers.
    """

    value: float
    error: float
    degrees: float
    between: float
    points: int
    sampling: float

    @property
    def has_error(self) -> bool:
        """Whether it has an interval: numbers on a line that have no error show no luck to set it against."""
        return self.degrees > 0 and _SMALLEST < self.error < math.inf

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval; both ends nan if there is none."""
        if not self.has_error:
            return math.nan, math.nan
        half = t_quantile(self.degrees, level) * self.error
        return self.value - half, self.value + half

    def p_value(self) -> float:
        """Return the two-sided p-value of no slope; nan if there is no interval."""
        return t_p_value(self.value, self.error, self.degrees) if self.has_error else math.nan


def slope(x: FloatArray, measured: Measured, blocks: Sequence[IntArray], level: float) -> Slope | None:
    """Return the slope within blocks, each of which has an intercept of its own.

    Parameters
    ----------
    x
        Shape (points,).
    measured
        The numbers.
    blocks
        Places of the points of each block; blocks in which x does not differ say nothing.
    level
        The level at which two intervals are compared, see the notes.

    Returns
    -------
    Slope or None
        None where x differs in no block.

    Notes
    -----
    Weights are 1 / (s^2 + t^2), s the error of a number and t^2 the variance between the line and the true numbers by
    the method of moments (DerSimonian and Laird 1986, with the covariances of numbers that share runs). Two intervals
    are compared and the wider one counts. One takes its error from the distances to the line (Knapp and Hartung 2003;
    t with as many degrees of freedom as there are points beyond the coefficients): it uses the distances of points from
    the line, whatever their reason. The other takes it from the errors of the numbers, which points share: errors that
    are alike at all points of one x do not show as distances.
    """
    usable = [block for block in blocks if np.ptp(x[block]) > 0]
    if not usable:
        return None
    places = np.concatenate(usable)
    numbers = measured.at(places)
    block = np.repeat(np.arange(len(usable)), [len(each) for each in usable])
    columns = np.column_stack([x[places], block[:, None] == np.arange(len(usable))]).astype(np.float64)
    columns[:, 0] -= columns[:, 1:] @ [x[each].mean() for each in usable]
    squares = np.square(numbers.errors())
    squares = np.maximum(squares, max(_SMALLEST, _SMALL * float(np.median(squares))))
    free = len(places) - columns.shape[1]
    between = _between(columns, numbers, squares) if free > 0 else 0.0
    weights = 1 / (squares + between)
    weighted = (weights[:, None] * columns).T
    solved: FloatArray = np.linalg.solve(weighted @ columns, weighted).astype(np.float64)
    value, parts = numbers.combined(solved[:1])
    variances = [float(part[0, 0]) for part, _ in parts]
    errors = [(math.sqrt(sum(variances)), degrees_of(variances, [degrees for _, degrees in parts]))]
    if free > 0:
        left = numbers.values - columns @ (solved @ numbers.values)
        scale = float(weights @ np.square(left)) / free
        unit = float(np.linalg.inv(weighted @ columns)[0, 0])
        errors.append((math.sqrt(scale * unit), float(free)))
    error, degrees = max(errors, key=lambda each: each[0] * t_quantile(min(each[1], _MOST), level))
    return Slope(float(value[0]), error, min(degrees, _MOST), math.sqrt(between), len(places), errors[0][0])


def mean_slope(slopes: Sequence[Slope]) -> Slope:
    """Return the mean of the slopes of several tasks, which are independent of each other.

    Three and more are draws of tasks: their own spread gives the error, with one degree of freedom less than tasks, so
    that it counts that tasks differ. They have equal weights: those by errors that are themselves estimated made
    intervals of few tasks too narrow. Two cannot show how much tasks differ: the error is then that of the mean of
    these two.
    """
    values = np.array([each.value for each in slopes])
    squares = np.square([each.error for each in slopes]) / len(slopes) ** 2
    sampling = math.sqrt(sum(each.sampling**2 for each in slopes)) / len(slopes)
    mean, points = float(values.mean()), sum(each.points for each in slopes)
    if len(slopes) < FEWEST_TASKS:
        degrees = degrees_of(squares.tolist(), [each.degrees for each in slopes])
        return Slope(mean, math.sqrt(float(squares.sum())), degrees, math.nan, points, sampling)
    spread = float(values.var(ddof=1))
    between = math.sqrt(max(0.0, spread - len(slopes) * sampling**2))
    return Slope(mean, math.sqrt(spread / len(slopes)), len(slopes) - 1.0, between, points, sampling)


def _between(columns: FloatArray, numbers: Measured, squares: FloatArray) -> float:
    """Return the variance beyond a fit, by the method of moments; weights are 1 / `squares`."""
    inverse = 1 / squares
    fit = inverse[:, None] * columns
    maker = np.diag(inverse) - fit @ np.linalg.solve(columns.T @ fit, fit.T)
    expected = sum(float(((each.deviations @ maker) * each.deviations).sum()) for each in numbers.sources)
    return max(0.0, (float(numbers.values @ maker @ numbers.values) - expected) / float(np.trace(maker)))


Scale = Literal["log2", "linear"]
Scope = Literal["one task", "these tasks", "tasks", "between tasks"]


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of one number over a numeric choice.

    Attributes
    ----------
    choice
        The choice.
    of
        A factor (its corrected importance), or ``golden_std`` (the natural log of it).
    scale
        ``log2``: the slope per doubling; ``linear``: of `step` more.
    step
        The largest power of ten that the values of a linear choice span; 1 of ``log2``.
    scope
        ``one task``; ``these tasks``: the mean slope of two; ``tasks``: of tasks in general, of which those here are
        draws; ``between tasks``: each task has one value of the choice, so tasks themselves are the points.
    tasks, points
        How many it rests on.
    slope, low, high, error, degrees
        The slope with its interval, standard error and degrees of freedom.
    p, p_holm
        Two-sided p-value of no slope, alone and adjusted for all trends and choices of the sweep (Holm).
    between
        Standard deviation of the true numbers around the line; of ``tasks`` that of their slopes.
    """

    choice: str
    of: str
    scale: Scale
    step: float
    scope: Scope
    tasks: int
    points: int
    slope: float
    low: float
    high: float
    error: float
    degrees: float
    p: float
    p_holm: float
    between: float


def scale_of(values: Sequence[float]) -> Scale:
    """Return the scale of a numeric choice: ``log2`` where all are above 0 and the largest is 4 times the smallest."""
    return "log2" if min(values) > 0 and max(values) >= 4 * min(values) else "linear"


def step_of(values: Sequence[float]) -> float:
    """Return by how much more of a numeric choice a linear slope is reported: 100 of 100 and 300."""
    span = max(values) - min(values)
    return float(f"1e{math.floor(round(math.log10(span), 9))}") if span > 0 else 1.0


def scaled(values: FloatArray, scale: Scale, step: float) -> FloatArray:
    """Return the values of a choice on its scale, in steps."""
    return np.log2(values) if scale == "log2" else values / step


def trend(
    points: Sequence[SweptPoint], choices: Choices, choice: str, of: str, measured: tuple[IntArray, Measured]
) -> Trend | None:
    """Return the trend of one number over a numeric choice; None if fewer than two points can be compared with others.

    Parameters
    ----------
    points, choices
        The sweep.
    choice
        A choice whose values are numbers.
    of
        What the number is.
    measured
        Numbers of the points that have it, and what it is there.

    Notes
    -----
    Points are set against points that are alike in all other choices, in each task by itself
    (:func:`mlflow_l3d.studies.sweep.numbers.trends.slope`). The slopes of several tasks are averaged as draws of tasks
    (a mixed model with a random slope, in two stages). If every task has one value of the choice (classes), the
    means of tasks are the points.
    """
    places, numbers = measured
    values = np.array([value_of(points[at], choice) for at in places], dtype=np.float64)
    has_value = np.flatnonzero(~np.isnan(values))
    here = [points[at] for at in places[has_value]]
    numbers = numbers.at(has_value)
    values = values[has_value]
    if len(here) < 2:
        return None
    scale = scale_of(values.tolist())
    step = 1.0 if scale == "log2" else step_of(values.tolist())
    x = scaled(values, scale, step)
    of_tasks = groups([point.task for point in here])
    blocks = blocks_of(here, choices, choice)
    slopes = [slope(x[task], numbers.at(task), groups([blocks[at] for at in task]), LEVEL) for task in of_tasks]
    found = [each for each in slopes if each is not None]
    if found:
        tasks = len(found)
        whole = mean_slope(found) if len(found) > 1 else found[0]
        scope: Scope = "one task" if tasks == 1 else "these tasks" if tasks < FEWEST_TASKS else "tasks"
    else:
        means = numbers.averaged(of_tasks)
        line = slope(np.array([x[task].mean() for task in of_tasks]), means, [np.arange(len(of_tasks))], LEVEL)
        if line is None:
            return None
        whole, scope, tasks = line, "between tasks", len(of_tasks)
    low, high = whole.interval(LEVEL)
    p = whole.p_value()
    own = (whole.value, low, high, whole.error, whole.degrees, p, p, whole.between)
    return Trend(choice, of, scale, step, scope, tasks, whole.points, *own)
