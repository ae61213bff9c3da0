"""Scoring functions that look for equality: classes, and tags token by token."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import eq
from typing import Any

import numpy as np

from mlflow_l3d.analysis.consistency.agreement.base import Scoring, f1_of_sets, items, share_of_equal
from mlflow_l3d.analysis.consistency.agreement.base import Similarity as _Similarity
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.tags import bio, entities
from mlflow_l3d.metrics.texts import references


class ExactMatch(Scoring):
    """Classification: ``1(A = B)`` and ``1(A = B = r)``; for anything hashable, lists and sets included."""

    name = "exact_match"

    def prepare_truth(self, truth: Any) -> Hashable:
        """Return all that is right: the truth, and where it is a JSON list of texts each of these."""
        form = self.prepare(truth)
        return (form, *references(truth)) if isinstance(truth, str) else (form,)

    def pair(self, one: Any, other: Any) -> float:
        """Return 1 if both are equal, else 0."""
        return float(one == other)

    def with_truth(self, forms: Sequence[Any], truth: Any) -> FloatArray:
        """Return 1 if both are equal and right, else 0."""
        right = np.array([form in truth for form in forms], dtype=np.float64)
        # Two answers can both be right, by different references, and differ.
        alike = np.array([[one == other for other in forms] for one in forms], dtype=np.float64)
        return np.outer(right, right) * alike.reshape(len(forms), len(forms))


class TokenMatch(Scoring):
    """Sequence labelling: share of tokens whose tags are equal, and equal and right.

    A prediction is a sequence of tags. Where lengths differ, which a generating tagger may bring about, a missing tag
    equals nothing and the longest sequence counts.
    """

    name = "token_match"

    def prepare(self, prediction: Any) -> Hashable:
        """Return the tags as a tuple."""
        return items(prediction, "a sequence of tags")

    def pair(self, one: Any, other: Any) -> float:
        """Return the share of equal tags; 1 for two empty sequences."""
        return share_of_equal(one, other)

    def with_truth(self, forms: Sequence[Any], truth: Any) -> FloatArray:
        """Return the share of tags that are equal and right."""
        longest = [max(len(form), len(truth)) for form in forms]
        right = np.zeros((len(forms), max(longest, default=0)))
        for place, form in enumerate(forms):
            hits = list(map(eq, form, truth))
            right[place, : len(hits)] = hits
        lengths = np.maximum.outer(longest, longest) if forms else np.ones((0, 0))
        shared = right @ right.T
        return np.where(lengths > 0, shared / np.maximum(lengths, 1), 1.0)


class EntityF1(_Similarity):
    """Sequence labelling: F1 of whole entities, right only if type, begin and end are right.

    A prediction is a sequence of tags in the scheme BIO, or one of those that name ends and single tokens (BIOES,
    BILOU, BMES). Two sentences without entities agree fully. Entities are read from tags by the package nervaluate.
    """

    name = "entity_f1"

    def prepare(self, prediction: Any) -> Hashable:
        """Return the entities as a frozen set of (type, begin, end)."""
        tags = [_bio(tag) for tag in items(prediction, "a sequence of tags")]
        return entities(tags, "scoring", self.name)

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return F1 of two sets of entities."""
        return f1_of_sets(answer, reference)


def _bio(tag: Any) -> str:
    """Return a tag in the scheme BIO."""
    bio_tag = bio(tag)
    if bio_tag is not None:
        return bio_tag
    raise ParameterError("prediction", repr(tag), "a tag must be O or like B-PER, in the scheme BIO, BIOES or BILOU")
