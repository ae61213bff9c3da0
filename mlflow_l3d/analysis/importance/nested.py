"""The nested design: fresh columns for every row, so that rows are independent of each other.

The model of a table is ``y_ij = mu + b_i + w_ij``: rows i are configurations of all other factors, and the N
configurations of the investigated factor under a row occur nowhere else. What the factor contributes (main effect and
interaction together) is the variance within rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlflow_l3d.analysis.importance.components import ROUNDING
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


@dataclass(frozen=True, slots=True)
class NestedComponents:
    """One-way analysis of variance of one complete table, in squared score units.

    Attributes
    ----------
    rows, columns
        M and N, both at least 2.
    mean_square_rows, mean_square_within
        ``N * var(row means)`` and ``mean over rows of the variance within a row`` (ddof=1).
    """

    rows: int
    columns: int
    mean_square_rows: float
    mean_square_within: float

    @property
    def contributed(self) -> float:
        """tau2: variance that the investigated factor contributes; never below zero."""
        return self.mean_square_within

    @property
    def mitigated_untruncated(self) -> float:
        """s2_R = var(row means) - tau2 / N; below zero where row means differ less than columns let expect."""
        return (self.mean_square_rows - self.mean_square_within) / self.columns

    @property
    def total(self) -> float:
        """sigma2: variance of the score when every factor varies; the golden runs estimate the same."""
        return max(0.0, self.mitigated_untruncated) + self.contributed

    @property
    def total_degrees(self) -> float:
        """Degrees of freedom of the total, for normal scores (Satterthwaite 1946); nan where the total is zero."""
        if self.total <= 0:
            return math.nan
        parts = (
            (self.mean_square_rows / self.columns, self.rows - 1),
            ((1 - 1 / self.columns) * self.mean_square_within, self.rows * (self.columns - 1)),
        )
        return 1 / sum((part / self.total) ** 2 / degrees for part, degrees in parts)

    def variances(self) -> VarianceComponents:
        """Return the record of the variance components."""
        return variance_components(
            "nested",
            "anova",
            rows=self.rows,
            columns=self.columns,
            contributed=self.contributed,
            mitigated=self.mitigated_untruncated,
        )


def nested_components(table: FloatArray) -> NestedComponents | None:
    """Return the variance components of a complete nested table.

    Parameters
    ----------
    table
        Shape (M, N), finite: rows are mitigation runs, each with investigation runs of its own.

    Returns
    -------
    NestedComponents or None
        None where the table has fewer than two rows or columns.
    """
    if min(table.shape) < 2:
        return None
    rows, columns = table.shape
    row_means, within, floor = _row_statistics(table)
    of_rows = columns * float(row_means.var(ddof=1))
    inside = float(within.mean())
    return NestedComponents(rows, columns, 0.0 if of_rows <= floor else of_rows, 0.0 if inside <= floor else inside)


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
    components = nested_components(table)
    if components is None:
        return None
    variances = components.variances()
    if len(table) < 3 or not components.total > 0:
        return Estimate(variances)
    jackknife = _jackknife(table, components) if rows_differ(components) else None
    return Estimate(variances, jackknife, lambda level: nested_limits(components, level=level))


def rows_differ(components: NestedComponents, *, tail: float = BOUNDARY_TAIL) -> bool:
    """Return whether the factor contributes, and row means differ by more than chance (F test, one-sided at `tail`)."""
    from scipy.special import fdtri

    rows, columns = components.rows, components.columns
    chance = float(fdtri(rows - 1, rows * (columns - 1), 1 - tail))
    return components.mean_square_rows > chance * components.mean_square_within > 0


def nested_limits(components: NestedComponents, *, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of the corrected importance from the F distribution of ``MS_R / MS_W``.

    Notes
    -----
    Exact for normal scores: ``MS_R / MS_W`` is ``1 + N s2_R / tau2`` times an F variable with M - 1 and M(N - 1)
    degrees of freedom. Rows that differ less than chance lets expect are luck, so the limit of s2_R from above never
    takes them at less than that.
    """
    from scipy.special import fdtri

    rows, columns = components.rows, components.columns
    within = components.mean_square_within
    if within == 0:
        return importance_of_variances(0.0, components.mean_square_rows), importance_of_variances(
            0.0, components.mean_square_rows
        )
    tail = (1 - level) / 2
    ratio = components.mean_square_rows / within
    degrees = (rows - 1, rows * (columns - 1))
    least = max(0.0, ratio / float(fdtri(*degrees, 1 - tail)) - 1) / columns
    most = max(0.0, max(1.0, ratio) / float(fdtri(*degrees, tail)) - 1) / columns
    return importance_of_variances(1.0, most), importance_of_variances(1.0, least)


def _row_statistics(table: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return row means (centred), variances within rows (ddof=1), and the variance that is rounding."""
    centred = table - table.mean()
    floor = (ROUNDING * float(np.abs(table).max())) ** 2
    within = centred.var(axis=1, ddof=1)
    within[within <= floor] = 0.0
    return centred.mean(axis=1), within, floor


def nested_variances_without_each(table: FloatArray) -> tuple[FloatArray, FloatArray]:
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


def _jackknife(table: FloatArray, components: NestedComponents) -> LogitJackknife | None:
    logits = log_ratio(*nested_variances_without_each(table))
    if not np.isfinite(logits).all():
        return None
    centre = math.log(components.contributed) - math.log(components.mitigated_untruncated)
    return LogitJackknife(centre, math.sqrt(jackknife_variance(logits)), len(table) - 1)
