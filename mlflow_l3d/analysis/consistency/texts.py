"""Scoring functions for classes, tags and texts: equality, BLEU and chrF, ROUGE, and those of question answering."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from operator import eq
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.consistency.scoring import (
    Scoring,
    Similarity,
    f1_of_sets,
    is_missing,
    items,
    share_of_equal,
    text,
    texts,
)
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import library
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.metrics.sequences import bio, entities, f1_of_words, normalised, references


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

    def form(self, prediction: Any, example: Any) -> Hashable:
        """Return a prediction of a table, as its base; None also for the class number of an answer without a class."""
        # Such an answer is in a table that Stability cannot count.
        is_unparsed = isinstance(prediction, (int, np.integer)) and prediction == UNPARSED
        return None if is_unparsed else super().form(prediction, example)

    def pairs(self, forms: Sequence[Any]) -> FloatArray:
        """Return shape (k, k): 1 if both are equal, else 0; None and nan equal nothing."""
        numbers: dict[Hashable, int] = {}
        codes = np.array([numbers.setdefault(form, at) for at, form in enumerate(forms)], dtype=np.int64)
        equal = np.asarray(codes[:, None] == codes, dtype=np.bool_)
        equal[[is_missing(form) for form in forms]] = False
        return equal.astype(np.float64)

    def with_truth(self, forms: Sequence[Any], truth: Any) -> FloatArray:
        """Return 1 if both are equal and right, else 0."""
        # Two answers can both be right, by different references, and differ.
        right = np.array([form in truth for form in forms], dtype=np.float64)
        return self.pairs(forms) * np.outer(right, right)

    def sum_with_truth(self, forms: Sequence[Any], counts: npt.NDArray[np.intp], truth: Any) -> float:
        """Return the sum over pairs of runs that are equal and right; `forms` differ."""
        votes = [count for form, count in zip(forms, counts.tolist(), strict=True) if form in truth]
        return float(sum(count * (count - 1) / 2 for count in votes))


class TokenMatch(Scoring):
    """Sequence labelling: share of tokens whose tags are equal, and equal and right.

    A prediction is a sequence of tags. Where lengths differ, which a generating tagger may cause, a missing tag
    equals nothing and the longest sequence counts.
    """

    name = "token_match"
    structured = True

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
        return np.where(lengths > 0, right @ right.T / np.maximum(lengths, 1), 1.0)


class EntityF1(Similarity):
    """Sequence labelling: F1 of whole entities, right only if type, begin and end are right.

    A prediction is a sequence of tags in the scheme BIO, or one of those that name ends and single tokens (BIOES,
    BILOU, BMES). Two sentences without entities agree fully. Entities are read from tags by the package nervaluate.
    """

    name = "entity_f1"
    structured = True

    def prepare(self, prediction: Any) -> Hashable:
        """Return the entities as a frozen set of (type, begin, end)."""
        return entities([_bio(tag) for tag in items(prediction, "a sequence of tags")], "scoring", self.name)

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return F1 of two sets of entities."""
        return f1_of_sets(answer, reference)


def _bio(tag: Any) -> str:
    """Return a tag in the scheme BIO."""
    bio_tag = bio(tag)
    if bio_tag is not None:
        return bio_tag
    raise ParameterError("prediction", repr(tag), "a tag must be O or like B-PER, in the scheme BIO, BIOES or BILOU")


ROUGE_KINDS: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")


class _TextSimilarity(Similarity):
    """Equal texts have similarity 1, whatever a library makes of an empty or a very short one."""

    _score: Callable[[str, Sequence[str]], float]

    def prepare(self, prediction: Any) -> Hashable:
        """Return the text."""
        return text(prediction)

    def prepare_truth(self, truth: Any) -> Hashable:
        """Return the reference, or several of which a prediction may follow any."""
        return texts(truth)

    def similarity(self, answer: Any, reference: Any) -> float:
        """Return the library's score of two texts."""
        return self.similarity_to_truth(answer, (reference,))

    def similarity_to_truth(self, answer: Any, truth: Any) -> float:
        """Return the library's score of a text and its references."""
        return 1.0 if answer in truth else self._score(answer, list(truth))


class _OfSacrebleu(_TextSimilarity):
    """A metric of sacrebleu, as a fraction; mean of both directions between two runs."""

    symmetric = False
    options: ClassVar[dict[str, bool]] = {}

    @cached_property
    def _metric(self) -> Any:
        metrics = library("sacrebleu.metrics", "scoring", self.name, "sacrebleu")
        return getattr(metrics, self.name.upper())(**self.options)

    def _score(self, answer: str, references: Sequence[str]) -> float:
        return min(1.0, float(self._metric.sentence_score(answer, references).score) / 100)


class Bleu(_OfSacrebleu):
    """Sentence BLEU of the package sacrebleu, as a fraction; mean of both directions between two runs.

    n-grams longer than the text are left out (`effective_order`, which sacrebleu advises for sentences).
    """

    name = "bleu"
    options: ClassVar[dict[str, bool]] = {"effective_order": True}


class Chrf(_OfSacrebleu):
    """Character n-gram F score of the package sacrebleu (beta 2), as a fraction; mean of both directions."""

    name = "chrf"


class Rouge(_TextSimilarity):
    """ROUGE F of the package rouge-score.

    Parameters
    ----------
    kind
        ``rouge1``, ``rouge2``, ``rougeL`` or ``rougeLsum`` (sentences on lines of their own).
    stemmer
        Whether English words count by their stem.
    tokenizer
        An object with ``tokenize(text)``. The library's own knows the letters a to z and digits only: for another
        script give one, else all texts have a score of 0 with each other.
    """

    def __init__(self, kind: str = "rougeL", *, stemmer: bool = False, tokenizer: Any = None) -> None:
        self.name = kind
        # The union over sentences of ROUGE-Lsum depends on which text is the reference.
        self.symmetric = kind != "rougeLsum"
        self._stemmer = stemmer
        self._tokenizer = tokenizer

    @cached_property
    def _metric(self) -> Any:
        scorer = library("rouge_score.rouge_scorer", "scoring", self.name, "rouge-score").RougeScorer
        return scorer([self.name], use_stemmer=self._stemmer, tokenizer=self._tokenizer)

    def _score(self, answer: str, references: Sequence[str]) -> float:
        return max(float(self._metric.score(reference, answer)[self.name].fmeasure) for reference in references)


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
