"""A fixed list of levels: the columns of a table are all configurations that the factor has, and no draws.

The model is ``y_ij = f(R_i, j)`` with rows i drawn and every level j = 1 .. N in each row. A run that varies everything
has a level drawn evenly from the list. The variance of its score is, without any error over columns, the expected
variance within a row (divisor N) plus the variance of the row means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.estimate import Estimate, Variances, leave_out
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_components
from mlflow_l3d.analysis.importance.shape import tails
from mlflow_l3d.analysis.importance.tables import rounding_variance
from mlflow_l3d.analysis.importance.variances import MeanSquares, VarianceComponents
from mlflow_l3d.analysis.intervals import FloatArray

SKEWED: Final = 0.5
"""Standard errors of the skewness of normal row means from which the error grows ..."""
WIDER: Final = 0.6
"""... by this share for each further one if there are 20 rows, and by less if there are more (power 1.5)."""


@dataclass(frozen=True, slots=True)
class LevelSquares(MeanSquares):
    """Mean squares of a table whose columns are all there are; attributes as of its base."""

    @property
    def contributed(self) -> float:
        """tau2: mean over rows of the variance within a row, divisor N."""
        return (1 - 1 / self.columns) * (self.of_columns / self.rows + (1 - 1 / self.rows) * self.residual)

    @property
    def mitigated(self) -> float:
        """s2_R: variance of the row means, which equal those of all levels: never below zero."""
        return self.of_rows / self.columns

    @property
    def total_degrees(self) -> float:
        """Degrees of freedom of the total, for normal scores; the main effect of the levels has no error."""
        parts = ((self.mitigated, self.rows - 1), ((1 - 1 / self.columns) * self.residual, self.residual_degrees))
        sum_of_squares = sum((part / self.total) ** 2 / degrees for part, degrees in parts)
        return 1 / sum_of_squares if sum_of_squares > 0 else math.inf

    def variances(self) -> VarianceComponents:
        """Return the record of the variance components."""
        share = 1 - 1 / self.columns
        main = share * (self.of_columns - self.residual) / self.rows
        interaction = share * self.residual
        parts = (self.contributed, self.mitigated, main, interaction)
        return VarianceComponents("levels", "anova", self.rows, self.columns, *parts)


def levels_components(table: FloatArray) -> LevelSquares | None:
    """Return the mean squares of a table of levels.

    Parameters
    ----------
    table
        Shape (M, N): rows are mitigation runs, columns the levels; nan if a score is missing.

    Returns
    -------
    LevelSquares or None
        Of the rows that have a score at every level; None below two of them, or two levels.
    """
    squares = crossed_components(_complete(table)) if table.shape[1] >= 2 else None
    if squares is None:
        return None
    return LevelSquares.complete(squares.rows, squares.columns, squares.of_rows, squares.residual, squares.of_columns)


def levels_estimate(table: FloatArray) -> Estimate | None:
    """Return the corrected importance of a table of levels with its error.

    Parameters
    ----------
    table
        Shape (M, N), nan if a score is missing.

    Returns
    -------
    Estimate or None
        None as for :func:`levels_components`; without an interval below three rows, and where rows or levels do not
        differ.

    Notes
    -----
    Rows are independent, each with a variance of its own and a mean, and nothing else is drawn: a jackknife over rows
    of ``logit(S_T) = log(tau2 / s2_R)`` with M - 1 degrees of freedom. Few rows of a skewed population lack its tail
    and make the jackknife too sure, so its error grows with the skewness of row means beyond that of normal ones.
    For coverage in simulations see docs/evidence/simulations.md.
    """
    squares = levels_components(table)
    if squares is None:
        return None
    if squares.rows < 3:
        return Estimate(squares.variances(), squares)
    without = levels_without_each(table)
    jackknife = leave_out(squares.contributed, squares.mitigated, without)
    if jackknife is not None and (shape := tails(_complete(table).mean(axis=1))) is not None:
        wider = 1 + WIDER * (20 / shape.size) ** 1.5 * max(0.0, abs(shape.skewness) / shape.skewness_error - SKEWED)
        jackknife = replace(jackknife, error=jackknife.error * wider)
    return Estimate(squares.variances(), squares, jackknife, without=(without,))


def levels_without_each(table: FloatArray) -> Variances:
    """Return contributed and mitigated variance without each complete row in turn, each of shape (M,), M at least 3."""
    rows = _complete(table)
    count, floor = len(rows), rounding_variance(rows)
    within = rows.var(axis=1)
    squares = np.square(rows.mean(axis=1) - rows.mean())
    of_means = (squares.sum() - count / (count - 1) * squares) / (count - 2)
    return (within.sum() - within) / (count - 1), np.where(of_means <= floor, 0.0, of_means)


def _complete(table: FloatArray) -> FloatArray:
    return table[np.isfinite(table).all(axis=1)]
