"""The nested design: fresh columns for every row, so that rows are independent of each other.

The model of a table is ``y_ij = mu + b_i + w_ij``: rows i are configurations of all other factors, and the N
configurations of the investigated factor under a row occur nowhere else. What the factor contributes (main effect and
interaction together) is the variance within rows.
"""

from __future__ import annotations

import numpy as np

from mlflow_l3d.analysis.importance.estimate import (
    BOUNDARY_TAIL,
    Estimate,
    Variances,
    importance_of_variances,
    logit_jackknife,
)
from mlflow_l3d.analysis.importance.tables import rounding_variance
from mlflow_l3d.analysis.importance.variances import MeanSquares
from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.typing import FloatArray


def nested_components(table: FloatArray) -> MeanSquares | None:
    """Return the mean squares of a complete nested table.

    Parameters
    ----------
    table
        Shape (M, N), finite: rows are mitigation runs, each with investigation runs of its own.

    Returns
    -------
    MeanSquares or None
        None where the table has fewer than two rows or columns.
    """
    if min(table.shape) < 2:
        return None
    row_means, within, floor = _row_statistics(table)
    squares = table.shape[1] * float(row_means.var(ddof=1)), float(within.mean())
    return MeanSquares(*table.shape, *(0.0 if square <= floor else square for square in squares))


def nested_estimate(table: FloatArray) -> Estimate | None:
    """Return the corrected importance of a complete nested table with its error.

    Parameters
    ----------
    table
        Shape (M, N), finite.

    Returns
    -------
    Estimate or None
        None where there are fewer than two rows or columns; without an interval below three rows.

    Notes
    -----
    Jackknife over rows of ``logit(S_T) = log(tau2 / s2_R)`` with M - 1 degrees of freedom. Where rows do not differ
    for certain (F test, one-sided at 97.5 %) the logit has no usable error, and :func:`nested_limits` is used.
    """
    squares = nested_components(table)
    if squares is None:
        return None
    if len(table) < 3 or not squares.total > 0:
        return Estimate(squares.variances())
    jackknife = None
    if squares.rows_differ(BOUNDARY_TAIL):
        without = nested_variances_without_each(table)
        jackknife = logit_jackknife(squares.contributed, squares.mitigated, without, degrees=len(table) - 1)
    return Estimate(squares.variances(), jackknife, lambda level: nested_limits(squares, level=level))


def nested_limits(squares: MeanSquares, *, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of the corrected importance from the F distribution of ``MS_R / MS_W``.

    Notes
    -----
    Exact for normal scores: ``MS_R / MS_W`` is ``1 + N s2_R / tau2`` times an F variable with M - 1 and M(N - 1)
    degrees of freedom. Rows that differ less than chance lets expect are luck, so the limit of s2_R from above never
    takes them at less than that.
    """
    from scipy.special import fdtri

    if squares.residual == 0:
        only_rows = importance_of_variances(0.0, squares.of_rows)
        return only_rows, only_rows
    tail = (1 - level) / 2
    ratio = squares.of_rows / squares.residual
    degrees = (squares.rows - 1, squares.residual_degrees)
    least = max(0.0, ratio / float(fdtri(*degrees, 1 - tail)) - 1) / squares.columns
    most = max(0.0, max(1.0, ratio) / float(fdtri(*degrees, tail)) - 1) / squares.columns
    return importance_of_variances(1.0, most), importance_of_variances(1.0, least)


def _row_statistics(table: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return row means (centred), variances within rows (ddof=1), and the variance that is rounding."""
    centred, floor = table - table.mean(), rounding_variance(table)
    within = centred.var(axis=1, ddof=1)
    within[within <= floor] = 0.0
    return centred.mean(axis=1), within, floor


def nested_variances_without_each(table: FloatArray) -> Variances:
    """Return contributed and (untruncated) mitigated variance without each row in turn, each of shape (M,).

    Parameters
    ----------
    table
        Shape (M, N), finite, M at least 3 and N at least 2.
    """
    rows, columns = table.shape
    row_means, within, floor = _row_statistics(table)
    contributed = (within.sum() - within) / (rows - 1)
    # Taking row i away lowers the sum of squares of the means by M / (M - 1) times its own.
    squares = np.square(row_means - row_means.mean())
    of_means = (squares.sum() - rows / (rows - 1) * squares) / (rows - 2)
    return contributed, np.where(of_means <= floor, 0.0, of_means) - contributed / columns
