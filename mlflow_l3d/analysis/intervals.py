"""Confidence intervals of the corrected importance."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlflow_l3d.analysis.components import (
    Components,
    Effects,
    mean_squares_without_one_column,
    mean_squares_without_one_row,
)
from mlflow_l3d.analysis.results import FloatArray

LEVEL: Final = 0.95
"""Confidence level of every interval."""


def crossed_interval(parts: Effects, components: Components) -> tuple[float, float]:
    """Return the 95 % interval of the corrected importance of a crossed table.

    Parameters
    ----------
    parts, components
        Effects and variance components of the same complete table.

    Returns
    -------
    tuple of float
        Lower and upper end, in [-1, 1]; both nan where there are fewer than three rows or columns, or all scores are
        equal.

    Notes
    -----
    Jackknife of ``logit(S_T) = log(contributed / mitigated)``. Rows and columns are both random, so the variance is
    that of leaving out one row at a time plus that of leaving out one column at a time, with ``min(M, N) - 1`` degrees
    of freedom; leaving out rows alone would claim a precision that N columns cannot give. Where a component is zero, in
    the table or in one that lacks a row or column, the logit is infinite and :func:`boundary_interval` is used.
    """
    rows, columns = components.rows, components.columns
    if min(rows, columns) < 3 or not components.total > 0:
        return math.nan, math.nan
    of_rows = _logits(*mean_squares_without_one_row(parts), rows - 1, columns)
    of_columns = _logits(*mean_squares_without_one_column(parts), rows, columns - 1)
    boundary = components.contributed == 0 or components.mitigated == 0
    if boundary or not (np.isfinite(of_rows).all() and np.isfinite(of_columns).all()):
        return boundary_interval(components)
    error = math.sqrt(_jackknife_variance(of_rows) + _jackknife_variance(of_columns))
    from scipy.special import stdtrit

    half = float(stdtrit(min(rows, columns) - 1, (1 + LEVEL) / 2)) * error
    centre = math.log(components.contributed) - math.log(components.mitigated)
    return importance_of_logit(centre - half), importance_of_logit(centre + half)


def boundary_interval(components: Components) -> tuple[float, float]:
    """Return a conservative 95 % interval of the corrected importance where the jackknife has none.

    Notes
    -----
    Limits of the mitigated variance from the F distribution of ``MS_R / MS_E``, limits of the contributed one from the
    chi-squared distribution of ``MS_F``, both two-sided at 95 %, set against each other. Exact shares of normal
    scores; the pair covers more than 95 %.
    """
    from scipy.special import chdtri, fdtri

    rows, columns = components.rows, components.columns
    tail = (1 - LEVEL) / 2
    residual_degrees = (rows - 1) * (columns - 1)
    mean_square, residual = components.mean_square_rows, components.mean_square_residual
    mitigated = [
        max(0.0, (mean_square / float(fdtri(rows - 1, residual_degrees, share)) - residual) / columns)
        for share in (1 - tail, tail)
    ]
    contributed = [
        components.mean_square_columns * (columns - 1) / float(chdtri(columns - 1, upper_tail)) / rows
        + (1 - 1 / rows) * residual
        for upper_tail in (tail, 1 - tail)
    ]
    return _importance(contributed[0], mitigated[1]), _importance(contributed[1], mitigated[0])


def importance_of_logit(logit: float) -> float:
    """Return ``sqrt(S_T) - sqrt(1 - S_T)`` for ``logit(S_T)``."""
    share = math.exp(-abs(logit))
    larger, smaller = math.sqrt(1 / (1 + share)), math.sqrt(share / (1 + share))
    return math.copysign(larger - smaller, logit)


def _importance(contributed: float, mitigated: float) -> float:
    total = contributed + mitigated
    return math.sqrt(contributed / total) - math.sqrt(mitigated / total) if total > 0 else math.nan


def _logits(of_rows: FloatArray, of_columns: FloatArray, residual: FloatArray, rows: int, columns: int) -> FloatArray:
    """Return logit(S_T) of each of the tables whose mean squares are given; infinite or nan where one part is zero."""
    contributed = of_columns / rows + (1 - 1 / rows) * residual
    mitigated = np.maximum(0.0, (of_rows - residual) / columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        logits: FloatArray = np.log(contributed) - np.log(mitigated)
    return logits


def _jackknife_variance(values: FloatArray) -> float:
    count = len(values)
    return (count - 1) / count * float(np.square(values - values.mean()).sum())
