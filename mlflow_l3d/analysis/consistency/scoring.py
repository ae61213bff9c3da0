"""What a scoring function is: how much two predictions for one example agree, with and without the truth."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import eq
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.sequences import references

NO_TRUTH: Final = object()
"""Stands where no truth is given; None is an unparsed prediction."""


class Scoring(ABC):
    """A scoring function pi of Zhou et al. 2025, Table 2; call it with two predictions, or with two and the truth.

    A prediction of None, an answer that could not be read, agrees with nothing, also not with another None.

    A subclass has a `name`, :meth:`prepare`, :meth:`pair`, which must be symmetric, and :meth:`with_truth`. Predictions
    are brought into a form of their own once, which must be hashable: equal ones of many runs are then compared once.
    """

    name: str
    structured: ClassVar[bool] = False
    """Whether predictions are lists, sets or mappings, and so may be written as JSON."""

    def prepare(self, prediction: Any) -> Hashable:
        """Return a prediction in the form in which it is compared.

        Raises
        ------
        ParameterError
            If it is not of the kind that this function compares.
        """
        return hashable(prediction)

    def prepare_truth(self, truth: Any) -> Hashable:
        """Return a true answer in the form in which it is compared; by default as a prediction."""
        return self.prepare(truth)

    @abstractmethod
    def pair(self, one: Any, other: Any) -> float:
        """Return how much two prepared predictions agree, in [0, 1]; 1 if they are equal."""

    @abstractmethod
    def with_truth(self, forms: Sequence[Any], truth: Any) -> FloatArray:
        """Return how much each pair of predictions agrees, given the truth.

        Parameters
        ----------
        forms
            k prepared predictions.
        truth
            The prepared truth.

        Returns
        -------
        numpy.ndarray
            Shape (k, k): symmetric, in [0, 1].
        """

    def __call__(self, one: Any, other: Any, truth: Any = NO_TRUTH) -> float:
        """Return pi(one, other), or pi(one, other, truth)."""
        forms = [None if each is None else self.prepare(each) for each in (one, other)]
        values = self.pairs(forms) if truth is NO_TRUTH else self.pairs_with_truth(forms, self.prepare_truth(truth))
        return float(values[0, 1])

    def form(self, prediction: Any, example: Any) -> Hashable:
        """Return a prediction of a table in the form in which it is compared; None if it could not be read.

        Raises
        ------
        ParameterError
            If it is of the wrong kind.
        """
        return None if is_missing(prediction) else self.prepare(self._decoded(prediction, "prediction", example))

    def true_form(self, truth: Any, example: Any) -> Hashable:
        """Return a true answer of a table in the form in which it is compared; errors as :meth:`form`."""
        return self.prepare_truth(self._decoded(truth, "label", example))

    def _decoded(self, value: Any, what: str, example: Any) -> Any:
        """Return what a JSON text holds where a structure is needed."""
        if not (isinstance(value, str) and self.structured):
            return value
        try:
            return json.loads(value)
        except ValueError:
            allowed = f"must be a list, or a text that holds one as JSON, for {self.name}"
            raise ParameterError(what, f"a text, of example {example}", allowed) from None

    def pairs(self, forms: Sequence[Any]) -> FloatArray:
        """Return shape (k, k): how much each pair of prepared predictions agrees; None agrees with nothing.

        Raises
        ------
        L3DError
            If a value lies outside [0, 1].
        """
        values = np.zeros((len(forms), len(forms)))
        for row, one in enumerate(forms):
            for column in range(row, len(forms)):
                if one is not None and forms[column] is not None:
                    values[row, column] = values[column, row] = self.pair(one, forms[column])
        return self._within(values)

    def pairs_with_truth(self, forms: Sequence[Any], truth: Any) -> FloatArray:
        """Return shape (k, k): how much each pair agrees given the truth; errors as :meth:`pairs`."""
        values = np.zeros((len(forms), len(forms)))
        named = [place for place, form in enumerate(forms) if form is not None]
        values[np.ix_(named, named)] = self.with_truth([forms[place] for place in named], truth)
        return self._within(values)

    def sum_with_truth(self, forms: Sequence[Any], counts: npt.NDArray[np.intp], truth: Any) -> float:
        """Return the sum over pairs of runs of their agreement given the truth, `counts` of them with each form."""
        values = self.pairs_with_truth(forms, truth)
        return float(counts @ values @ counts - np.diagonal(values) @ counts) / 2

    def expected(self, forms: Sequence[Any]) -> float:  # noqa: ARG002
        """Return the agreement of predictions with these forms that chance explains; nan if that is not known."""
        return math.nan

    def _within(self, values: FloatArray) -> FloatArray:
        """Return values in [0, 1]; what rounding puts outside is cut."""
        if not (np.isfinite(values).all() and values.min(initial=0) > -1e-9 and values.max(initial=0) < 1 + 1e-9):
            raise L3DError(f"scoring={self.name}: gave a value outside [0, 1]. A scoring function must not.")
        return np.clip(values, 0.0, 1.0)


class Similarity(Scoring):
    """A scoring function built on a similarity zeta of an answer with a reference, as most rows of Table 2.

    ``pi(A, B) = zeta(A, B)``, or the mean of ``zeta(A, B)`` and ``zeta(B, A)`` where these differ, since neither run is
    the reference. ``pi(A, B, r) = (zeta(A, r) + zeta(B, r)) / 2``, so its mean over pairs of runs with one test set is
    the mean of zeta over the runs: their quality, which says nothing of their agreement.
    """

    symmetric: bool = True

    @abstractmethod
    def similarity(self, answer: Any, reference: Any) -> float:
        """Return zeta of two prepared predictions, in [0, 1]; 1 if they are equal."""

    def similarity_to_truth(self, answer: Any, truth: Any) -> float:
        """Return zeta of a prepared prediction with the prepared truth."""
        return self.similarity(answer, truth)

    def pair(self, one: Any, other: Any) -> float:
        """Return zeta, averaged over both directions where they differ."""
        if self.symmetric:
            return self.similarity(one, other)
        return (self.similarity(one, other) + self.similarity(other, one)) / 2

    def with_truth(self, forms: Sequence[Any], truth: Any) -> FloatArray:
        """Return the mean of both similarities to the truth; that of None is 0."""
        similarities = [0.0 if form is None else self.similarity_to_truth(form, truth) for form in forms]
        values = np.array(similarities, dtype=np.float64)
        return (values[:, None] + values[None, :]) / 2

    def pairs_with_truth(self, forms: Sequence[Any], truth: Any) -> FloatArray:
        """Return shape (k, k): how much each pair agrees given the truth; errors as :meth:`pairs`."""
        return self._within(self.with_truth(forms, truth))


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, nan, or one of pandas' own."""
    if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def finite(prediction: Any) -> float:
    """Return a finite number.

    Raises
    ------
    ParameterError
        If it is none; it shows a number, and of all else the type.
    """
    if not isinstance(prediction, (int, float, np.integer, np.floating)):
        raise ParameterError("prediction", type(prediction).__name__, "must be a number")
    if not math.isfinite(prediction):
        raise ParameterError("prediction", float(prediction), "must be a finite number")
    return float(prediction)


def hashable(value: Any) -> Hashable:
    """Return lists and arrays as tuples, sets as frozen sets, mappings as frozen sets of pairs, all else as it is."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(hashable(each) for each in value)
    if isinstance(value, (set, frozenset)):
        return frozenset(hashable(each) for each in value)
    if isinstance(value, Mapping):
        return ("mapping", frozenset((key, hashable(each)) for key, each in value.items()))
    if isinstance(value, np.generic):
        value = value.item()
    try:
        hash(value)
    except TypeError:
        raise ParameterError(
            "prediction", type(value).__name__, "must be hashable, a list, a set, a mapping or an array"
        ) from None
    return value  # type: ignore[no-any-return]


def items(value: Any, what: str) -> tuple[Any, ...]:
    """Return a sequence as a tuple.

    Raises
    ------
    ParameterError
        If it is a text, or no sequence.
    """
    if isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)):
        raise ParameterError("prediction", type(value).__name__, f"must be {what}")
    item_tuple = hashable(list(value))
    assert isinstance(item_tuple, tuple)
    return item_tuple


def text(value: Any) -> str:
    """Return a text.

    Raises
    ------
    ParameterError
        If it is none.
    """
    if not isinstance(value, str):
        raise ParameterError("prediction", type(value).__name__, "must be a text")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return one true text, or several (a sequence, or its JSON) of which the best counts, as a tuple.

    Raises
    ------
    ParameterError
        If there is none, or one is not a text.
    """
    several = () if isinstance(value, str) else items(value, "a text or several")
    reference_texts = references(value) if isinstance(value, str) else tuple(map(text, several))
    if not reference_texts:
        raise ParameterError("truth", "()", "must be a text, or at least one")
    return reference_texts


def f1_of_sets(one: Iterable[Hashable], other: Iterable[Hashable]) -> float:
    """Return F1 of two sets, which is the same in both directions; 1 if both are empty."""
    first, second = frozenset(one), frozenset(other)
    total = len(first) + len(second)
    return 2 * len(first & second) / total if total else 1.0


def share_of_equal(one: Sequence[Hashable], other: Sequence[Hashable]) -> float:
    """Return the share of equal members of the longer sequence; 1 if both are empty."""
    longest = max(len(one), len(other))
    return sum(map(eq, one, other)) / longest if longest else 1.0
