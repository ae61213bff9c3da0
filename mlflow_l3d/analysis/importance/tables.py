"""Tables of scores as they come, and the population standard deviations and quartiles of what is in them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.components import ROUNDING
from mlflow_l3d.analysis.typing import FloatArray

LARGEST_SCORE: Final = 1e50
"""Scores beyond this are missing: tracking servers hold infinity as the largest float."""


def as_table(table: npt.ArrayLike) -> FloatArray:
    """Return a copy of a table, shape (M, N), with nan for every score that is not a usable number.

    Raises
    ------
    ValueError
        If it has not two axes.
    """
    scores = usable(table)
    if scores.ndim != 2:
        msg = f"the table must have two axes, mitigation runs x investigation runs, got shape {scores.shape}"
        raise ValueError(msg)
    return scores


def as_golden(golden: npt.ArrayLike) -> FloatArray:
    """Return a copy of the golden scores, shape (L,), with nan for every score that is not a usable number.

    Raises
    ------
    ValueError
        If they have not one axis.
    """
    scores = usable(golden)
    if scores.ndim != 1:
        msg = f"the golden scores must have one axis, got shape {scores.shape}"
        raise ValueError(msg)
    return scores


def usable(scores: npt.ArrayLike) -> FloatArray:
    """Return a copy with nan for every score that is not a usable number, in any shape."""
    values = np.array(scores, dtype=np.float64)
    values[~(np.abs(values) < LARGEST_SCORE)] = np.nan
    return values


def quartile_distance(scores: npt.ArrayLike) -> float:
    """Return the distance between the quartiles of the scores that are not missing; nan below two."""
    values = usable(scores)
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return math.nan
    low, high = np.quantile(known, (0.25, 0.75))
    return float(high - low)


def population_std(scores: npt.ArrayLike) -> float:
    """Return the population standard deviation (ddof=0) of the scores that are not missing; nan below two."""
    values = usable(scores)
    known = values[np.isfinite(values)]
    return known_std(known) if len(known) >= 2 else math.nan


def known_std(values: FloatArray, *, ddof: int = 0) -> float:
    """Return the standard deviation (population by default); exactly zero where values differ by rounding alone."""
    if float(np.ptp(values)) <= ROUNDING * float(np.abs(values).max()):
        return 0.0
    return float(values.std(ddof=ddof))


def mean_row_std(table: FloatArray) -> float:
    """Return the mean over rows of the population standard deviation within the row."""
    stds = table.std(axis=1)
    stds[np.ptp(table, axis=1) <= ROUNDING * np.abs(table).max(axis=1)] = 0.0
    return float(stds.mean())
