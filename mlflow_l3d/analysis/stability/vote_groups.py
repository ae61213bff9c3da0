"""Votes of runs that are compared with each other, and the examples that they vote on."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.importance.noise import population_variance
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.analysis.stability.run_agreement import Places, RunAgreement, Runs, run_agreement
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import UNPARSED

IntArray = npt.NDArray[np.int64]


class Examples:
    """Ids of examples seen so far, each with a place (0, 1, 2, ...) and, where asked for, its true class."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}
        self._labels = np.empty(0, dtype=np.int64)
        self._last_ids: npt.NDArray[Any] | None = None
        self._last_places = np.empty(0, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def ids(self) -> list[Hashable]:
        """Every id, by its place."""
        return list(self._places)

    @property
    def labels(self) -> IntArray:
        """Shape (examples,): the true classes."""
        return self._labels

    def find(self, ids: npt.NDArray[Any]) -> Places:
        """Return the place of every example of a run, new ones included; the same array for the same ids in a row.

        Raises
        ------
        ParameterError
            If an id occurs twice.
        """
        if self._last_ids is None or not np.array_equal(ids, self._last_ids):
            self._last_places = self._look_up(ids)
            self._last_ids = ids.copy()
        return self._last_places

    def places(self, ids: npt.NDArray[Any], labels: IntArray) -> Places:
        """Return the place of every example of a run, whose true classes are `labels`.

        Raises
        ------
        ParameterError
            If an id occurs twice, or had another label before.
        """
        places = self.find(ids)
        if len(self._labels) < len(self._places):
            known = len(self._labels)
            self._labels = np.concatenate((self._labels, np.full(len(self._places) - known, UNPARSED)))
        unset = self._labels[places] == UNPARSED
        if unset.any():
            self._labels[places[unset]] = labels[unset]
        different = np.flatnonzero(self._labels[places] != labels)
        if len(different):
            at = different[0]
            found = f"{self._labels[places[at]]} in one run and {labels[at]} in another"
            fix = "Give every example an id that is its own in all runs."
            raise ParameterError("label", found, f"example_id {ids[at]!s} must have one true class", fix)
        return places

    def _look_up(self, ids: npt.NDArray[Any]) -> Places:
        known = self._places
        values = ids.tolist()
        if len(set(values)) < len(values):
            seen: set[Hashable] = set()
            twice = next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
            fix = "Give every example an id that is its own in all runs."
            raise ParameterError("example_id", twice, "must occur once in the predictions of a run", fix)
        return np.fromiter((known.setdefault(value, len(known)) for value in values), np.int32, len(values))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a group's record needs beside its sums; nan where it is not defined.

    Attributes
    ----------
    kappa
        Fleiss' kappa.
    variance, population
        Variance (ddof=1) of the accuracies of its runs, and the part of it that a test set without end would leave.
    """

    kappa: float
    variance: float
    population: float


@dataclass(slots=True)
class VoteGroup:
    """Votes of runs that are compared with each other, and what their pairs sum to.

    `votes` has one row for each example and column 0 for all votes, column 1 + c for those for class c. The sums grow
    by what each run shares with those before it, so no pair of runs is ever looked at.
    """

    votes: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int32))
    held: Runs = field(default_factory=Runs)
    totals: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sizes: set[int] = field(default_factory=set)
    hits: list[int] = field(default_factory=list)
    runs: int = 0
    pairs: int = 0
    equal: int = 0
    correct: int = 0
    predictions: int = 0
    unparsed: int = 0
    closed: bool = False
    known_figures: Figures | None = None
    known_agreement: RunAgreement | None = None

    def add(self, places: Places, labels: IntArray, predictions: IntArray, examples: int) -> None:
        """Count a run; `examples` is how many there are in all groups."""
        if self.closed:
            msg = "this group is closed"
            raise ValueError(msg)
        columns = 2 + int(max(labels.max(), predictions.max(), 0)) if len(labels) else 1
        votes = self.votes = _grown(self.votes, examples, columns)
        parsed = predictions != UNPARSED
        where, chosen = places[parsed], predictions[parsed]
        right = chosen == labels[parsed]
        earlier = votes[where, chosen + 1]
        self.pairs += int(votes[places, 0].sum())
        self.equal += int(earlier.sum())
        self.correct += int(earlier[right].sum())
        votes[places, 0] += 1
        votes[where, chosen + 1] += 1
        totals = np.bincount(chosen, minlength=len(self.totals))
        totals[: len(self.totals)] += self.totals
        self.totals = totals
        self.held.add(places, predictions)
        self.sizes.add(len(predictions))
        self.hits.append(int(right.sum()))
        self.runs += 1
        self.predictions += len(predictions)
        self.unparsed += len(predictions) - len(chosen)
        self.known_figures = self.known_agreement = None

    def close(self) -> None:
        """Release votes and runs; what follows from them is kept."""
        if self.closed:
            return
        self.known_figures, self.known_agreement = self.figures(), self.per_run()
        self.closed = True
        self.votes, self.held, self.totals, self.hits = np.zeros((0, 1), np.int32), Runs(), np.zeros(0, np.int64), []

    def per_run(self) -> RunAgreement:
        """Return the agreement of each run with the others."""
        if self.known_agreement is None:
            self.known_agreement = run_agreement(self.held, self.votes, self.equal, self.pairs)
        return self.known_agreement

    def figures(self) -> Figures:
        """Return kappa and the variances."""
        if self.known_figures is None:
            self.known_figures = Figures(self._kappa(), *self._variances())
        return self.known_figures

    @property
    def pairs_of_runs(self) -> int:
        """Pairs of runs, with and without common examples."""
        return self.runs * (self.runs - 1) // 2

    def _kappa(self) -> float:
        """Return (CON - P_e) / (1 - P_e); see :func:`mlflow_l3d.analysis.stability.votes.fleiss_kappa`."""
        if not self.pairs or int(self.totals.max(initial=0)) == self.predictions:
            return math.nan
        shares = self.totals / self.predictions
        expected = float(shares @ shares)
        return (self.equal / self.pairs - expected) / (1 - expected)

    def _variances(self) -> tuple[float, float]:
        """Return the variances of the accuracy; nan where runs hold different examples."""
        size = min(self.sizes, default=0)
        # Runs of one size share one test set exactly if each pair of them has all its examples in common.
        if not self.pairs or len(self.sizes) > 1 or self.pairs != size * self.pairs_of_runs:
            return math.nan, math.nan
        # Sorted, so that the order of the runs does not show in the last digit.
        accuracies = np.sort(self.hits) / size
        population = population_variance(accuracies, self.correct / self.pairs, size) if size > 1 else math.nan
        return float(accuracies.var(ddof=1)), population


def combined(groups: Sequence[VoteGroup], name: str) -> Consistency:
    """Return the mean over all groups whose runs share an example.

    Parameters
    ----------
    groups
        Groups; those without a pair count in `unparsed_share` only.
    name
        What they are.
    """
    compared = [group for group in groups if group.pairs]
    figures = [group.figures() for group in compared]
    predictions = sum(group.predictions for group in groups)
    pairs = sum(group.pairs for group in compared)
    return Consistency(
        group=name,
        consistency=mean([group.equal / group.pairs for group in compared]),
        correct_consistency=mean([group.correct / group.pairs for group in compared]),
        runs=sum(group.runs for group in compared),
        groups=len(compared),
        pairs_of_predictions=pairs,
        unparsed_share=sum(group.unparsed for group in groups) / predictions if predictions else math.nan,
        common_examples=pairs / sum(group.pairs_of_runs for group in compared) if compared else math.nan,
        fleiss_kappa=mean([one.kappa for one in figures if not math.isnan(one.kappa)]),
        accuracy_std=_root(mean([one.variance for one in figures])),
        accuracy_std_population=_root(mean([one.population for one in figures])),
    )


def mean(values: Sequence[float]) -> float:
    """Return the mean, whatever the order of the values; nan where there are none, or one is nan."""
    return math.fsum(values) / len(values) if values else math.nan


def _root(variance: float) -> float:
    return math.nan if math.isnan(variance) else math.sqrt(max(0.0, variance))


def _grown(votes: npt.NDArray[np.int32], rows: int, columns: int) -> npt.NDArray[np.int32]:
    """Return `votes` with room for at least `rows` and `columns`; rows at least double, so that growing is rare."""
    have_rows, have_columns = votes.shape
    if rows <= have_rows and columns <= have_columns:
        return votes
    new_rows = have_rows if rows <= have_rows else max(rows, 2 * have_rows)
    larger = np.zeros((new_rows, max(columns, have_columns)), dtype=np.int32)
    larger[:have_rows, :have_columns] = votes
    return larger
