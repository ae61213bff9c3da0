"""One difference over several tasks: each with its own luck, and tasks that differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.jackknife import LEVEL, t_quantile
from mlflow_l3d.analysis.typing import FloatArray


@dataclass(frozen=True, slots=True)
class OverTasks:
    """Mean difference of two systems over tasks like these.

    Attributes
    ----------
    tasks
        How many there are.
    difference, low, high, p
        The mean over tasks, its interval, and the two-sided p-value of "no difference".
    task_std
        Standard deviation of the true difference over tasks: what is left of its spread without the luck of each.
    weights
        Of each task in the mean; they add up to 1.
    """

    tasks: int
    difference: float
    low: float
    high: float
    p: float
    task_std: float
    weights: tuple[float, ...]


def over_tasks(differences: npt.ArrayLike, errors: npt.ArrayLike, level: float = LEVEL) -> OverTasks:
    """Return the mean difference over tasks from those of each.

    Parameters
    ----------
    differences, errors
        Shape (T,), T at least 2: difference on each task, and its standard error above 0, which counts runs and test
        examples.
    level
        Of the intervals.

    Notes
    -----
    Random-effects model: ``d_t = delta + u_t + luck_t``. The variance of u by Paule and Mandel (1982); the interval by
    Hartung and Knapp (2001), t quantiles with T - 1 degrees of freedom, whose error is never taken below that of the
    model (Roever, Knapp and Friede 2015): few tasks say little about tasks, and the interval is as wide as that.
    """
    from scipy.special import stdtr

    values, variances = np.asarray(differences, dtype=np.float64), np.square(np.asarray(errors, dtype=np.float64))
    count = len(values)
    between = _between(values, variances)
    weights = 1 / (variances + between)
    weights /= weights.sum()
    mean = float(weights @ values)
    of_model = 1 / float((1 / (variances + between)).sum())
    scatter = float((np.square(values - mean) / (variances + between)).sum()) / (count - 1)
    error = math.sqrt(of_model * max(1.0, scatter))
    half = t_quantile(count - 1, level) * error
    p = 2 * float(stdtr(count - 1, -abs(mean) / error))
    return OverTasks(count, mean, mean - half, mean + half, p, math.sqrt(between), tuple(weights.tolist()))


def _between(values: FloatArray, variances: FloatArray) -> float:
    """Return the variance between tasks at which they scatter just as much as expected; 0 if they scatter less."""

    def excess(between: float) -> float:
        weights = 1 / (variances + between)
        mean = weights @ values / weights.sum()
        return float(weights @ np.square(values - mean)) - (len(values) - 1)

    if excess(0.0) <= 0:
        return 0.0
    from scipy.optimize import brentq

    high = float(values.var(ddof=1)) + 1e-300
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-12 * high))
