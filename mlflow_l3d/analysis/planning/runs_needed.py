"""How many runs an investigation needs, and what a budget buys: the runs and test examples that say most of a mean."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimators import TableModel
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_quantile
from mlflow_l3d.analysis.planning.assurance import Outlook, half_width_of, optimal_columns

MOST_ROWS: Final = 10_000
MOST_COLUMNS: Final = 1_000
"""A plan never goes beyond these."""


@dataclass(frozen=True, slots=True)
class RunsNeeded:
    """Smallest table of one factor whose interval is narrow enough.

    Attributes
    ----------
    rows, columns
        M and N; None if no table within the limits is enough.
    cells
        ``M N`` of one factor; None likewise.
    half_width
        Half-width of the interval; of the largest table that was tried, where none is enough.
    """

    rows: int | None
    columns: int | None
    cells: int | None
    half_width: float


def runs_needed(
    half_width: float,
    pilot: VarianceComponents | Outlook,
    model: TableModel,
    *,
    columns: int | None = None,
    assurance: float | None = None,
) -> RunsNeeded:
    """Return how many runs one factor needs for a wanted half-width of its interval.

    Parameters
    ----------
    half_width
        Wanted half-width of the interval of the corrected importance, above 0 and below 1.
    pilot
        What a pilot or an earlier investigation says, whose scores were not all equal.
    model
        Of the investigation that is planned.
    columns
        N if it is given. Otherwise, where rows share their columns, the N with the fewest cells; else that of a
        pilot of the same kind, or the optimum for its S_T.
    assurance
        Probability with which the interval is so narrow; None: it is expected to be.

    Returns
    -------
    RunsNeeded
        By :func:`mlflow_l3d.analysis.planning.assurance.half_width_of`. With few columns a crossed table may never be
        enough, however many rows it has.
    """
    outlook = Outlook.of(pilot)

    def width(rows: int, columns: int) -> float:
        return half_width_of(outlook, model, rows=rows, columns=columns, assurance=assurance)

    if model.shared_columns and columns is None:
        fewest = RunsNeeded(None, None, None, math.inf)
        for n in column_choices():
            # A table of more cells than the smallest so far need not be narrow enough.
            most = MOST_ROWS if fewest.cells is None else min(MOST_ROWS, fewest.cells // n)
            candidate = _fewest_rows(half_width, width, n, most)
            if candidate.cells is not None or (fewest.cells is None and candidate.half_width < fewest.half_width):
                fewest = min(fewest, candidate, key=_size)
        return fewest
    if columns is None:
        columns = optimal_columns(outlook.components.total_index)
        if outlook.model is model:
            columns = outlook.components.columns
    return _fewest_rows(half_width, width, columns)


def _size(found: RunsNeeded) -> tuple[float, int, float]:
    """Return the key that sorts the smallest table first; if none is enough, the one with the narrowest interval."""
    return found.cells or math.inf, found.rows or 0, found.half_width


def column_choices() -> Sequence[int]:
    """Return the columns that a crossed plan may have: all up to 30, then steps of a tenth."""
    choices = list(range(3, 31))
    while choices[-1] * 1.1 < MOST_COLUMNS:
        choices.append(round(choices[-1] * 1.1))
    return choices


def _fewest_rows(wanted: float, width: Callable[[int, int], float], columns: int, most: int = MOST_ROWS) -> RunsNeeded:
    widest = width(most, columns)
    if not widest <= wanted:
        return RunsNeeded(None, None, None, widest)
    rows = 3 + bisect_left(range(3, most), True, key=lambda rows: width(rows, columns) <= wanted)
    return RunsNeeded(rows, columns, rows * columns, width(rows, columns))


FEWEST_RUNS: Final = 3
MOST_RUNS: Final = 1_000_000
PROJECTION_COLUMNS: Final = ("examples", "runs", "cost", "std", "half_width", "by_runs", "by_examples", "by_both")


@dataclass(frozen=True)
class ScoreVariances:
    """What a score is made of when runs and test examples are both drawn at random.

    Attributes
    ----------
    runs
        Variance between runs with infinite test sets, in squared units of the score; if there is a fixed list,
        between runs of one level.
    examples
        Variance between examples, each asked in infinitely many runs; divided by the examples it is the variance of a
        mean score.
    both
        Variance that is neither's alone: which run gets which example right.
    mean
        Score.
    pool
        Different examples that occur.
    per_run
        Mean number of examples of a run.
    shared
        Whether all runs are evaluated on the same examples.
    levels
        Length of the list of which runs use every element equally often; 1 if there is none.
    """

    runs: float
    examples: float
    both: float
    mean: float
    pool: int
    per_run: float
    shared: bool
    levels: int = 1

    def of_mean(self, runs: FloatArray, examples: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the three parts of the variance of a mean over runs, each evaluated on so many examples.

        Notes
        -----
        Where runs share their m examples, ``examples / m``. If each draws its own m of the N of the pool, n runs use
        an example ``n m / N`` times on average, and the part is ``examples ((1 - m / N) / (n m) + 1 / N)``.
        """
        if self.shared:
            of_examples = self.examples / examples
        else:
            of_examples = self.examples * ((1 - examples / self.pool) / (runs * examples) + 1 / self.pool)
        return self.runs / runs, of_examples, self.both / (runs * examples)


def score_variances(
    values: Sequence[FloatArray], example_ids: Sequence[npt.NDArray[Any]], level: Sequence[int], levels: int
) -> ScoreVariances | None:
    """Estimate what a score is made of from runs that are independent of each other.

    Parameters
    ----------
    values
        Of each run, one per example: whether it is right, or :func:`pseudo_values`.
    example_ids
        Of each run, which example a value belongs to; none twice.
    level, levels
        Of each run, its element of a fixed list, from 0, and how long that is: 1 if there is no list. Elements that all
        runs will use equally often do not make their mean vary: runs are compared within levels.

    Returns
    -------
    ScoreVariances or None
        None below three runs, or where no two runs share an example and the variance between examples cannot be
        estimated.

    Notes
    -----
    Mean products of pairs of values: of one run, of one example, of neither. Their differences are unbiased, whichever
    examples a run has, as long as those are not chosen by the values; for whole tables they are the analysis of
    variance. Estimates below zero are 0.
    """
    if len(values) < FEWEST_RUNS:
        return None
    flat = np.concatenate(values)
    mean = float(flat.mean())
    flat = flat - mean
    sizes = [len(each) for each in values]
    run = np.repeat(np.arange(len(values)), sizes)
    known, example = np.unique(np.concatenate(example_ids), return_inverse=True)
    (same_run, same_example, neither), (pairs_in_runs, pairs_in_examples, _) = _products(flat, run, example)
    if not pairs_in_runs > 0 or not pairs_in_examples > 0:
        return None
    of_level = np.repeat(np.asarray(level), sizes)
    groups = [_products(*(each[of_level == one] for each in (flat, run, example))) for one in np.unique(of_level)]
    weights = np.array([pairs[-1] for _, pairs in groups])
    if not weights.sum() > 0:
        return None
    within = [means[0] - means[-1] if pairs[-1] else 0.0 for means, pairs in groups]
    of_runs, of_examples = same_run - neither, same_example - neither
    return ScoreVariances(
        runs=max(0.0, float(np.average(within, weights=weights))),
        examples=max(0.0, of_examples),
        both=max(0.0, float(np.square(flat).mean()) - neither - of_runs - of_examples),
        mean=mean,
        pool=len(known),
        per_run=len(flat) / len(values),
        shared=bool((np.bincount(example) == len(values)).all()),
        levels=levels,
    )


def _products(
    values: FloatArray, run: npt.NDArray[np.int64], example: npt.NDArray[np.int64]
) -> tuple[list[float], list[float]]:
    """Return mean products of two values, of one run, of one example, of neither; and how many pairs there are."""
    count, squares = float(len(values)), float(np.square(values).sum())
    sums = [float(np.square(np.bincount(place, values)).sum()) - squares for place in (run, example)]
    pairs = [float(np.square(np.bincount(place), dtype=np.float64).sum()) - count for place in (run, example)]
    sums.append(float(values.sum()) ** 2 - squares - sum(sums))
    pairs.append(count**2 - count - sum(pairs))
    means = [total / number if number > 0 else math.nan for total, number in zip(sums, pairs, strict=True)]
    return means, pairs


def projection(variances: ScoreVariances, budget: float, *, per_run: float, per_example: float) -> pd.DataFrame:
    """Say for each number of test examples how many runs a budget allows, and how well they tell the mean score.

    Parameters
    ----------
    variances
        Of a pilot.
    budget
        In the unit of the costs.
    per_run, per_example
        Cost of a run, and of each example that it is evaluated on; not negative, one of them above 0. More than
        :data:`MOST_RUNS` runs are not had, whatever they cost.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`PROJECTION_COLUMNS`, one row for each number of examples from 2 to all of the pool for which the
        budget pays three runs, and of a list one more than it is long: ``cost``, standard error ``std`` of the mean
        score, ``half_width`` of its interval, and the shares of its variance by runs, by examples and by both. Empty
        where it pays for none.

    Notes
    -----
    The interval has Student's t with the degrees of freedom of Satterthwaite for parts that are estimated from n runs
    and m examples, as it will have in the study.
    """
    examples = np.arange(2, variances.pool + 1, dtype=np.float64)
    levels = variances.levels
    runs = np.minimum(np.floor(budget / (per_run + per_example * examples) * (1 + 1e-12)), MOST_RUNS)
    runs = np.floor(runs / levels) * levels
    enough = runs >= max(FEWEST_RUNS, levels + 1)
    examples, runs = examples[enough], runs[enough]
    by_runs, by_examples, by_both = variances.of_mean(runs, examples)
    total = by_runs + by_examples + by_both
    different = examples if variances.shared else variances.pool * (1 - (1 - examples / variances.pool) ** runs)
    with np.errstate(invalid="ignore"):
        degrees = total**2 / (
            by_runs**2 / (runs - levels)
            + by_examples**2 / np.maximum(different - 1, 1)
            + by_both**2 / ((runs - 1) * (examples - 1))
        )
        shares = [part / total for part in (by_runs, by_examples, by_both)]
    quantiles = [t_quantile(float(each), LEVEL) if math.isfinite(each) else 0.0 for each in degrees]
    std = np.sqrt(total)
    columns = (examples, runs, runs * (per_run + per_example * examples), std, std * np.array(quantiles), *shares)
    table = pd.DataFrame(dict(zip(PROJECTION_COLUMNS, columns, strict=True)))
    return table.astype({"examples": "int64", "runs": "int64"})


def best(table: pd.DataFrame) -> pd.Series:
    """Return the row of :func:`projection` with the narrowest interval; of equal ones that with the fewest examples."""
    return table.iloc[int(np.argmin(table["half_width"]))]
