"""Runs that are compared with each other, one at a time: what is the same for predictions of every kind."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.consistency.examples import ExampleVotes
from mlflow_l3d.analysis.consistency.results import Consistency, root
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import ParameterError

Places = npt.NDArray[np.int32]
Found = TypeVar("Found")


class Group(NamedTuple):
    """A group of runs that are compared with each other.

    Attributes
    ----------
    table
        The factor whose record it belongs to, or ``golden``.
    member
        Which group of that record: a row (0 if there is only one), or a set of independent runs.
    """

    table: str
    member: int | str


class Examples:
    """Ids of examples seen so far, each with a place (0, 1, 2, ...) that all runs share."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}
        self._last_ids: npt.NDArray[Any] | None = None
        self._last_places = np.empty(0, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def ids(self) -> list[Hashable]:
        """Every id, by its place."""
        return list(self._places)

    def find(self, ids: npt.NDArray[Any]) -> Places:
        """Return the place of every example of a run, new ones included; the same array for the same ids in a row.

        Raises
        ------
        ParameterError
            If an id occurs twice.
        """
        if self._last_ids is None or not np.array_equal(ids, self._last_ids):
            known, values = self._places, ids.tolist()
            if len(set(values)) < len(values):
                twice = next(value for at, value in enumerate(values) if value in values[:at])
                fix = "Give every example an id that is its own in all runs."
                raise ParameterError("example_id", twice, "must occur once in the predictions of a run", fix)
            self._last_places = np.fromiter((known.setdefault(each, len(known)) for each in values), np.int32)
            self._last_ids = ids.copy()
        return self._last_places


@dataclass(frozen=True, slots=True)
class Sums:
    """What the comparisons of a group come to.

    Attributes
    ----------
    comparisons
        Comparisons of two predictions: pairs of runs times the examples that both have.
    agreed, correct
        Sum of the agreement over them, without and with the truth; `correct` is nan if an example that two runs have
        has no truth.
    run_agreement
        Shape (S,): share of equal predictions among all comparisons of a run with the other runs on common examples
        (Zhou et al. 2025, a seed's mean agreement with all others); nan if it has nothing in common with any.
    without_run
        Shape (S,): CON of the group without the run; nan if no two of the others can be compared.
    reflexive
        Whether every prediction that could be read agrees fully with itself.
    kappa
        Fleiss' kappa; nan if it is not defined.
    variance, population
        Variance (ddof=1) of the accuracies of the runs, and the part of it that an infinite test set would leave.
    """

    comparisons: int
    agreed: float
    correct: float
    run_agreement: FloatArray
    without_run: FloatArray
    reflexive: bool = True
    kappa: float = math.nan
    variance: float = math.nan
    population: float = math.nan

    @classmethod
    def of(cls, agreed: npt.NDArray[Any], comparisons: npt.NDArray[np.int64], correct: float) -> Sums:
        """Return the sums from those of each run's comparisons with all others, both of shape (S,)."""
        total, every = agreed.sum() / 2, int(comparisons.sum()) // 2
        without = _shares(total - agreed, every - comparisons)
        return cls(every, float(total), correct, _shares(agreed, comparisons), without)

    @property
    def consistency(self) -> float:
        """CON; nan if no two runs can be compared."""
        return min(1.0, self.agreed / self.comparisons) if self.comparisons else math.nan

    def without(self, run: int | None) -> float:
        """Return CON without a run of the group; None: it has no such run."""
        return self.consistency if run is None else float(self.without_run[run])


class RunGroup(ABC, Generic[Found]):
    """Runs that are compared with each other. What they come to is computed once between two additions."""

    def __init__(self) -> None:
        self.runs = self.predictions = self.unparsed = 0
        self.closed = False
        self._found: Found | None = None
        self.release()

    @property
    def found(self) -> Found:
        """What the runs so far come to."""
        if self._found is None:
            self._found = self.compute()
        return self._found

    def close(self) -> None:
        """Release the predictions; what follows from them is kept."""
        self._found, self.closed = self.found, True
        self.release()

    def keep(self, places: Places, values: npt.NDArray[Any], unparsed: int = 0) -> None:
        """Keep the predictions of a run; neither `places`, which example each is of, nor `values` are copied.

        Raises
        ------
        ValueError
            If the group is closed.
        """
        if self.closed:
            raise ValueError("this group is closed")
        self.runs += 1
        self.predictions += len(values)
        self.unparsed += unparsed
        self._found = None
        self.held.append((places, values))

    def stacked(self) -> tuple[Places, npt.NDArray[np.intp], npt.NDArray[Any]]:
        """Return the place of every prediction, which run it is of, and the prediction; two runs at least."""
        places, values = zip(*self.held, strict=True)
        runs = np.repeat(np.arange(self.runs), [len(here) for here in places])
        return np.concatenate(places), runs, np.concatenate(values)

    @abstractmethod
    def compute(self) -> Found:
        """Compute what the runs come to."""

    def release(self) -> None:
        """Let go of the predictions."""
        self.held: list[tuple[Places, npt.NDArray[Any]]] = []


class Comparison(ABC, Generic[Found]):
    """How predictions of one kind are read and compared, and the groups of runs so far."""

    def __init__(self) -> None:
        self.groups: dict[Group, RunGroup[Found]] = {}
        self.examples = Examples()

    @property
    def classes(self) -> int | None:
        """Number of classes; None if there are none."""
        return None

    @abstractmethod
    def add(self, groups: Sequence[Group], ids: npt.NDArray[Any], labels: Any, predictions: Any) -> None:
        """Read the predictions of a run and add it to its groups.

        Raises
        ------
        ParameterError
            If an id occurs twice, or a label or prediction is of the wrong kind.
        ValueError
            If a group is closed.
        """

    def of(self, table: str) -> list[RunGroup[Found]]:
        """Return the groups of a factor, or of ``golden``."""
        return [one for group, one in self.groups.items() if group.table == table]

    def example_votes(self, group: Group) -> ExampleVotes | None:  # noqa: ARG002
        """Return the examples of a group, ranked; None where votes mean nothing, or no two runs saw one."""
        return None


def consistency_of(groups: Sequence[RunGroup[Sums]], name: str) -> Consistency:
    """Return the mean over all groups whose runs share an example.

    Parameters
    ----------
    groups
        Groups; those without a comparison count in `unparsed_share` only.
    name
        What they are: a factor, or ``golden``.
    """
    compared = [group for group in groups if group.found.comparisons]
    sums = [group.found for group in compared]
    predictions = sum(group.predictions for group in groups)
    comparisons = sum(one.comparisons for one in sums)
    pairs_of_runs = sum(group.runs * (group.runs - 1) // 2 for group in groups)
    correct = [one.correct / one.comparisons for one in sums]
    return Consistency(
        group=name,
        consistency=mean([one.consistency for one in sums]),
        correct_consistency=mean([value if math.isnan(value) else min(1.0, value) for value in correct]),
        runs=sum(group.runs for group in groups if group.runs > 1),
        groups=len(compared),
        pairs_of_predictions=comparisons,
        unparsed_share=sum(group.unparsed for group in groups) / predictions if predictions else math.nan,
        common_examples=comparisons / pairs_of_runs if compared else math.nan,
        fleiss_kappa=mean_of_known([one.kappa for one in sums]),
        accuracy_std=root(mean([one.variance for one in sums])),
        accuracy_std_population=root(mean([one.population for one in sums])),
    )


def mean(values: Sequence[float]) -> float:
    """Return the mean, whatever the order of the values; nan if there are none, or one is nan."""
    return math.fsum(values) / len(values) if values else math.nan


def mean_of_known(values: Sequence[float]) -> float:
    """Return the mean of the values that are not nan; nan if there are none."""
    return mean([value for value in values if not math.isnan(value)])


def fleiss_kappa(consistency: float, totals: npt.NDArray[np.int64], predictions: int) -> float:
    """Return agreement beyond chance (Fleiss 1971), whose observed agreement is CON.

    Parameters
    ----------
    consistency
        CON of the runs; nan if no two can be compared.
    totals
        Shape (classes,): predictions of each class, over all runs and examples.
    predictions
        How many there are, those that name no class included. These agree with nothing, so they add to neither
        agreement, which the function of statsmodels cannot say.

    Returns
    -------
    float
        1 at most; nan, not 0, where all predictions are one class: then chance alone explains the agreement.
    """
    if math.isnan(consistency) or int(totals.max(initial=0)) == predictions:
        return math.nan
    shares: FloatArray = totals / predictions
    return beyond_chance(consistency, float(shares @ shares))


def beyond_chance(consistency: float, expected: float) -> float:
    """Return agreement beyond that expected by chance: 1 at most; nan if chance alone explains the agreement."""
    return (consistency - expected) / (1 - expected) if expected < 1 else math.nan


def _shares(agreed: npt.NDArray[Any], comparisons: npt.NDArray[np.int64]) -> FloatArray:
    """Return agreed / comparisons in [0, 1], which rounding may leave otherwise; nan if there are none."""
    shares = np.full(len(comparisons), math.nan)
    np.divide(agreed, comparisons, out=shares, where=comparisons > 0)
    clipped: FloatArray = np.clip(shares, 0.0, 1.0)
    return clipped
