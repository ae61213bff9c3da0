"""Tables of scores, from a frame of cells with one row per run; and the standard deviations of what is in them.

The frame has the columns ``phase`` (``investigation``, ``golden``, or one that a design has of its own; rows of any
other phase are passed over), ``factor``, ``row``, ``column``, ``index``, and one for each metric. Coordinates may
be numbers or texts of digits, since tags are texts. A score of nan is a run without a score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_quantile
from mlflow_l3d.errors import ParameterError, unknown_name

COORDINATES: Final = ("phase", "factor", "row", "column", "index")
"""Columns that say where a cell stands; every other numeric column is a metric."""
LARGEST_TABLE: Final = 10_000_000
"""More cells than this are taken for seeds written where row and column numbers belong."""
NUMBERED: Final = "Number rows, columns and golden runs 0, 1, 2, ... each."
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


def factors_in(cells: pd.DataFrame, phases: Collection[str]) -> list[str]:
    """Return the factors of the cells of some phases, in the order in which they first occur."""
    _require(cells, "phase")
    investigated = cells["phase"].isin(phases)
    if not investigated.any():
        return []
    _require(cells, "factor")
    return [str(name) for name in cells.loc[investigated, "factor"].dropna().unique()]


def placed_scores(
    cells: pd.DataFrame,
    metric: str,
    phase: str,
    sizes: Mapping[str, int | None],
    *,
    where: str,
    factor: str | None = None,
) -> FloatArray:
    """Return the scores of the runs of one phase by their places.

    Parameters
    ----------
    cells
        One row per run, see the module.
    metric
        Column that holds the scores.
    phase
        Which runs.
    sizes
        Coordinate -> how many there are of it in the plan; None means as many as are found. Each is an axis.
    where
        What the runs are called in messages.
    factor
        Take the runs of this factor alone; None takes all.

    Returns
    -------
    FloatArray
        One axis a coordinate, nan if there is no score.

    Raises
    ------
    ParameterError
        If a column is missing, a coordinate is not a whole number of the plan, or two scores have the same place.
    """
    _require(cells, "phase")
    chosen = cells[cells["phase"].isin([phase])]
    if len(chosen):
        _require(cells, *(() if factor is None else ("factor",)), *sizes)
        chosen = chosen if factor is None else chosen[chosen["factor"].isin([factor])]
    if metric not in cells or metric in COORDINATES:
        numeric = cells.select_dtypes("number").columns
        raise unknown_name("metric", metric, [str(name) for name in numeric if name not in COORDINATES])
    scores = _numbers(chosen[metric])
    places = pd.DataFrame(index=range(len(chosen)))
    shape = []
    for name, planned in sizes.items():
        numbers = _numbers(chosen[name]) if name in chosen else np.empty(0)
        count = planned if planned is not None else int(np.nanmax(numbers, initial=-1)) + 1
        if count > LARGEST_TABLE:
            raise ParameterError(name, count - 1, f"must be below {LARGEST_TABLE} in {where}", NUMBERED)
        wrong = numbers[~((numbers >= 0) & (numbers < count) & (numbers == np.trunc(numbers)))]
        if len(wrong):
            allowed = f"must be a whole number from 0 to {max(count - 1, 0)} in {where}"
            raise ParameterError(name, f"{wrong[0]:.15g}", allowed)
        places[name] = numbers.astype(np.int64)
        shape.append(count)
    # A failed run may stand next to its repetition.
    scored = np.isfinite(scores)
    places = places[scored]
    if len(twice := places[places.duplicated()]):
        place = " ".join(f"{name} {number}" for name, number in twice.iloc[0].items())
        raise ParameterError("cells", place, f"must occur once in {where}", "Keep one finished run of each cell.")
    if math.prod(shape) > LARGEST_TABLE:
        allowed = f"must be at most {LARGEST_TABLE} cells in {where}"
        raise ParameterError(" x ".join(sizes), " x ".join(map(str, shape)), allowed, NUMBERED)
    array = np.full(shape, np.nan)
    array[tuple(places.to_numpy().T)] = scores[scored]
    return array


def score_table(
    cells: pd.DataFrame, factor: str, metric: str, *, rows: int | None = None, columns: int | None = None
) -> FloatArray:
    """Return the M x N table of scores of one factor: mitigation runs x investigation runs; see `placed_scores`."""
    sizes = {"row": rows, "column": columns}
    return placed_scores(cells, metric, "investigation", sizes, factor=factor, where=f"the table of {factor}")


def golden_scores(cells: pd.DataFrame, metric: str, *, runs: int | None = None) -> FloatArray:
    """Return the scores of the golden runs, shape (L,); see :func:`placed_scores`.

    If no golden run has an ``index``, they are numbered as they come.
    """
    _require(cells, "phase")
    golden = cells["phase"].isin(["golden"])
    if "index" not in cells or not cells.loc[golden, "index"].notna().any():
        cells = cells.assign(index=golden.cumsum() - 1)
    return placed_scores(cells, metric, "golden", {"index": runs}, where="the golden runs")


def _require(cells: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in cells]
    if missing:
        fix = f"Needed are {', '.join(COORDINATES)} and the metric."
        raise ParameterError("cells", ", ".join(map(str, cells.columns)), f"must have a column {missing[0]}", fix)


def _numbers(column: pd.Series[Any]) -> FloatArray:
    """Return a column as floats, nan where missing."""
    numbers = pd.to_numeric(column, errors="coerce")
    lost = column[column.notna() & numbers.isna()]
    if len(lost):
        raise ParameterError(str(column.name), repr(lost.iloc[0]), "must be a number")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


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


def are_equal(scores: FloatArray) -> bool:
    """Return whether two scores or more are equal but for rounding."""
    return len(scores) >= 2 and constant(scores)


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
