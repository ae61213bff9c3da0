"""Confidence intervals of the corrected importance."""

from __future__ import annotations

import math

import numpy as np

from mlflow_l3d.analysis.importance.components import (
    Components,
    Effects,
    crossed_components,
    effects,
    mean_squares_without_one_column,
    mean_squares_without_one_row,
)
from mlflow_l3d.analysis.importance.estimate import (
    BOUNDARY_TAIL,
    Estimate,
    LogitJackknife,
    importance_of_variances,
    log_ratio,
)
from mlflow_l3d.analysis.importance.variances import VarianceComponents, variance_components
from mlflow_l3d.analysis.jackknife import LEVEL, jackknife_variance
from mlflow_l3d.analysis.typing import FloatArray


def crossed_variances(components: Components) -> VarianceComponents:
    """Return the record of the variance components of a crossed table."""
    return variance_components(
        "crossed",
        "anova",
        rows=components.rows,
        columns=components.columns,
        contributed=components.contributed,
        mitigated=components.mitigated_untruncated,
        main=components.main_untruncated,
        interaction=components.interaction,
    )


def crossed_estimate(table: FloatArray) -> Estimate | None:
    """Return the corrected importance of a complete crossed table with its error.

    Parameters
    ----------
    table
        Shape (M, N), finite.

    Returns
    -------
    Estimate or None
        None where there are fewer than two rows or columns; without an interval below three of either.

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
    if min(table.shape) < 2:
        return None
    parts = effects(table)
    components = crossed_components(table)
    assert components is not None
    variances = crossed_variances(components)
    if min(table.shape) < 3 or not components.total > 0:
        return Estimate(variances)
    return Estimate(
        variances, _crossed_jackknife(parts, components), lambda level: boundary_interval(components, level=level)
    )


def _crossed_jackknife(parts: Effects, components: Components) -> LogitJackknife | None:
    """Return the jackknife of logit(S_T), None where rows do not differ for certain."""
    from scipy.special import fdtri

    rows, columns = components.rows, components.columns
    chance = float(fdtri(rows - 1, (rows - 1) * (columns - 1), 1 - BOUNDARY_TAIL))
    if components.contributed == 0 or components.mean_square_rows <= chance * components.mean_square_residual:
        return None
    of_rows = _logits(*mean_squares_without_one_row(parts), rows - 1, columns)
    of_columns = _logits(*mean_squares_without_one_column(parts), rows, columns - 1)
    if not (np.isfinite(of_rows).all() and np.isfinite(of_columns).all()):
        return None
    error = math.sqrt(jackknife_variance(of_rows) + jackknife_variance(of_columns))
    centre = math.log(components.contributed) - math.log(components.mitigated)
    return LogitJackknife(centre, error, min(rows, columns) - 1)


def boundary_interval(components: Components, *, level: float = LEVEL) -> tuple[float, float]:
    """Return a conservative interval of the corrected importance where the jackknife is no good.

    Notes
    -----
    Limits of the mitigated variance from the F distribution of ``MS_R / MS_E``, limits of the contributed one from the
    chi-squared distribution of ``MS_F``, both two-sided at `level`, set against each other; for normal scores the pair
    covers at least about `level`. The upper limit of the mitigated variance is never below that of rows that differ
    just as much as the residuals let expect: rows that agree better than that are luck.
    """
    from scipy.special import chdtri, fdtri

    rows, columns = components.rows, components.columns
    tail = (1 - level) / 2
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
    return (
        importance_of_variances(contributed[0], mitigated[1]),
        importance_of_variances(contributed[1], mitigated[0]),
    )


def _logits(of_rows: FloatArray, of_columns: FloatArray, residual: FloatArray, rows: int, columns: int) -> FloatArray:
    """Return logit(S_T) of each of the tables whose mean squares are given; infinite or nan where one part is zero."""
    contributed = of_columns / rows + (1 - 1 / rows) * residual
    return log_ratio(contributed, (of_rows - residual) / columns)
