"""Scoring functions for structured prediction, regression and retrieval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from mlflow_l3d.analysis.consistency.scoring import Similarity, f1_of_sets, finite, hashable, items, share_of_equal
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.sequences import ndcg


class SetF1(Similarity):
    """Structured prediction: F1 of two sets of tuples, such as the triples of a graph or the arcs of a parse.

    A prediction is a set or list of hashable parts; order and repetition do not count.
    """

    name = "set_f1"
    structured = True

    def prepare(self, prediction: Any) -> Hashable:
        """Return the parts as a frozen set."""
        if isinstance(prediction, (set, frozenset)):
            return hashable(prediction)
        return frozenset(items(prediction, "a set or list of parts"))

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return F1 of two sets; 1 if both are empty."""
        return f1_of_sets(answer, reference)


class Attachment(Similarity):
    """Structured prediction: share of tokens with the same head (UAS), or the same head and relation (LAS).

    Parameters
    ----------
    labelled
        True (LAS): a prediction is a sequence of (head, relation), one a token. False (UAS): of those or of heads.
    """

    structured = True

    def __init__(self, *, labelled: bool = True) -> None:
        self.name = "las" if labelled else "uas"
        self._labelled = labelled

    def prepare(self, prediction: Any) -> Hashable:
        """Return the arcs as a tuple.

        Raises
        ------
        ParameterError
            If an arc is not what the parameter `labelled` asks for.
        """
        arcs = items(prediction, "a sequence of arcs, one a token")
        for arc in arcs:
            pair = isinstance(arc, tuple) and len(arc) == 2
            if not pair and (self._labelled or isinstance(arc, tuple)):
                raise ParameterError("prediction", repr(arc), "an arc must be (head, relation); a head will do for uas")
        return arcs if self._labelled else tuple(arc[0] if isinstance(arc, tuple) else arc for arc in arcs)

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return the share of equal arcs; a missing one equals nothing."""
        return share_of_equal(answer, reference)


class Closeness(Similarity):
    """Regression: ``1 - min(1, |A - B| / scale)``, the absolute error as an agreement in [0, 1].

    For correlations, which belong to whole runs and not to examples, see
    :class:`mlflow_l3d.analysis.consistency.comparisons.NumberComparison`.

    Parameters
    ----------
    scale
        The difference from which on two predictions do not agree at all, in their unit; for instance the range of the
        true values (5 for STS-B).

    Raises
    ------
    ParameterError
        If `scale` is not a positive number.
    """

    name = "closeness"

    def __init__(self, scale: float) -> None:
        if not (isinstance(scale, (int, float)) and math.isfinite(scale) and scale > 0):
            raise ParameterError("scale", scale, "must be a positive number")
        self.scale = float(scale)

    def prepare(self, prediction: Any) -> Hashable:
        """Return the number.

        Raises
        ------
        ParameterError
            If it is not a finite number.
        """
        return finite(prediction)

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return 1 for equal numbers, 0 from the scale on."""
        return 1 - min(1.0, abs(float(answer) - float(reference)) / self.scale)

    def pairs(self, forms: Sequence[Any]) -> FloatArray:
        """Return shape (k, k): how close each pair of numbers is, without a call for each."""
        # A missing number is nan, and with it all that it is compared with.
        numbers = np.array([math.nan if form is None else form for form in forms], dtype=np.float64)
        distances = np.abs(np.subtract.outer(numbers, numbers)) / self.scale
        close: FloatArray = np.nan_to_num(1 - np.minimum(1.0, distances), nan=0.0)
        return close


class Ranking(Similarity):
    """A prediction is a sequence of different ids, best first."""

    structured = True

    def prepare(self, prediction: Any) -> Hashable:
        """Return the ids as a tuple.

        Raises
        ------
        ParameterError
            If an id occurs twice.
        """
        ids = items(prediction, "a sequence of ids, best first")
        if len(set(ids)) < len(ids):
            raise ParameterError("prediction", "an id occurs twice", "a ranking must have each id once")
        return ids

    @lru_cache  # noqa: B019 (there are few)
    def chance(self, count: int) -> float:
        """Return the agreement expected of two random orders of so many ids.

        Scoring functions of rankings add up over places of ids, so the mean over all rotations is that over all orders.
        """
        ids = tuple(range(count))
        return float(np.mean([self.pair(ids, ids[shift:] + ids[:shift]) for shift in ids])) if ids else 1.0

    def expected(self, forms: Sequence[Any]) -> float:
        """Return the agreement expected of random orders of the ids that runs rank; nan if they rank different ones."""
        ranked = [frozenset(form) for form in forms if form is not None]
        return self.chance(len(ranked[0])) if len({*ranked}) == 1 else math.nan


class _FirstIds(Ranking):
    """Of two rankings their first k ids."""

    kind: ClassVar[str]

    def __init__(self, k: int = 10) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ParameterError("k", k, "must be a whole number, 1 or above")
        self._k, self.name = k, f"{self.kind}@{k}"


class Overlap(_FirstIds):
    """Retrieval: ids that two rankings share among their first k, divided by k.

    Where both rankings are shorter than k, the longer one's length takes its place. The truth is the relevant ids, in
    any order: the score is then the share of the first k that are relevant, of as many as there can be.

    Parameters
    ----------
    k
        How many ids count.
    """

    kind = "overlap"

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return the overlap; 1 if both are empty."""
        first, second = answer[: self._k], reference[: self._k]
        longest = max(len(first), len(second))
        return len(set(first) & set(second)) / longest if longest else 1.0

    def similarity_to_truth(self, answer: Any, truth: Any) -> float:
        """Return the relevant among the first k, of as many as there can be; 1 if nothing is relevant or found."""
        first = answer[: self._k]
        possible = min(self._k, len(truth))
        return len(set(first) & set(truth)) / possible if possible else float(not first)


class RankBiasedOverlap(Ranking):
    """Retrieval: rank-biased overlap, extrapolated from what is seen (Webber, Moffat and Zobel 2010, equation 32).

    Parameters
    ----------
    p
        Persistence, in (0, 1): the first 10 ranks have 86 % of the weight at 0.9.

    Raises
    ------
    ParameterError
        If `p` is not in (0, 1).
    """

    name = "rbo"

    def __init__(self, p: float = 0.9) -> None:
        if not (isinstance(p, (int, float)) and 0 < p < 1):
            raise ParameterError("p", p, "must be above 0 and below 1")
        self._p = p

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return the extrapolated rank-biased overlap; 1 if both are empty, 0 if one is."""
        short, long = sorted((answer, reference), key=len)
        if not short:
            return float(not long)
        depths = np.arange(1, len(long) + 1)
        places = {each: place for place, each in enumerate(long)}
        first_in_both = [max(place, places[each]) for place, each in enumerate(short) if each in places]
        shared = np.bincount(np.array(first_in_both, dtype=np.intp), minlength=len(long)).cumsum()
        at_short, at_long = shared[len(short) - 1], shared[-1]
        weights = self._p**depths
        total = float((shared / depths * weights).sum())
        beyond = depths > len(short)
        total += float((at_short * (depths - len(short)) / (len(short) * depths) * weights)[beyond].sum())
        rest = (at_long - at_short) / len(long) + at_short / len(short)
        return float((1 - self._p) / self._p * total + rest * self._p ** len(long))


class Ndcg(_FirstIds):
    """Retrieval: normalised discounted cumulative gain at k; mean of both directions.

    Between two runs the other ranking gives the gains: k for its first id, 1 for its k-th, 0 for all others. The truth
    is a mapping of id to gain (0 or above), or the relevant ids.

    Parameters
    ----------
    k
        How many ids count.
    """

    kind = "ndcg"
    symmetric = False

    def prepare_truth(self, truth: Any) -> Hashable:
        """Return the gains as pairs of id and gain.

        Raises
        ------
        ParameterError
            If a gain is negative.
        """
        if not isinstance(truth, Mapping):
            ids = items(truth if not isinstance(truth, (set, frozenset)) else list(truth), "a mapping of id to gain")
            return frozenset((each, 1.0) for each in ids)
        if any(not gain >= 0 for gain in truth.values()):
            raise ParameterError("truth", "a negative gain", "gains must be 0 or above")
        return frozenset((each, float(gain)) for each, gain in truth.items())

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return NDCG with gains from the other ranking."""
        return ndcg(answer, {each: self._k - rank for rank, each in enumerate(reference[: self._k])}, self._k)

    def similarity_to_truth(self, answer: Any, truth: Any) -> float:
        """Return NDCG with the true gains."""
        return ndcg(answer, dict(truth), self._k)
