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
    of freedom; leaving out rows alone would claim a precision that N columns cannot give.

    The logit has no bounds near its ends, so :func:`boundary_interval` is used where rows differ no more than chance
    allows (F test of ``MS_R / MS_E``, one-sided at 97.5 %), or a component is zero in the table or in one that lacks a
    row or column. In simulations with normal scores (3 x 3 to 100 x 10, S_T from 0.1 to 1) the two together cover the
    truth in 93 % of tables or more; the jackknife alone in 79 % where the other factors have no effect.
    """
    rows, columns = components.rows, components.columns
    if min(rows, columns) < 3 or not components.total > 0:
        return math.nan, math.nan
    from scipy.special import fdtri, stdtrit

    tail = (1 - LEVEL) / 2
    chance = float(fdtri(rows - 1, (rows - 1) * (columns - 1), 1 - tail))
    if components.contributed == 0 or components.mean_square_rows <= chance * components.mean_square_residual:
        return boundary_interval(components)
    of_rows = _logits(*mean_squares_without_one_row(parts), rows - 1, columns)
    of_columns = _logits(*mean_squares_without_one_column(parts), rows, columns - 1)
    if not (np.isfinite(of_rows).all() and np.isfinite(of_columns).all()):
        return boundary_interval(components)
    error = math.sqrt(_jackknife_variance(of_rows) + _jackknife_variance(of_columns))
    half = float(stdtrit(min(rows, columns) - 1, 1 - tail)) * error
    centre = math.log(components.contributed) - math.log(components.mitigated)
    return importance_of_logit(centre - half), importance_of_logit(centre + half)


def boundary_interval(components: Components) -> tuple[float, float]:
    """Return a conservative 95 % interval of the corrected importance where the jackknife is no good.

    Notes
    -----
    Limits of the mitigated variance from the F distribution of ``MS_R / MS_E``, limits of the contributed one from the
    chi-squared distribution of ``MS_F``, both two-sided at 95 %, set against each other; for normal scores the pair
    covers at least about 95 %. The upper limit of the mitigated variance is never below that of rows that differ just
    as much as the residuals let expect: rows that agree better than that are luck.
    """
    from scipy.special import chdtri, fdtri

    rows, columns = components.rows, components.columns
    tail = (1 - LEVEL) / 2
    residual_degrees = (rows - 1) * (columns - 1)
    residual = components.mean_square_residual
    mitigated = [
        max(0.0, (mean_square / float(fdtri(rows - 1, residual_degrees, share)) - residual) / columns)
        for mean_square, share in (
            (components.mean_square_rows, 1 - tail),
            (max(components.mean_square_rows, residual), tail),
        )
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
