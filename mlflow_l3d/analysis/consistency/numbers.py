"""Predicted numbers: correlations of every pair of runs on the examples that both saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.consistency.agreement.kinds import as_list, finite, is_missing
from mlflow_l3d.analysis.consistency.comparable import Group
from mlflow_l3d.analysis.consistency.groups import Comparison, RunGroup, mean_of_known
from mlflow_l3d.analysis.typing import FloatArray, known

BLOCK: Final = 256
"""Runs that are compared with all others at once."""


class Correlations(NamedTuple):
    """CON-PEAR (Zhou et al. 2025) and Lin's concordance of a group, nan where undefined."""

    pearson: float
    concordance: float


class NumberGroup(RunGroup[Correlations]):
    """Predictions of runs that are compared with each other."""

    def compute(self) -> Correlations:
        """Return both correlations."""
        if self.runs < 2:
            return Correlations(math.nan, math.nan)
        places, runs, numbers = self.stacked()
        seen, columns = np.unique(places, return_inverse=True)
        table = np.full((self.runs, len(seen)), math.nan)
        table[runs, columns] = numbers
        return pair_correlations(table)


class NumberComparison(Comparison[Correlations]):
    """Finite numbers; a missing one is no example of its run. A pair of runs is compared on two examples at least."""

    groups: dict[Group, NumberGroup]  # type: ignore[assignment]

    def add(self, groups: Sequence[Group], ids: npt.NDArray[Any], labels: Any, predictions: Any) -> None:  # noqa: ARG002
        """Keep the predictions of a run until its row is closed."""
        answers = as_list(predictions)
        read = np.array([not is_missing(answer) for answer in answers], dtype=np.bool_)
        numbers = np.array([finite(each) for each in answers if not is_missing(each)], dtype=np.float64)
        places = self.examples.find(ids[read])
        for group in groups:
            self.groups.setdefault(group, NumberGroup()).keep(places, numbers)

    def metrics(self, table: str) -> dict[str, float]:
        """Return ``consistency_pearson`` and ``consistency_ccc`` of a factor or ``golden``; nan ones are left out.

        The mean over groups that have one: a group in which a run predicts one number only has no Pearson correlation,
        one in which two runs both predict one number, the same one, no concordance.
        """
        agreements = [group.found for group in self.of(table)]
        pearson = mean_of_known([one.pearson for one in agreements])
        return known({"consistency_pearson": pearson, "consistency_ccc": mean_of_known([one[1] for one in agreements])})


def pair_correlations(predictions: FloatArray) -> Correlations:
    """Return the mean over pairs of runs of both correlations, each pair on the examples that both saw.

    Parameters
    ----------
    predictions
        Shape (S, n): numbers, nan if a run did not see an example.

    Returns
    -------
    Correlations
        Pearson's correlation and Lin's concordance correlation coefficient (Lin 1989, ddof=0). Pairs with fewer than
        two common examples are in no mean. A mean is nan if a pair in it has no value: for Pearson's where a run is
        constant on the common examples, for Lin's where both are, at the same number.

    Notes
    -----
    Sums over common examples are products of matrices that hold 0 if a run saw nothing. Time S^2 n, memory S n and
    256 S.
    """
    values = np.array(predictions, dtype=np.float64)
    held = ~np.isnan(values)
    # On one scale and each run around 0, so that products neither overflow nor cancel.
    largest = float(np.abs(values[held]).max(initial=0.0))
    values /= largest if largest > 0 else 1.0
    centres = np.array([_centre(run[here]) for run, here in zip(values, held, strict=True)])
    values = np.where(held, values - centres[:, None], 0.0)
    ones, squares = held.astype(np.float64), np.square(values)
    sums, pairs = np.zeros(2), 0
    for start in range(0, len(values), BLOCK):
        block = slice(start, start + BLOCK)
        common = ones[block] @ ones.T
        compared = (common > 1) & (np.arange(len(values)) > np.arange(len(values))[block, None])
        count = common[compared]
        one, other = (values[block] @ ones.T)[compared] / count, (ones[block] @ values.T)[compared] / count
        first = _variance((squares[block] @ ones.T)[compared] / count, one)
        second = _variance((ones[block] @ squares.T)[compared] / count, other)
        distance = one - other + (centres[block, None] - centres)[compared]
        shared = (values[block] @ values.T)[compared] / count - one * other
        sums += [
            _sum_of_ratios(shared, np.sqrt(first * second)),
            _sum_of_ratios(2 * shared, first + second + np.square(distance)),
        ]
        pairs += len(count)
    return Correlations(*(sums / pairs).tolist()) if pairs else Correlations(math.nan, math.nan)


def _centre(run: FloatArray) -> float:
    """Return the mean; of equal numbers exactly the number."""
    if not len(run):
        return 0.0
    return float(run[0]) if np.ptp(run) == 0 else float(run.mean())


def _variance(mean_square: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the variances; exactly 0 where rounding alone makes them differ from it."""
    variance = mean_square - np.square(mean)
    return np.where(variance > 1e-13 * mean_square, variance, 0.0)


def _sum_of_ratios(above: FloatArray, below: FloatArray) -> float:
    """Return the sum, nan if something is divided by 0."""
    if not (below > 0).all():
        return math.nan
    return float(np.clip(above / below, -1.0, 1.0).sum())
