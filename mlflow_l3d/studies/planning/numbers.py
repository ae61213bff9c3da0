"""What a budget buys: the runs, and the test examples of each, that say most about the mean score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_quantile

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
    values: Sequence[FloatArray],
    example_ids: Sequence[npt.NDArray[Any]],
    level: Sequence[int],
    levels: int,
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
        Cost of a run, and of each example that it is evaluated on; not negative, one of them above 0.
    most_runs
        More are not had, whatever they cost.

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
