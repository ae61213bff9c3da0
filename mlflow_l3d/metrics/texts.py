"""Scores of generated texts."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.base import OF_TEXTS, Metric, OfEach, library, mean_of

Array = npt.NDArray[Any]

_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def references(label: str, answer: str | None = None) -> tuple[str, ...]:
    """Return the right answers: those of a JSON list of texts; else, or if it is the answer, the label itself."""
    if label.startswith("[") and answer != label:
        try:
            texts = json.loads(label)
        except (ValueError, RecursionError):
            return (label,)
        if isinstance(texts, list) and texts and all(isinstance(each, str) for each in texts):
            return tuple(texts)
    return (label,)


def normalised(answer: str) -> tuple[str, ...]:
    """Return the words of an answer, without case, punctuation and the articles a, an, the.

    Notes
    -----
    The rule of the SQuAD data set (Rajpurkar et al. 2016, section 6.1). It is a few lines; packages that carry it need
    torch, or download scripts.
    """
    return tuple(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def f1_of_words(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Return F1 of the words that two answers share, counted as often as they occur.

    An answer without words agrees with another such answer only, as in SQuAD 2.
    """
    if not answer or not reference:
        return float(tuple(answer) == tuple(reference))
    shared = (Counter(answer) & Counter(reference)).total()
    return 2 * shared / (len(answer) + len(reference))


def _best(score: Callable[[str, str], float]) -> OfEach:
    """Return what gives each prediction its score with the reference that is closest; equal pairs are scored once."""

    def best(labels: Array, predictions: Array) -> npt.NDArray[np.float64]:
        pairs = list(zip(labels.tolist(), predictions.tolist(), strict=True))
        best_scores = {pair: max(score(pair[1], each) for each in references(*pair)) for pair in {*pairs}}
        return np.array([best_scores[pair] for pair in pairs], dtype=np.float64)

    return best


def _exact(prediction: str, reference: str) -> float:
    return float(prediction == reference)


def _squad_exact(prediction: str, reference: str) -> float:
    return float(normalised(prediction) == normalised(reference))


def _squad_f1(prediction: str, reference: str) -> float:
    return f1_of_words(normalised(prediction), normalised(reference))


def _corpus(name: str) -> Callable[[Array, Array], float]:
    """Return a score of all texts at once, of sacrebleu, as a fraction."""

    def score(labels: Array, predictions: Array) -> float:
        metrics = library("sacrebleu.metrics", "metric", name.lower(), "sacrebleu")
        reference_lists = list(map(references, labels.tolist(), predictions.tolist()))
        streams = list(map(list, zip_longest(*reference_lists)))
        return min(1.0, float(getattr(metrics, name)().corpus_score(predictions.tolist(), streams).score) / 100)

    return score


def _rouge(kind: str) -> OfEach:
    """Return ROUGE F of rouge-score, of each prediction."""

    def of_each(labels: Array, predictions: Array) -> npt.NDArray[np.float64]:
        scorer = library("rouge_score.rouge_scorer", "metric", kind, "rouge-score").RougeScorer([kind])
        return _best(lambda prediction, reference: float(scorer.score(reference, prediction)[kind].fmeasure))(
            labels, predictions
        )

    return of_each


_OF_EACH: Final = (
    ("exact_match", _best(_exact), "share of answers that are a reference, letter by letter", ""),
    ("squad_exact", _best(_squad_exact), "the same without case, punctuation and articles", ""),
    ("squad_f1", _best(_squad_f1), "F1 of the words of an answer and its reference, as SQuAD's", ""),
    ("rouge1", _rouge("rouge1"), "F of single words, of rouge-score", "rouge_score"),
    ("rouge2", _rouge("rouge2"), "F of pairs of words, of rouge-score", "rouge_score"),
    ("rougeL", _rouge("rougeL"), "F of the longest common subsequence, of rouge-score", "rouge_score"),
)
_OF_ALL: Final = (
    ("bleu", _corpus("BLEU"), "BLEU of all texts, of sacrebleu"),
    ("chrf", _corpus("CHRF"), "character n-gram F of all texts, of sacrebleu"),
)
_UNIT: Final = (0.0, 1.0)
METRICS: Final = (
    *(
        Metric(name, mean_of(each), OF_TEXTS, range=_UNIT, words=words, of_each=each, agreement=name, needs=needs)
        for name, each, words, needs in _OF_EACH
    ),
    *(
        Metric(name, function, OF_TEXTS, range=_UNIT, words=words, agreement=name, needs="sacrebleu")
        for name, function, words in _OF_ALL
    ),
)
"""Metrics of predicted texts; of several references the closest counts. Some need the extra ``agreement``."""
