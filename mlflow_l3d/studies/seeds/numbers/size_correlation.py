"""Do larger training sets make seeds matter less? Correlation over tasks, with how little few tasks can say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.tables import usable
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.regression import unit_length

Scale = Literal["log", "size"]
SCALES: Final[dict[str, Callable[[FloatArray], FloatArray]]] = {"log": np.log10, "size": np.asarray}
MEASURES: Final = ("var", "con", "ccon")


@dataclass(frozen=True, slots=True)
class SizeCorrelation:
    """Correlation of training size with one measure of luck over tasks.

    Attributes
    ----------
    measure
        ``var``, ``con``, ``ccon``, or what was asked for.
    scale
        ``log``: of the logarithm of the size (the axis of Figure 2 of Zhou et al. 2025); ``size``: of the size itself.
    tasks
        How many have both.
    pearson, pearson_ci_low, pearson_ci_high
        Pearson's correlation, with Fisher's z interval; the interval is nan below four tasks.
    spearman, spearman_ci_low, spearman_ci_high
        Spearman's, which the scale does not change, with the interval of Bonett and Wright 2000.
    detectable
        The smallest correlation that so many tasks would have told from 0 in 80 % of studies.
    """

    measure: str
    scale: Scale
    tasks: int
    pearson: float
    pearson_ci_low: float
    pearson_ci_high: float
    spearman: float
    spearman_ci_low: float
    spearman_ci_high: float
    detectable: float


def size_correlation(
    sizes: npt.ArrayLike, values: npt.ArrayLike, *, measure: str = "value", scale: Scale = "log", level: float = LEVEL
) -> SizeCorrelation:
    """Return the correlation of training size with a measure, over tasks.

    Parameters
    ----------
    sizes
        Shape (n,): training examples of each task, above 0; nan where unknown.
    values
        Shape (n,): the measure; nan if a task has none.
    measure
        Its name.
    scale
        What is correlated: the logarithm of the size, or the size.
    level
        Confidence level.

    Raises
    ------
    ParameterError
        If a size is not above 0.

    Notes
    -----
    Fisher's interval takes both for normal over tasks; of ten tasks or so that cannot be checked, and tasks that share
    data (RTE stands in both benchmarks) count as two. A task with one huge training set rules the correlation with the
    size itself.
    """
    from scipy.stats import rankdata

    size, value = usable(sizes), usable(values)
    if (size <= 0).any():
        raise ParameterError("training_size", float(size[size <= 0][0]), "must be above 0")
    both = np.isfinite(size) & np.isfinite(value)
    size, value = SCALES[scale](size[both]), value[both]
    tasks = len(size)
    pearson, spearman = _correlation(size, value), _correlation(rankdata(size), rankdata(value))
    return SizeCorrelation(
        measure,
        scale,
        tasks,
        pearson,
        *_fisher(pearson, tasks, 1.0, level),
        spearman,
        *_fisher(spearman, tasks, 1 + spearman**2 / 2, level),
        _detectable(tasks, level),
    )


def size_correlations(
    frame: pd.DataFrame, *, measures: tuple[str, ...] = MEASURES, scale: Scale = "log", level: float = LEVEL
) -> pd.DataFrame:
    """Return one row a measure with the fields of :class:`SizeCorrelation`.

    Parameters
    ----------
    frame
        One row per task: ``training_size`` and the measures, such as
        :func:`mlflow_l3d.studies.seeds.numbers.over_tasks.study_rows` gives.
    measures, scale, level
        What to correlate; as in :func:`size_correlation`.
    """
    found = [
        size_correlation(frame["training_size"], frame[measure], measure=measure, scale=scale, level=level)
        for measure in measures
    ]
    return pd.DataFrame(found)


def _correlation(one: FloatArray, other: FloatArray) -> float:
    """Return Pearson's correlation; nan below two values, or where one side is one number only."""
    units = unit_length(np.stack((one, other)))
    return float(np.clip(units[0] @ units[1], -1.0, 1.0)) if len(one) > 1 else math.nan


def _fisher(correlation: float, tasks: int, inflation: float, level: float) -> tuple[float, float]:
    from scipy.special import ndtri

    if tasks < 4 or math.isnan(correlation) or abs(correlation) >= 1:
        return math.nan, math.nan
    half = float(ndtri((1 + level) / 2)) * math.sqrt(inflation / (tasks - 3))
    centre = math.atanh(correlation)
    return math.tanh(centre - half), math.tanh(centre + half)


def _detectable(tasks: int, level: float, power: float = 0.8) -> float:
    """Return the correlation whose z lies so far from 0 that the test rejects with probability `power`."""
    from scipy.special import ndtri

    if tasks < 4:
        return math.nan
    return math.tanh((float(ndtri((1 + level) / 2)) + float(ndtri(power))) / math.sqrt(tasks - 3))
