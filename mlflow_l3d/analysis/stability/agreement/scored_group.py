"""Predictions of any kind of runs that are compared with each other, and what their pairs sum to."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.stability.agreement.base import Scoring, matrix_of_pairs, matrix_with_truth
from mlflow_l3d.analysis.stability.agreement.matching import ExactMatch
from mlflow_l3d.analysis.stability.agreement.structures import Closeness
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.analysis.stability.run_agreement import Places, RunAgreement
from mlflow_l3d.analysis.stability.vote_groups import mean
from mlflow_l3d.analysis.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Sums:
    """What the comparisons of a group come to.

    Attributes
    ----------
    comparisons
        Comparisons of two predictions: pairs of runs times the examples that both have.
    agreed, correct
        Sum of the scoring function over them, without and with the truth; `correct` is nan where an example that two
        runs have has no truth.
    reflexive
        Whether every prediction that is not None agrees fully with itself.
    per_run
        Agreement of each run with the others, and of the group without it.
    """

    comparisons: int
    agreed: float
    correct: float
    reflexive: bool
    per_run: RunAgreement


@dataclass(slots=True)
class ScoredGroup:
    """Runs of a group; the predictions of an example are numbered as they come, so that equal ones are held once."""

    forms: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    places: list[Places] = field(default_factory=list)
    codes: list[npt.NDArray[np.int32]] = field(default_factory=list)
    runs: int = 0
    predictions: int = 0
    unparsed: int = 0
    closed: bool = False
    found: Sums | None = None

    def add(self, places: Places, forms: Sequence[Hashable]) -> None:
        """Keep the prepared predictions of a run; `places`, which example each belongs to, is not copied."""
        if self.closed:
            msg = "this group is closed"
            raise ValueError(msg)
        codes = np.empty(len(forms), dtype=np.int32)
        for at, (place, form) in enumerate(zip(places.tolist(), forms, strict=True)):
            known = self.forms.setdefault(place, {})
            codes[at] = known.setdefault(form, len(known))
            self.unparsed += form is None
        self.places.append(places)
        self.codes.append(codes)
        self.runs += 1
        self.predictions += len(forms)
        self.found = None

    def sums(self, scoring: Scoring, truths: Mapping[int, Hashable]) -> Sums:
        """Return the sums so far, which are computed once between two additions."""
        if self.found is None:
            self.found = self._compute(scoring, truths)
        return self.found

    def close(self, scoring: Scoring, truths: Mapping[int, Hashable]) -> None:
        """Release the predictions; what follows from them is kept."""
        self.sums(scoring, truths)
        self.closed = True
        self.forms, self.places, self.codes = {}, [], []

    @property
    def pairs_of_runs(self) -> int:
        """Pairs of runs, with and without common examples."""
        return self.runs * (self.runs - 1) // 2

    def _compute(self, scoring: Scoring, truths: Mapping[int, Hashable]) -> Sums:
        """Compare the different predictions of each example once; they count as often as runs make them."""
        agreed, comparisons = np.zeros(self.runs), np.zeros(self.runs, dtype=np.int64)
        correct, reflexive = 0.0, True
        for place, runs, codes in self._by_example():
            forms = list(self.forms[place])
            counts = np.bincount(codes, minlength=len(forms))
            values = _pairs(scoring, forms)
            own = np.diagonal(values)
            agreed[runs] += (values @ counts - own)[codes]
            comparisons[runs] += len(runs) - 1
            reflexive &= all(one == 1 for one, form in zip(own.tolist(), forms, strict=True) if form is not None)
            correct += _correct(scoring, forms, counts, truths[place]) if place in truths else math.nan
        total = int(comparisons.sum())
        whole = float(agreed.sum())
        per_run = RunAgreement(_shares(agreed, comparisons), _shares(whole / 2 - agreed, total // 2 - comparisons))
        return Sums(total // 2, whole / 2, correct, reflexive, per_run)

    def _by_example(self) -> Iterator[tuple[int, npt.NDArray[np.intp], npt.NDArray[np.int32]]]:
        """Yield place, the runs that hold it, and the number of the prediction of each, where there are two or more."""
        if self.runs < 2:
            return
        places, codes = np.concatenate(self.places), np.concatenate(self.codes)
        runs = np.repeat(np.arange(self.runs), [len(each) for each in self.places])
        order = np.argsort(places, kind="stable")
        places, codes, runs = places[order], codes[order], runs[order]
        borders = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        for start, end in pairwise(borders):
            if end - start > 1:
                yield int(places[start]), runs[start:end], codes[start:end]


def combined(groups: Sequence[ScoredGroup], scoring: Scoring, truths: Mapping[int, Hashable], name: str) -> Consistency:
    """Return the mean over all groups whose runs share an example.

    Parameters
    ----------
    groups
        Groups; those without a comparison count in `unparsed_share` only.
    scoring
        The scoring function.
    truths
        Place of an example -> its prepared truth, where that is known.
    name
        What the groups are: a factor, or ``golden``.
    """
    found = [(group, group.sums(scoring, truths)) for group in groups]
    compared = [(group, sums) for group, sums in found if sums.comparisons]
    predictions = sum(group.predictions for group in groups)
    comparisons = sum(sums.comparisons for _, sums in compared)
    return Consistency(
        group=name,
        consistency=mean([min(1.0, sums.agreed / sums.comparisons) for _, sums in compared]),
        correct_consistency=mean([_at_most_one(sums.correct / sums.comparisons) for _, sums in compared]),
        runs=sum(group.runs for group, _ in compared),
        groups=len(compared),
        pairs_of_predictions=comparisons,
        unparsed_share=sum(group.unparsed for group in groups) / predictions if predictions else math.nan,
        common_examples=comparisons / sum(group.pairs_of_runs for group, _ in compared) if compared else math.nan,
    )


def _pairs(scoring: Scoring, forms: Sequence[Hashable]) -> FloatArray:
    """Return shape (k, k): how much different predictions agree; the commonest kinds without a call for each pair."""
    if type(scoring) is ExactMatch:
        return np.diag([float(form is not None) for form in forms])
    if type(scoring) is Closeness:
        # A missing number is nan, and with it all that it is compared with.
        numbers = np.array([math.nan if form is None else form for form in forms], dtype=np.float64)
        distances = np.abs(np.subtract.outer(numbers, numbers)) / scoring.scale
        close: FloatArray = np.nan_to_num(1 - np.minimum(1.0, distances), nan=0.0)
        return close
    return matrix_of_pairs(scoring, forms)


def _correct(scoring: Scoring, forms: Sequence[Hashable], counts: npt.NDArray[np.intp], truth: Hashable) -> float:
    """Return the sum over pairs of runs of their agreement given the truth, for one example."""
    if type(scoring) is ExactMatch:
        votes = sum(count for form, count in zip(forms, counts.tolist(), strict=True) if form == truth)
        return float(votes * (votes - 1) / 2)
    values = matrix_with_truth(scoring, forms, truth)
    return float(counts @ values @ counts - np.diagonal(values) @ counts) / 2


def _shares(hits: FloatArray, of: npt.NDArray[np.int64]) -> FloatArray:
    """Return hits / of in [0, 1], which rounding may leave otherwise; nan where there is nothing to divide by."""
    shares = np.full(len(of), math.nan)
    np.divide(hits, of, out=shares, where=of > 0)
    clipped: FloatArray = np.clip(shares, 0.0, 1.0)
    return clipped


def _at_most_one(value: float) -> float:
    return value if math.isnan(value) else min(1.0, value)
