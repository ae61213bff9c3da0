"""Many differences: all pairs on all tasks with one error rate, ranks, and one difference over several tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.comparison.difference import Spread
from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_p_value, t_quantile

DRAWS: Final = 20_000


Family: TypeAlias = tuple[FloatArray, Sequence[Spread]]
"""The differences of all pairs on one task: how they hang together, shape (P, P), see
:func:`mlflow_l3d.analysis.comparison.difference.correlations`, and the spread of each."""


def joint_p_values(p_values: Sequence[float], families: Sequence[Family], *, in_one_step: bool = False) -> FloatArray:
    """Return p-values adjusted for the number of differences, in the order given.

    Parameters
    ----------
    p_values
        Of each difference alone, task by task.
    families
        One per task.
    in_one_step
        Whether the intervals at :func:`joint_level` make the claims. Signs and equivalences then hold together: a sign
        that is claimed step by step passes on the level that its own equivalence needs.

    Returns
    -------
    FloatArray
        Never above Holm's. Claims with an adjusted value of at most alpha are all true with probability 1 - alpha.

    Notes
    -----
    Westfall and Young's (1993) step-down method on the smallest p-value: what it would be by luck, in 20,000 draws of a
    multivariate t distribution of the estimated correlation. It allows for pairs that share a system, for which Holm's
    method pays as if they did not. Tasks are drawn independently; if they share luck, joint claims are only rarer
    (Royen 2014, the Gaussian correlation inequality).
    """
    own = np.asarray(p_values, dtype=np.float64)
    if len(own) < 2:
        return own
    drawn = _drawn(families)
    order = np.argsort(-own, kind="stable")
    smallest = np.minimum.accumulate(drawn[:, order], axis=1)
    if in_one_step:
        smallest[:] = smallest[:, -1:]
    steps = (1 + (smallest <= own[order]).sum(axis=0)) / (1 + len(drawn))
    adjusted = np.empty_like(own)
    adjusted[order[::-1]] = np.maximum.accumulate(steps[::-1])
    return np.minimum(np.maximum(adjusted, own), holm(own, kept=float(in_one_step)))


def joint_level(families: Sequence[Family], level: float) -> float:
    """Return the level that each interval must have so that all hold together at `level`."""
    count = sum(len(spreads) for _, spreads in families)
    if count < 2:
        return level
    exact = 1 - float(np.quantile(_drawn(families).min(axis=1), 1 - level))
    return min(exact, 1 - (1 - level) / count)


def _drawn(families: Sequence[Family]) -> FloatArray:
    """Return p-values of differences that are all luck, shape (draws, P)."""
    from scipy.special import stdtr

    generator, drawn = np.random.default_rng(0), []
    for correlation, spreads in families:
        degrees = np.array([each.degrees for each in spreads])
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        root /= np.sqrt(np.square(root).sum(axis=1, keepdims=True))
        normal = generator.standard_normal((DRAWS, len(degrees))) @ root.T
        common = max(1.0, float(degrees.min()))
        scale = np.sqrt(generator.chisquare(common, size=(DRAWS, 1)) / common)
        drawn.append(2 * stdtr(degrees, -np.abs(normal) / scale))
    return np.hstack(drawn)


def ranks(claims: Sequence[tuple[str, str]], names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the smallest and the largest rank that each system may have, 1 being the best.

    Parameters
    ----------
    claims
        Better and worse system of each difference that counts; all ranks hold together as these do.
    names
        Of all systems.

    Notes
    -----
    A system ranks behind all that are better for certain, and before all that are worse (Al Mohamad, Goeman and
    van Zwet 2022, "Simultaneous confidence intervals for ranks", Biometrika 109).
    """
    ahead = Counter(better for better, _ in claims)
    behind = Counter(worse for _, worse in claims)
    return {name: (1 + behind[name], len(names) - ahead[name]) for name in names}


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
        Standard deviation of the true difference over tasks: its spread without the luck of each.
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
    values = np.asarray(differences, dtype=np.float64)
    variances = np.square(np.asarray(errors, dtype=np.float64))
    count = len(values)
    between = _between(values, variances)
    precision = 1 / (variances + between)
    weights = precision / precision.sum()
    mean = float(weights @ values)
    scatter = float(precision @ np.square(values - mean)) / (count - 1)
    error = math.sqrt(max(1.0, scatter) / float(precision.sum()))
    half = t_quantile(count - 1, level) * error
    p = t_p_value(mean, error, count - 1)
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

    high = 2 * float(values.var(ddof=1))  # the scatter is too small from once the variance on
    return float(brentq(excess, 0.0, high, xtol=1e-12 * high))
