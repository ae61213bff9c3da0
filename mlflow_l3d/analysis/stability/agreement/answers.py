"""Scoring functions for question answering: exact match and F1 of tokens after SQuAD's normalisation."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from mlflow_l3d.analysis.stability.agreement.base import Similarity, text, texts
from mlflow_l3d.metrics.texts import f1_of_words, normalised


class _Answer(Similarity):
    def prepare(self, prediction: Any) -> Hashable:
        """Return the normalised words."""
        return normalised(text(prediction))

    def prepare_truth(self, truth: Any) -> Hashable:
        """Return the words of one answer, or of several of which the best counts."""
        return tuple(normalised(each) for each in texts(truth))

    def similarity_to_truth(self, answer: Any, truth: Any) -> float:
        """Return the similarity to the true answer that is closest."""
        return max(self.similarity(answer, each) for each in truth)


class SquadExact(_Answer):
    """Question answering: 1 if the normalised answers are equal, else 0.

    With the truth it is the half sum of Table 2: 1/2 where one of two different answers is right.
    """

    name = "squad_exact"

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return 1 if both are equal, else 0."""
        return float(answer == reference)


class SquadF1(_Answer):
    """Question answering: F1 of the words that two answers share, counted as often as they occur.

    An answer without words (none, or "the") agrees with another such answer only, as in SQuAD 2.
    """

    name = "squad_f1"

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return F1 of words."""
        return f1_of_words(answer, reference)
