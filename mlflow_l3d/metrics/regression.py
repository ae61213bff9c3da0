"""Scores of predicted numbers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.base import OF_NUMBERS, Metric, mean_of

Floats = npt.NDArray[np.float64]


def pearson(labels: npt.NDArray[Any], predictions: npt.NDArray[Any]) -> float:
    """Return Pearson's correlation of two arrays of shape (n,); 0 if one of them is constant, as Matthews'.

    A constant prediction says nothing, and a number can be compared with other epochs' where nan cannot.
    """
    total = unit_length(np.stack((labels, predictions)).astype(np.float64)).sum(axis=0)
    value = float(total @ total - 2) / 2
    return 0.0 if math.isnan(value) else float(np.clip(value, -1.0, 1.0))


def _spearman(labels: Floats, predictions: Floats) -> float:
    from scipy.stats import rankdata

    return pearson(rankdata(labels), rankdata(predictions))


def _squared(labels: Floats, predictions: Floats) -> Floats:
    return np.square(labels - predictions)


def _absolute(labels: Floats, predictions: Floats) -> Floats:
    return np.abs(labels - predictions)


def _rmse(labels: Floats, predictions: Floats) -> float:
    return math.sqrt(_squared(labels, predictions).mean())


PEARSON: Final = Metric(
    "pearson",
    pearson,
    kinds=OF_NUMBERS,
    range=(-1.0, 1.0),
    words="Pearson's correlation of labels and predictions, 0 where one side is one number only",
)
_error: Final = partial(Metric, kinds=OF_NUMBERS, greater_is_better=False, range=(0.0, math.inf), percent=False)
METRICS: Final = (
    PEARSON,
    Metric("spearman", _spearman, kinds=OF_NUMBERS, range=(-1.0, 1.0), words="the same of their ranks"),
    _error("mse", mean_of(_squared), of_each=_squared, words="mean squared error, in the squared unit of the labels"),
    _error("mae", mean_of(_absolute), of_each=_absolute, words="mean absolute error, in the unit of the labels"),
    _error("rmse", _rmse, words="root of the mean squared error, in the unit of the labels"),
)
"""Metrics of predicted numbers. Each equals that of scikit-learn, or of scipy."""


def unit_length(values: Floats) -> Floats:
    """Return each run centred and of unit length, shape (S, n); nan if it is one number only."""
    if not values.size:
        return np.full(values.shape, math.nan)
    # Scaled first, so that squares of huge or tiny numbers neither overflow nor vanish.
    centred = values - values.mean(axis=1, keepdims=True)
    centred /= np.where((largest := np.abs(centred).max(axis=1, keepdims=True)) > 0, largest, 1.0)
    varied = np.ptp(values, axis=1) > 0
    units = np.full(values.shape, math.nan)
    units[varied] = centred[varied] / np.linalg.norm(centred[varied], axis=1, keepdims=True)
    return units
