"""The variances behind a corrected importance score, in one record for every design, and what they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import FloatArray


def std_shrinkage(degrees: npt.ArrayLike) -> FloatArray:
    """Return by which factor the root of an unbiased variance is too small on average, for normal scores (c4)."""
    from scipy.special import gammaln

    half = np.asarray(degrees, dtype=np.float64) / 2
    factor: FloatArray = np.exp(gammaln(half + 0.5) - gammaln(half)) / np.sqrt(half)
    return factor


FEWEST_LEVELS: Final = 5
"""Draws below which their skewness cannot be seen."""
UNSEEN_SKEWNESS: Final = 0.75
"""Part of their degrees of freedom that is counted, so that limits hold for exponential draws, too: by simulation."""


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """What the investigated factor F and all other factors R contribute, in squared score units.

    Nothing is truncated at zero except where said: an estimate of a small variance may fall below zero by chance.

    Attributes
    ----------
    design
        Name of the design.
    method
        ``anova``, ``jansen`` (radial) or ``reml``, say.
    rows, columns
        Complete rows, and columns (2 in the radial design: base and swap). With ``reml`` rows may lack cells.
    contributed
        tau2 = s2_F + s2_RF + s2_e.
    mitigated
        s2_R, main effect of all other factors together.
    main
        s2_F, main effect of the factor; nan if a design cannot separate it from the interaction (nested, radial).
    interaction
        s2_RF + s2_e, its interaction with the others and what nothing explains; nan likewise.
    total
        sigma2 = tau2 + s2_R with s2_R at least 0, unless a design has a better estimate; the golden runs estimate the
        same.
    contributed_degrees
        Degrees of freedom of `contributed` for normal scores (Satterthwaite 1946); nan if they are not known.
    """

    design: str
    method: str
    rows: int
    columns: int
    contributed: float
    mitigated: float
    main: float = math.nan
    interaction: float = math.nan
    total: float = math.nan
    contributed_degrees: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.total):
            object.__setattr__(self, "total", self.contributed + max(0.0, self.mitigated))

    @property
    def total_index(self) -> float:
        """S_T = tau2 / sigma2, in [0, 1]; nan if all scores are equal."""
        return min(1.0, self.contributed / self.total) if self.total > 0 else math.nan

    @property
    def truncated(self) -> tuple[str, ...]:
        """Which of ``main``, ``mitigated`` are below zero: their best estimate is 0."""
        return tuple(name for name in ("main", "mitigated") if getattr(self, name) < 0)

    @property
    def moves_by_std(self) -> float:
        """Standard deviation that the factor causes, interactions included, without the bias of few runs."""
        shrinkage = 1.0 if math.isnan(self.contributed_degrees) else float(std_shrinkage(self.contributed_degrees))
        return math.sqrt(max(0.0, self.contributed)) / shrinkage

    def derived(self) -> dict[str, Any]:
        """Return what follows from the fields and is recorded next to them."""
        return {"total_index": self.total_index, "truncated": self.truncated}

    @property
    def importance(self) -> float:
        """Corrected importance ``sqrt(S_T) - sqrt(1 - S_T)``; nan if all scores are equal."""
        share = self.total_index
        return math.sqrt(share) - math.sqrt(1 - share)


@dataclass(frozen=True, slots=True)
class MeanSquares:
    """Analysis of variance of one table, sample variances (ddof=1), in squared score units.

    Attributes
    ----------
    rows, columns
        M and N, both at least 2: those with at least one score.
    of_rows
        ``N * var(row means)``; where cells are missing, what rows explain beyond columns, over its degrees of freedom.
    residual
        What neither rows nor columns explain, over its degrees of freedom; in a nested table the variance within a
        row.
    of_columns
        ``M * var(column means)``, or what columns explain beyond rows; nan in a nested table, whose rows share no
        columns.
    row_size, column_size
        Cells that a row, and a column, count for: ``of_rows`` is expected to be ``residual + row_size * s2_R``. N and M
        where no cell is missing; the second is nan in a nested table.
    residual_degrees
        Degrees of freedom of the residual.
    """

    rows: int
    columns: int
    of_rows: float
    residual: float
    of_columns: float
    row_size: float
    column_size: float
    residual_degrees: int

    @classmethod
    def complete(cls, rows: int, columns: int, of_rows: float, residual: float, of_columns: float) -> Self:
        """Return the mean squares of a table without missing cells, whose rows share columns."""
        return cls(rows, columns, of_rows, residual, of_columns, columns, rows, (rows - 1) * (columns - 1))

    @property
    def nested(self) -> bool:
        """Whether every row has columns of its own."""
        return math.isnan(self.of_columns)

    @property
    def contributed(self) -> float:
        """tau2: variance that the investigated factor contributes, interaction included; never below zero."""
        if self.nested:
            return self.residual
        return self.of_columns / self.column_size + (1 - 1 / self.column_size) * self.residual

    @property
    def mitigated(self) -> float:
        """s2_R: variance of all other factors; below zero where rows differ less than the residual lets expect."""
        return (self.of_rows - self.residual) / self.row_size

    @property
    def total(self) -> float:
        """sigma2: variance of the score when every factor varies; the golden runs estimate the same."""
        return max(0.0, self.mitigated) + self.contributed

    @property
    def total_degrees(self) -> float:
        """Degrees of freedom of the total, which is above zero, for normal scores (Satterthwaite 1946)."""
        parts = [(self.of_rows / self.row_size, self.rows - 1)]
        share = 1 - 1 / self.row_size
        if not self.nested:
            parts.append((self.of_columns / self.column_size, self.columns - 1))
            share -= 1 / self.column_size
        parts.append((share * self.residual, self.residual_degrees))
        return 1 / sum((part / self.total) ** 2 / degrees for part, degrees in parts)

    @property
    def contributed_degrees(self) -> float:
        """Degrees of freedom of `contributed`, likewise."""
        if self.nested or self.contributed <= 0:
            return self.residual_degrees
        of_columns = self.of_columns / self.column_size / self.contributed
        return 1 / (of_columns**2 / (self.columns - 1) + (1 - of_columns) ** 2 / self.residual_degrees)

    def chance(self, level: float, inequality: float = 0.0) -> tuple[float, float]:
        """Return the largest and the smallest ``MS_R / MS_E`` that equal rows have by chance (F distribution).

        `inequality` is the squared coefficient of variation of the variances within rows, which takes degrees of
        freedom away (Box 1954).
        """
        from scipy.special import fdtri

        of_rows = (self.rows - 1) / (1 + inequality * (self.rows - 2) / (self.rows - 1))
        tail = (1 - level) / 2
        degrees = (of_rows, self.residual_degrees / (1 + inequality))
        return float(fdtri(*degrees, 1 - tail)), float(fdtri(*degrees, tail))

    def mitigated_limits(self, level: float, inequality: float = 0.0) -> tuple[float, float]:
        """Return the limits of `mitigated` from :meth:`chance`, at least 0.

        Rows that differ less than chance lets expect are luck, so the upper limit never takes them at less than that.
        """
        most, least = self.chance(level, inequality)
        low = self.of_rows / most
        high = max(self.of_rows, self.residual) / least
        return max(0.0, low - self.residual) / self.row_size, max(0.0, high - self.residual) / self.row_size

    def rows_differ(self, tail: float) -> bool:
        """Return whether the factor contributes, and rows differ by more than chance (F test, one-sided at `tail`)."""
        from scipy.special import fdtri

        chance = float(fdtri(self.rows - 1, self.residual_degrees, 1 - tail))
        return self.contributed > 0 and self.of_rows > chance * self.residual

    def variances(self) -> VarianceComponents:
        """Return the record of the variance components."""
        design, interaction = ("nested", math.nan) if self.nested else ("crossed", self.residual)
        main = (self.of_columns - self.residual) / self.column_size
        parts = (self.contributed, self.mitigated, main, interaction)
        degrees = self.contributed_degrees
        return VarianceComponents(design, "anova", self.rows, self.columns, *parts, contributed_degrees=degrees)


def skewed_degrees(levels: FloatArray, degrees: float) -> float:
    """Return the degrees of freedom of the mean square of few draws: 2 over its squared relative error.

    Parameters
    ----------
    levels
        The draws; they sum to zero.
    degrees
        Those of normal draws.

    Notes
    -----
    The excess kurtosis is 2 skewness^2: that of a gamma distribution is 1.5, and few levels show too little skewness,
    fewer than :data:`FEWEST_LEVELS` none.
    """
    square, size = float(np.square(levels).mean()), degrees + 1
    if square <= 0:
        return degrees
    if size < FEWEST_LEVELS:
        return UNSEEN_SKEWNESS * degrees
    skewness = float(((levels / math.sqrt(square)) ** 3).mean()) * math.sqrt(size * degrees) / (size - 2)
    return float(degrees / (1 + skewness**2))
