"""Trends: importance, or the golden standard deviation, over a number such as shots, classes, labelled examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mlflow_l3d.analysis.sweep.measured import Measured
from mlflow_l3d.analysis.sweep.point import Choice, Indices, SweptPoint, blocks_of, groups, value_of
from mlflow_l3d.analysis.sweep.regression import FEWEST_TASKS, Slope, mean_slope, slope
from mlflow_l3d.analysis.typing import FloatArray

Scale = Literal["log2", "linear"]
Scope = Literal["one task", "these tasks", "tasks", "between tasks"]
_RATIO: Final = 4.0


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
        ``log2``: the slope is that of a doubling; ``linear``: of `step` more.
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
    return "log2" if min(values) > 0 and max(values) >= _RATIO * min(values) else "linear"


def step_of(values: Sequence[float]) -> float:
    """Return by how much more of a numeric choice a linear slope is told: 100 of 100 and 300."""
    span = max(values) - min(values)
    return float(f"1e{math.floor(round(math.log10(span), 9))}") if span > 0 else 1.0


def scaled(values: FloatArray, scale: Scale, step: float) -> FloatArray:
    """Return the values of a choice on its scale, in steps."""
    return np.log2(values) if scale == "log2" else values / step


def trend(
    points: Sequence[SweptPoint],
    choices: Mapping[str, Sequence[Choice]],
    choice: str,
    of: str,
    measured: tuple[Indices, Measured],
    level: float,
) -> Trend | None:
    """Return the trend of one number over a numeric choice; None where fewer than two points can be set beside others.

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
    level
        Confidence level.

    Notes
    -----
    Points are set against points that are alike in all other choices, in each task by itself
    (:func:`mlflow_l3d.analysis.sweep.regression.slope`). The slopes of several tasks are averaged as draws of tasks
    (a mixed model with a random slope, in two stages). Where every task has one value of the choice (classes), the
    means of tasks are the points.
    """
    places, numbers = measured
    here = [points[at] for at in places if value_of(points[at], choice) is not None]
    numbers = numbers.at(np.array([at for at, p in enumerate(places) if value_of(points[p], choice) is not None], int))
    if len(here) < 2:
        return None
    values = np.array([value_of(point, choice) for point in here], dtype=np.float64)
    scale = scale_of(values.tolist())
    step = 1.0 if scale == "log2" else step_of(values.tolist())
    x = scaled(values, scale, step)
    of_tasks = groups([point.task for point in here])
    blocks = blocks_of(here, choices, choice)
    slopes = [_within(x, numbers, task, blocks, level) for task in of_tasks]
    found = [each for each in slopes if each is not None]
    if found:
        whole = mean_slope(found) if len(found) > 1 else found[0]
        scope: Scope = "one task" if len(found) == 1 else "these tasks" if len(found) < FEWEST_TASKS else "tasks"
        tasks = len(found)
    else:
        means = numbers.averaged(of_tasks)
        line = slope(np.array([x[task].mean() for task in of_tasks]), means, [np.arange(len(of_tasks))], level)
        if line is None:
            return None
        whole, scope, tasks = line, "between tasks", len(of_tasks)
    low, high = whole.interval(level)
    p = whole.p_value()
    own = (whole.value, low, high, whole.error, whole.degrees, p, math.nan, whole.between)
    return Trend(choice, of, scale, step, scope, tasks, whole.points, *own)


def _within(x: FloatArray, numbers: Measured, task: Indices, blocks: Sequence[object], level: float) -> Slope | None:
    return slope(x[task], numbers.at(task), groups([blocks[at] for at in task]), level)
