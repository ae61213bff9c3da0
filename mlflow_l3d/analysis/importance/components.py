"""Variance components of a crossed table: how much of the variance of a score is the investigated factor's.

The model of a table with rows i (configurations R of all other factors) and columns j (configurations F of the
investigated one) is ``y_ij = mu + b_i + a_j + (ab)_ij + e_ij``. With one score a cell the interaction and the rest
cannot be told apart; both belong to what the investigated factor contributes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.analysis.typing import FloatArray

ROUNDING: Final = 64 * float(np.finfo(np.float64).eps)
"""A standard deviation below this share of the largest absolute score is rounding, and counts as zero."""
DOWNDATE_ROUNDING: Final = 1e-12
"""A sum of squares that falls below this share of itself when one row is taken away is rounding, likewise."""


@dataclass(frozen=True, slots=True)
class Components:
    """Two-way analysis of variance of one complete table, sample variances (ddof=1), in squared score units.

    Attributes
    ----------
    rows, columns
        M and N, both at least 2.
    mean_square_rows, mean_square_columns, mean_square_residual
        ``N * var(row means)``, ``M * var(column means)``, and the residual over ``(M - 1)(N - 1)``.
    """

    rows: int
    columns: int
    mean_square_rows: float
    mean_square_columns: float
    mean_square_residual: float

    @property
    def mitigated_untruncated(self) -> float:
        """Variance of all other factors; below zero where rows differ less than the residual lets expect."""
        return (self.mean_square_rows - self.mean_square_residual) / self.columns

    @property
    def mitigated(self) -> float:
        """Variance of all other factors, zero at least."""
        return max(0.0, self.mitigated_untruncated)

    @property
    def main_untruncated(self) -> float:
        """Variance of the main effect of the investigated factor; may be below zero."""
        return (self.mean_square_columns - self.mean_square_residual) / self.rows

    @property
    def interaction(self) -> float:
        """Variance of the interaction of the investigated factor with the others, and of what nothing explains."""
        return self.mean_square_residual

    @property
    def contributed(self) -> float:
        """Variance that the investigated factor contributes: main effect and interaction; never below zero."""
        return self.mean_square_columns / self.rows + (1 - 1 / self.rows) * self.mean_square_residual

    @property
    def total(self) -> float:
        """Variance of the score when every factor varies; the golden runs estimate the same."""
        return self.mitigated + self.contributed

    @property
    def total_degrees(self) -> float:
        """Degrees of freedom of the total, for normal scores (Satterthwaite 1946); nan where the total is zero."""
        if self.total <= 0:
            return math.nan
        rows, columns = self.rows, self.columns
        parts = (
            (self.mean_square_rows / columns, rows - 1),
            (self.mean_square_columns / rows, columns - 1),
            ((1 - 1 / rows - 1 / columns) * self.mean_square_residual, (rows - 1) * (columns - 1)),
        )
        return 1 / sum((part / self.total) ** 2 / degrees for part, degrees in parts)

    @property
    def total_index(self) -> float:
        """Total Sobol index of the investigated factor, S_T in [0, 1]; nan where all scores are equal."""
        return self.contributed / self.total if self.total > 0 else math.nan

    @property
    def importance(self) -> float:
        """Corrected importance ``sqrt(S_T) - sqrt(1 - S_T)``: what the published score tends to with many runs."""
        if not self.total > 0:
            return math.nan
        return math.sqrt(self.contributed / self.total) - math.sqrt(self.mitigated / self.total)


@dataclass(frozen=True, slots=True)
class Effects:
    """A complete table taken apart: ``table = mean + row effects + column effects + residuals``.

    Attributes
    ----------
    row_effects, column_effects, residuals
        Shapes (M,), (N,), (M, N); each sums to zero along every axis.
    rounding
        Standard deviations up to this count as zero.
    """

    row_effects: FloatArray
    column_effects: FloatArray
    residuals: FloatArray
    rounding: float


def effects(table: FloatArray) -> Effects:
    """Take a complete table apart into the effects of rows, of columns, and the residuals.

    Parameters
    ----------
    table
        Shape (M, N), finite, M and N at least 1.
    """
    largest = float(np.abs(table).max())
    centred = table - table.mean()
    row_effects = centred.mean(axis=1)
    column_effects = centred.mean(axis=0)
    residuals = centred - row_effects[:, None] - column_effects
    return Effects(row_effects, column_effects, residuals, ROUNDING * largest)


def crossed_components(table: FloatArray) -> Components | None:
    """Return the variance components of a complete crossed table.

    Parameters
    ----------
    table
        Shape (M, N), finite: rows are mitigation runs, columns investigation runs.

    Returns
    -------
    Components or None
        None where the table has fewer than two rows or columns.

    Notes
    -----
    Two-way random-effects analysis of variance; ``mean_i var1_j(y) = MS_F / M + (1 - 1/M) MS_E`` is the contributed
    variance.
    """
    if min(table.shape) < 2:
        return None
    return _components(effects(table))


def _components(parts: Effects) -> Components:
    rows, columns = parts.residuals.shape
    floor = parts.rounding**2
    squares = (
        columns * float(parts.row_effects @ parts.row_effects) / (rows - 1),
        rows * float(parts.column_effects @ parts.column_effects) / (columns - 1),
        float(np.square(parts.residuals).sum()) / ((rows - 1) * (columns - 1)),
    )
    of_rows, of_columns, residual = (0.0 if square <= floor else square for square in squares)
    return Components(rows, columns, of_rows, of_columns, residual)


def mean_squares_without_one_row(parts: Effects) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean squares of rows, columns and residuals of the M tables that each lack one row.

    Parameters
    ----------
    parts
        Effects of the whole table, M at least 3 and N at least 2.

    Returns
    -------
    tuple of FloatArray
        Each of shape (M,).

    Notes
    -----
    Taking row i away changes column effect j to ``a_j - e_ij / (M - 1)`` and lowers the sums of squares of rows and of
    residuals by ``M / (M - 1)`` times the row's own, so that all M tables cost as much as one.
    """
    rows, columns = parts.residuals.shape
    shrink = rows / (rows - 1)
    row_squares = np.square(parts.row_effects)
    residual_squares = np.square(parts.residuals).sum(axis=1)
    column_effects = parts.column_effects - parts.residuals / (rows - 1)
    floor = parts.rounding**2
    of_rows = columns * _downdated(row_squares, shrink) / (rows - 2)
    of_columns = (rows - 1) * np.square(column_effects).sum(axis=1) / (columns - 1)
    residual = _downdated(residual_squares, shrink) / ((rows - 2) * (columns - 1))
    zeroed = [np.where(squares <= floor, 0.0, squares) for squares in (of_rows, of_columns, residual)]
    return zeroed[0], zeroed[1], zeroed[2]


def mean_squares_without_one_column(parts: Effects) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean squares of rows, columns and residuals of the N tables that each lack one column, shape (N,)."""
    turned = Effects(parts.column_effects, parts.row_effects, parts.residuals.T, parts.rounding)
    of_columns, of_rows, residual = mean_squares_without_one_row(turned)
    return of_rows, of_columns, residual


def _downdated(squares: FloatArray, shrink: float) -> FloatArray:
    """Return the sum of squares that is left without each member in turn, rounding errors set to zero."""
    total = squares.sum()
    left = total - shrink * squares
    return np.where(left <= DOWNDATE_ROUNDING * total, 0.0, left)
