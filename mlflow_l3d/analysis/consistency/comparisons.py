"""Predictions that are compared: class numbers by votes, without any pair of runs; numbers by their correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.consistency.choice import as_list, class_column
from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES, ExampleVotes, ranked_votes
from mlflow_l3d.analysis.consistency.groups import (
    Comparison,
    Group,
    Places,
    RunGroup,
    Sums,
    fleiss_kappa,
    mean_of_known,
)
from mlflow_l3d.analysis.consistency.results import population_variance
from mlflow_l3d.analysis.consistency.scoring import finite, is_missing
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, known
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import UNPARSED


class VoteGroup(RunGroup[Sums]):
    """Votes of runs that are compared with each other, and what their pairs sum to.

    `votes` has one row for each example and column 0 for all votes, column 1 + c for those for class c; `right` counts
    those for the true class. So no pair of runs is ever looked at. The predictions are held as small as they can be.

    Notes
    -----
    Zhou et al. 2025, equations 2 and 3: the mean over pairs of runs of the share of equal (equal and right)
    predictions. With ``n_xc`` votes for class c among the ``n_x`` runs that hold example x, and c* its true class::

        CON = sum_x sum_c n_xc (n_xc - 1) / sum_x n_x (n_x - 1)
        CCON = sum_x n_xc* (n_xc* - 1) / sum_x n_x (n_x - 1)

    This is the papers' mean over pairs where all runs share one test set; where test sets differ, a pair counts by the
    number of examples it shares. A prediction of -1 agrees with nothing, also not with another -1.
    """

    def release(self) -> None:
        """Let go of votes and predictions."""
        super().release()
        self.votes = self._right = np.zeros((0, 1), dtype=np.int32)
        self._hits: list[int] = []

    def add(self, places: Places, labels: IntArray, predictions: IntArray, examples: int) -> None:
        """Count a run; `places`, which example each prediction is of, is not copied; `examples` are in all runs."""
        parsed = predictions != UNPARSED
        where, chosen = places[parsed], predictions[parsed]
        if self.held and np.array_equal(places, self.held[-1][0]):
            places = self.held[-1][0]
        smallest = np.min_scalar_type(-1 - int(predictions.max(initial=0)))
        self.keep(places, predictions.astype(smallest), len(predictions) - len(chosen))
        columns = 2 + int(max(labels.max(), predictions.max(), 0)) if len(labels) else 1
        self.votes = _grown(self.votes, examples, columns)
        self._right = _grown(self._right, examples, 1)
        self.votes[places, 0] += 1
        self.votes[where, chosen + 1] += 1
        right = where[chosen == labels[parsed]]
        self._right[right] += 1
        self._hits.append(len(right))

    def compute(self) -> Sums:
        """Return the sums, kappa, and the variances of the accuracy."""
        agreed = np.zeros(self.runs, dtype=np.int64)
        comparisons = np.zeros(self.runs, dtype=np.int64)
        for at, (places, predictions) in enumerate(self.held):
            # Run j makes sum_x (n_x - 1) comparisons on its examples, of which sum_x (n_xc - 1) agree.
            parsed = predictions != UNPARSED
            chosen = predictions[parsed].astype(np.intp)
            agreed[at] = int(self.votes[places[parsed], chosen + 1].sum()) - len(chosen)
            comparisons[at] = int(self.votes[places, 0].sum()) - len(places)
        right = self._right.astype(np.int64)
        correct = int((right * (right - 1)).sum()) // 2
        sums = Sums.of(agreed, comparisons, correct)
        kappa = fleiss_kappa(sums.consistency, self.votes[:, 1:].sum(axis=0, dtype=np.int64), self.predictions)
        variance, population = self._variances(sums)
        return replace(sums, kappa=kappa, variance=variance, population=population)

    def first_seen(self) -> Places:
        """Return every place that a run holds, once, in the order in which the runs hold them."""
        places = [here for here, _ in self.held]
        different = [here for at, here in enumerate(places) if not at or here is not places[at - 1]]
        return np.asarray(pd.unique(np.concatenate(different)), dtype=np.int32)

    def _variances(self, sums: Sums) -> tuple[float, float]:
        """Return the variances of the accuracy; nan if runs hold different examples."""
        sizes = {len(places) for places, _ in self.held}
        pairs = self.runs * (self.runs - 1) // 2
        # Runs of one size share one test set exactly if each pair of them has all its examples in common.
        if not sums.comparisons or len(sizes) > 1 or sums.comparisons != min(sizes) * pairs:
            return math.nan, math.nan
        # Sorted, so that the order of the runs does not show in the last digit.
        accuracies = np.sort(self._hits) / min(sizes)
        ccon = sums.correct / sums.comparisons
        return float(accuracies.var(ddof=1)), population_variance(accuracies, ccon, min(sizes))


class ClassComparison(Comparison[Sums]):
    """Class numbers, of which two agree where they are equal; a prediction may be -1, which agrees with nothing.

    Memory grows with examples x classes, and with the predictions, of the groups that are open, not with pairs of runs,
    and the result does not depend on the order of the runs.
    """

    groups: dict[Group, VoteGroup]  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self._labels = np.empty(0, dtype=np.int64)

    @property
    def classes(self) -> int | None:
        """The highest label seen, plus 1; None if there is none."""
        return int(self._labels.max()) + 1 if len(self._labels) else None

    def add(self, groups: Sequence[Group], ids: npt.NDArray[Any], labels: Any, predictions: Any) -> None:
        """Count the votes of a run; labels and predictions are class numbers, in any form of column."""
        truth = class_column(labels, "label")
        guess = class_column(predictions, "prediction")
        places = self.examples.find(ids)
        self._learn(places, truth, ids)
        for group in groups:
            self.groups.setdefault(group, VoteGroup()).add(places, truth, guess, len(self.examples))

    def example_votes(self, group: Group) -> ExampleVotes | None:
        """Rank the examples of an open group that at least two runs saw; None if there are none."""
        one = self.groups.get(group)
        if one is None or not one.found.comparisons:
            return None
        order = one.first_seen()
        counts = one.votes[order].astype(np.int64)
        counts[:, 0] -= counts[:, 1:].sum(axis=1)
        known = self.examples.ids
        ids = [known[at] for at in order]
        array = np.array(ids, dtype=np.int64 if all(isinstance(each, int) for each in ids) else object)
        return ranked_votes(array, self._labels[order], counts, 2)

    def _learn(self, places: Places, labels: IntArray, ids: npt.NDArray[Any]) -> None:
        """Keep the true class of each example, which must be the same in all runs."""
        new = np.full(len(self.examples) - len(self._labels), UNPARSED)
        self._labels = np.concatenate((self._labels, new)) if len(new) else self._labels
        unset = self._labels[places] == UNPARSED
        self._labels[places[unset]] = labels[unset]
        different = np.flatnonzero(self._labels[places] != labels)
        if len(different):
            at = different[0]
            two_labels = f"{self._labels[places[at]]} in one run and {labels[at]} in another"
            fix = "Give every example an id that is its own in all runs."
            raise ParameterError("label", two_labels, f"example_id {ids[at]!s} must have one true class", fix)


def _grown(votes: npt.NDArray[np.int32], rows: int, columns: int) -> npt.NDArray[np.int32]:
    """Return `votes` with room for at least `rows` and `columns`; rows at least double, so that growing is rare."""
    more_rows = max(0, rows - len(votes))
    more_columns = max(0, columns - votes.shape[1])
    if not (more_rows or more_columns):
        return votes
    return np.pad(votes, ((0, max(more_rows, len(votes)) if more_rows else 0), (0, more_columns)))


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
    """Finite numbers; a missing one is not an example of its run. A pair of runs shares ten examples, or half."""

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
        Pearson's correlation and Lin's concordance correlation coefficient (Lin 1989, ddof=0). Pairs that share
        one example, or fewer than ten and than half, are in no mean. A mean is nan if a pair in it has no value: for
        Pearson's where a run is constant on the common examples, for Lin's where both are, at the same number.

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
    enough = np.clip(ones.sum(axis=1) / 2, 2, FEWEST_EXAMPLES)
    sums, pairs = np.zeros(2), 0
    for start in range(0, len(values), BLOCK):
        block = slice(start, start + BLOCK)
        common = ones[block] @ ones.T
        compared = np.triu(common >= np.maximum(enough[block, None], enough), 1 + start)
        count = common[compared]
        one = (values[block] @ ones.T)[compared] / count
        other = (ones[block] @ values.T)[compared] / count
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
    return float(np.clip(above / below, -1.0, 1.0).sum()) if (below > 0).all() else math.nan
