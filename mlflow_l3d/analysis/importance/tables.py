"""Tables of scores as they come, and the standard deviations, their interval, and quartiles of what is in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_quantile

ROUNDING: Final = 64 * float(np.finfo(np.float64).eps)
"""A standard deviation below this share of the largest absolute score is rounding, and counts as zero."""
LARGEST_SCORE: Final = 1e50
"""Scores beyond this are missing: tracking servers hold infinity as the largest float."""
SMALLEST_SCORE: Final = 1 / LARGEST_SCORE
"""Scores below this in size are 0: no float is as small as their fourth powers."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Scores of one investigation; nan if a cell has none. A design says what they mean.

    Attributes
    ----------
    tables
        Factor -> scores. Crossed and nested: shape (M, N). Radial: swaps, shape (n, 1). Strategies: shape (1, N M).
    golden
        Shape (L,): golden runs; empty if a design's own runs serve.
    base
        Runs that all factors share, the first axis is the rows: the base runs of the radial design, shape (n,).
    pooled
        Whether the cells of all tables, pooled, take the place of golden runs.
    """

    tables: Mapping[str, FloatArray]
    golden: FloatArray = field(default_factory=lambda: np.empty(0))
    base: FloatArray = field(default_factory=lambda: np.empty(0))
    pooled: bool = False

    @property
    def missing(self) -> int:
        """Cells and golden runs without a score."""
        return sum(int(np.isnan(scores).sum()) for scores in (*self.tables.values(), self.golden, self.base))

    def changed(self, change: Callable[[FloatArray], FloatArray]) -> Tables:
        """Return the tables with `change`, which takes an array, of every score."""
        tables = {name: change(table) for name, table in self.tables.items()}
        return replace(self, tables=tables, golden=change(self.golden), base=change(self.base))


def usable(scores: npt.ArrayLike) -> FloatArray:
    """Return a copy with nan for every score that is not a usable number, and 0 for one too small, in any shape."""
    values = np.array(scores, dtype=np.float64)
    values[np.abs(values) < SMALLEST_SCORE] = 0.0
    values[~(np.abs(values) < LARGEST_SCORE)] = np.nan
    return values


def uncollapsed(scores: FloatArray, chance: float) -> FloatArray:
    """Return the scores that are not below chance, nan in place of the others."""
    return np.where(scores < chance, math.nan, scores)


def with_scores(table: FloatArray) -> FloatArray:
    """Return the rows and the columns of a table that have a score."""
    finite = np.isfinite(table)
    return table[finite.any(axis=1)][:, finite.any(axis=0)]


def quartile_distance(known: FloatArray) -> float:
    """Return the distance between the quartiles of some scores; nan below two."""
    if len(known) < 2:
        return math.nan
    low, high = np.quantile(known, (0.25, 0.75))
    return float(high - low)


def constant(values: FloatArray) -> bool:
    """Return whether values are equal but for rounding."""
    return float(np.ptp(values)) <= ROUNDING * float(np.abs(values).max())


def rounding_variance(values: FloatArray) -> float:
    """Return the variance up to which rounding alone may make values differ."""
    return (ROUNDING * float(np.abs(values).max())) ** 2


def known_std(values: FloatArray, *, ddof: int = 0) -> float:
    """Return the standard deviation (population by default); exactly zero where values differ by rounding alone."""
    return 0.0 if constant(values) else float(values.std(ddof=ddof))


def population_std(scores: npt.ArrayLike) -> float:
    """Return the population standard deviation (ddof=0) of the scores that are not missing; nan below two."""
    values = usable(scores)
    finite_values = values[np.isfinite(values)]
    return known_std(finite_values) if len(finite_values) >= 2 else math.nan


def mean_row_std(table: FloatArray) -> float:
    """Return the mean over rows of the population standard deviation of the scores of the row; each has one."""
    stds = np.nanstd(table, axis=1)
    spread = np.nanmax(table, axis=1) - np.nanmin(table, axis=1)
    stds[spread <= ROUNDING * np.nanmax(np.abs(table), axis=1)] = 0.0
    return float(stds.mean())


FEWEST_FOR_STD: Final = 5
"""Bonett's trimmed mean is defined from this many scores on."""


def std_interval(scores: FloatArray, *, level: float = LEVEL) -> tuple[float, float]:
    """Return Bonett's interval of the standard deviation that independent scores are drawn with.

    Parameters
    ----------
    scores
        Shape (S,), finite.
    level
        Confidence level.

    Returns
    -------
    tuple of float
        Both nan below five scores, or where all are equal.

    Notes
    -----
    Bonett 2006 (Computational Statistics and Data Analysis 50): an interval of the log of the variance whose error
    comes from the scores' own kurtosis, around a trimmed mean, here with the quantile of t and not of the normal
    distribution, since the kurtosis of ten scores is itself uncertain::

        log(c s^2) +- t c sqrt((kurtosis - (S - 3) / S) / (S - 1)),   c = S / (S - z)

    The chi-squared interval of textbooks holds for normal scores only. Share of simulations in which 10 seeds cover the
    truth (chi-squared / here): normal 95 / 98 %, Laplace 85 / 96 %, t with 5 degrees of freedom 87 / 96 %, exponential
    77 / 92 %, a collapse of 30 % of seeds 97 / 95 %; the ends of this one are 3.6 and of the other 2.7 times apart.
    A collapse that hits 10 % of seeds is missed by both (64 and 59 %): ten seeds often hold none.
    """
    from scipy.special import ndtri

    count = len(scores)
    if count < FEWEST_FOR_STD or not known_std(scores):
        return math.nan, math.nan
    normal = float(ndtri((1 + level) / 2))
    factor = count / (count - normal)
    cut = int(count / (2 * math.sqrt(count - 4)))
    trimmed = np.sort(scores)[cut : count - cut]
    centre = float(trimmed.mean()) if len(trimmed) else float(np.median(scores))
    deviations = scores - scores.mean()
    unit = float(np.abs(deviations).max())  # powers of tiny scores would be 0
    squares = float(np.square(deviations / unit).sum())
    kurtosis = count * float((((scores - centre) / unit) ** 4).sum()) / squares**2
    error = factor * math.sqrt(max(0.0, kurtosis - (count - 3) / count) / (count - 1))
    half = t_quantile(count - 1, level) * error
    scaled = factor * squares / (count - 1)
    return unit * math.sqrt(scaled * math.exp(-half)), unit * math.sqrt(scaled * math.exp(half))
