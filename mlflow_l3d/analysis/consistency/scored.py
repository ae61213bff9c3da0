"""Predictions of any kind, compared by a scoring function."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.consistency.choice import as_list, check_same_kind
from mlflow_l3d.analysis.consistency.comparisons import NumberComparison
from mlflow_l3d.analysis.consistency.groups import Comparison, Group, Places, RunGroup, Sums, beyond_chance
from mlflow_l3d.analysis.consistency.runs import PairSpread, pair_spread
from mlflow_l3d.analysis.consistency.scoring import Scoring, hashable, is_missing
from mlflow_l3d.analysis.consistency.structures import Closeness
from mlflow_l3d.analysis.consistency.texts import ExactMatch
from mlflow_l3d.analysis.intervals import IntArray
from mlflow_l3d.errors import ParameterError


class ScoredGroup(RunGroup[Sums]):
    """Runs of a group; the predictions of an example are numbered as they come, so that equal ones are held once.

    Parameters
    ----------
    scoring
        The scoring function.
    truths
        Place of an example -> its prepared truth, if that is known.
    """

    def __init__(self, scoring: Scoring, truths: Mapping[int, Hashable]) -> None:
        super().__init__()
        self._scoring, self._truths = scoring, truths

    def release(self) -> None:
        """Let go of the predictions."""
        super().release()
        self._forms: dict[int, dict[Hashable, int]] = {}

    def add(self, places: Places, forms: Sequence[Hashable]) -> None:
        """Keep the prepared predictions of a run; `places`, which example each belongs to, is not copied."""
        codes = np.empty(len(forms), dtype=np.int32)
        for at, (place, form) in enumerate(zip(places.tolist(), forms, strict=True)):
            seen = self._forms.setdefault(place, {})
            codes[at] = seen.setdefault(form, len(seen))
        self.keep(places, codes, sum(form is None for form in forms))

    def compute(self) -> Sums:
        """Compare the different predictions of each example once; they count as often as runs make them."""
        agreed = np.zeros(self.runs)
        comparisons = np.zeros(self.runs, dtype=np.int64)
        correct, chance, reflexive = 0.0, 0.0, True
        for place, runs, codes in self._by_example():
            forms = list(self._forms[place])
            counts = np.bincount(codes, minlength=len(forms))
            values = self._scoring.pairs(forms)
            own = np.diagonal(values)
            agreed[runs] += (values @ counts - own)[codes]
            comparisons[runs] += len(runs) - 1
            chance += self._scoring.expected(forms) * len(runs) * (len(runs) - 1) / 2
            reflexive &= all(one == 1 for one, form in zip(own.tolist(), forms, strict=True) if form is not None)
            truth = self._truths.get(place, self)
            correct += math.nan if truth is self else self._scoring.sum_with_truth(forms, counts, truth)
        sums = Sums.of(agreed, comparisons, correct)
        kappa = beyond_chance(sums.consistency, chance / max(1, sums.comparisons))
        return replace(sums, kappa=kappa, reflexive=reflexive)

    def _by_example(self) -> Iterator[tuple[int, npt.NDArray[np.intp], npt.NDArray[np.int32]]]:
        """Yield place, the runs that hold it, and the number of the prediction of each, if there are two or more."""
        if self.runs < 2:
            return
        places, runs, codes = self.stacked()
        order = np.argsort(places, kind="stable")
        places, codes, runs = places[order], codes[order], runs[order]
        borders = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        for start, end in pairwise(borders):
            if end - start > 1:
                yield int(places[start]), runs[start:end], codes[start:end]


class ScoredComparison(Comparison[Sums]):
    """Texts, numbers, lists (of tags, tokens, ids, arcs), mappings, or JSON texts of lists and mappings.

    A prediction that is None or nan is an answer that could not be read: it agrees with nothing. A label that is one is
    not known, and where one is not known there is no CCON.

    Parameters
    ----------
    scoring
        How much two predictions agree (Zhou et al. 2025, Table 2), see
        :func:`mlflow_l3d.analysis.consistency.choice.scoring_of`.

    Notes
    -----
    Different predictions of an example are compared once, however many runs make them: with d of them, d (d + 1) / 2
    calls of the scoring function. Where test sets differ, a pair of runs counts by the examples it shares, as for class
    numbers.
    """

    groups: dict[Group, ScoredGroup]  # type: ignore[assignment]

    def __init__(self, scoring: Scoring) -> None:
        super().__init__()
        self._scoring = scoring
        self._kinds: dict[str, str] = {}
        self._raw_truths: dict[int, Hashable] = {}
        self._truths: dict[int, Hashable] = {}

    def add(self, groups: Sequence[Group], ids: npt.NDArray[Any], labels: Any, predictions: Any) -> None:
        """Prepare the predictions of a run, and keep them until its row is closed; labels may be None altogether."""
        answers = as_list(predictions)
        truths = [None] * len(answers) if labels is None else as_list(labels)
        if isinstance(self._scoring, ExactMatch):  # others refuse what they cannot compare
            check_same_kind(self._kinds, "label", truths)
            check_same_kind(self._kinds, "prediction", answers)
        places = self.examples.find(ids)
        for place, example, truth in zip(places.tolist(), ids.tolist(), truths, strict=True):
            if not is_missing(truth):
                self._learn(place, example, truth)
        named = zip(ids.tolist(), answers, strict=True)
        forms = [self._scoring.form(answer, example) for example, answer in named]
        for group in groups:
            self.groups.setdefault(group, ScoredGroup(self._scoring, self._truths)).add(places, forms)

    def _learn(self, place: int, example: Any, truth: Any) -> None:
        """Keep the truth of an example, which must be the same in all runs."""
        raw = truth if isinstance(truth, (str, int, float)) else hashable(truth)
        if place not in self._raw_truths:
            self._truths[place] = self._scoring.true_form(truth, example)
            self._raw_truths[place] = raw
        elif self._raw_truths[place] != raw:
            fix = "Give every example an id that is its own in all runs."
            raise ParameterError("label", f"two different ones of example {example}", "there must be one truth", fix)


def comparisons_by(scoring: Scoring | None) -> tuple[Comparison[Any], ...]:
    """Return what compares predictions by a scoring function, and numbers by correlations; None is these alone."""
    numbers = (NumberComparison(),) if scoring is None or isinstance(scoring, Closeness) else ()
    return numbers if scoring is None else (ScoredComparison(scoring), *numbers)


def scored_agreement(
    scoring: Scoring, predictions: npt.NDArray[Any], labels: npt.NDArray[Any]
) -> tuple[dict[str, PairSpread], float]:
    """Return CON and CCON of seeds with one test set, and for rankings the agreement beyond chance, else nan.

    CON and CCON are over examples the mean of what two predictions score.

    Parameters
    ----------
    scoring
        The scoring function.
    predictions, labels
        Shapes (S, n), n at least 1, and (n,): as they are held.
    """
    sums, chance = np.zeros((2, len(predictions), len(predictions))), 0.0
    for place, (answers, label) in enumerate(zip(predictions.T, labels, strict=True)):
        forms, which = different_forms(scoring, answers, place)
        truth = scoring.true_form(label, place)
        chance += scoring.expected(forms) / len(labels)
        for at, values in enumerate((scoring.pairs(forms), scoring.pairs_with_truth(forms, truth))):
            sums[at] += values[np.ix_(which, which)]
    names = ("consistency", "correct_consistency")
    pairs = {name: pair_spread(name, total / len(labels)) for name, total in zip(names, sums, strict=True)}
    return pairs, beyond_chance(pairs["consistency"].mean, chance)


def different_forms(scoring: Scoring, answers: Iterable[Any], example: Any) -> tuple[list[Hashable], IntArray]:
    """Return the different prepared predictions of an example, and which of them each of the answers is."""
    seen: dict[Hashable, int] = {}
    which = [seen.setdefault(scoring.form(answer, example), len(seen)) for answer in answers]
    return list(seen), np.array(which)
