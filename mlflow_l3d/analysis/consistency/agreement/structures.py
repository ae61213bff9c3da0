"""Scoring functions for structured prediction and regression."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from mlflow_l3d.analysis.consistency.agreement.base import Similarity, f1_of_sets, hashable, items, share_of_equal
from mlflow_l3d.analysis.consistency.agreement.kinds import finite
from mlflow_l3d.errors import ParameterError


class SetF1(Similarity):
    """Structured prediction: F1 of two sets of tuples, such as the triples of a graph or the arcs of a parse.

    A prediction is a set or list of hashable parts; order and repetition do not count.
    """

    name = "set_f1"

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
        if self._labelled:
            return arcs
        return tuple(arc[0] if isinstance(arc, tuple) else arc for arc in arcs)

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return the share of equal arcs; a missing one equals nothing."""
        return share_of_equal(answer, reference)


class Closeness(Similarity):
    """Regression: ``1 - min(1, |A - B| / scale)``, the absolute error as an agreement in [0, 1].

    For correlations, which belong to whole runs and not to examples, see
    :class:`mlflow_l3d.analysis.consistency.numbers.NumberComparison`.

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
            If it is no finite number.
        """
        return finite(prediction)

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return 1 for equal numbers, 0 from the scale on."""
        return 1 - min(1.0, abs(float(answer) - float(reference)) / self.scale)
