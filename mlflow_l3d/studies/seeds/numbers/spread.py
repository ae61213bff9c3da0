"""Mean and spread of one score over seeds, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.tables import known_std, std_interval, usable
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_quantile
from mlflow_l3d.metrics.base import Metric


@dataclass(frozen=True)
class MetricSpread:
    """One score over S seeds, in the unit of the score.

    Attributes
    ----------
    metric
        The score.
    runs
        Seeds that have the score.
    mean, mean_ci_low, mean_ci_high
        Mean, and interval of the mean over all seeds; see :func:`mean_interval`.
    var
        Standard deviation with ddof=0: VAR of Zhou et al. 2025 (equation 1), which the paper calls a variance.
    std, std_ci_low, std_ci_high
        Standard deviation with ddof=1, and interval of the standard deviation over all seeds; see :func:`std_interval`.
    lowest, highest
        Worst and best seed, by the number alone: for an error such as ``mse`` the lowest is the best.
    """

    metric: Metric
    runs: int
    mean: float
    mean_ci_low: float
    mean_ci_high: float
    var: float
    std: float
    std_ci_low: float
    std_ci_high: float
    lowest: float
    highest: float


def metric_spread(scores: npt.ArrayLike, metric: Metric, *, level: float = LEVEL) -> MetricSpread:
    """Return mean and spread of one score over seeds.

    Parameters
    ----------
    scores
        Shape (S,): one score a seed; nan if it is missing.
    metric
        Intervals claim nothing beyond its range, and no standard deviation above half of it.
    level
        Confidence level of both intervals.
    """
    finite = usable(scores)
    finite = finite[np.isfinite(finite)]
    runs, (lowest, highest) = len(finite), metric.range
    mean, least, most = (finite.mean(), finite.min(), finite.max()) if runs else (math.nan,) * 3
    var, std = (known_std(finite), known_std(finite, ddof=1)) if runs > 1 else (math.nan,) * 2
    mean_low, mean_high = np.clip(mean_interval(finite, level), lowest, highest).tolist()
    std_low, std_high = std_interval(finite, level=level)
    std_high = float(np.minimum(std_high, (highest - lowest) / 2))
    return MetricSpread(
        metric, runs, float(mean), mean_low, mean_high, var, std, std_low, std_high, float(least), float(most)
    )


def mean_interval(scores: FloatArray, level: float = LEVEL) -> tuple[float, float]:
    """Return the t interval of the mean over all seeds.

    Parameters
    ----------
    scores
        Shape (S,), finite.
    level
        Confidence level.

    Returns
    -------
    tuple of float
        Both nan below two scores, or where all are equal: seeds that all agree do not say how much others would not.

    Notes
    -----
    In simulations with 10 seeds it covers the mean in 94 to 96 % of cases where scores are normal, uniform, Laplace, t
    with 5 degrees of freedom, or two heaps of which one is a collapse that hits 30 or 50 % of seeds; in 90 % where they
    are exponential, and in 65 % where a collapse hits 10 % of seeds, since a third of all sets of 10 seeds then hold
    none. A bootstrapped t covers no better there, and is up to four times as wide.
    """
    count = len(scores)
    if count < 2 or not (spread := known_std(scores, ddof=1)):
        return math.nan, math.nan
    half = t_quantile(count - 1, level) * spread / math.sqrt(count)
    return float(scores.mean()) - half, float(scores.mean()) + half
