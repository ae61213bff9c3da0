"""Scores of generated texts, of tags of tokens, and of rankings, whose label names relevant ids, or their gains."""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain, zip_longest
from operator import eq
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.base import OF_RANKINGS, OF_TAGS, OF_TEXTS, Metric, OfEach, fraction, library, mean_of

Array = npt.NDArray[Any]

_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_TO_BIO: Final = {"B": "B", "I": "I", "S": "B", "U": "B", "E": "I", "L": "I", "M": "I"}


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


def bio(tag: Any) -> str | None:
    """Return a tag of the schemes BIO, BIOES, BILOU or BMES in BIO; None for one of no such scheme."""
    if tag == "O":
        return "O"
    if isinstance(tag, str) and len(tag) > 2 and tag[1] == "-" and tag[0] in _TO_BIO:
        return _TO_BIO[tag[0]] + tag[1:]
    return None


def entities(tags: Sequence[str], what: str, name: str) -> frozenset[Hashable]:
    """Return (type, begin, end) of the entities that tags in BIO name, read by nervaluate for the `what` `name`."""
    spans = library("nervaluate", what, name, "nervaluate").collect_named_entities(list(tags))
    return frozenset((entity["label"], entity["start"], entity["end"]) for entity in spans)


def _token_accuracy(labels: Array, predictions: Array) -> float:
    right = total = 0
    for label, prediction in _pairs(labels, predictions):
        right += sum(map(eq, label, prediction))
        total += max(len(label), len(prediction))
    return right / total if total else math.nan


def _entity_f1(labels: Array, predictions: Array) -> float:
    shared = total = 0
    for label, prediction in _pairs(labels, predictions):
        true = list(map(bio, label))
        if None in true:  # parts of speech, say
            return math.nan
        named = entities([tag or "O" for tag in true], "metric", "entity_f1")
        predicted = entities([bio(tag) or "O" for tag in prediction], "metric", "entity_f1")
        shared += len(named & predicted)
        total += len(named) + len(predicted)
    return 2 * shared / total if total else 1.0


def _pairs(labels: Array, predictions: Array) -> list[tuple[list[str], list[str]]]:
    """Return lists of tags, each text read once: most sentences have the tags of others."""
    read = {text: json.loads(text) for text in {*chain(labels.tolist(), predictions.tolist())}}
    return [(read[one], read[other]) for one, other in zip(labels.tolist(), predictions.tolist(), strict=True)]


def ndcg(ranking: Sequence[Hashable], gains: Mapping[Any, float], depth: int) -> float:
    """Return the normalised discounted cumulative gain of the first `depth` ids (Järvelin and Kekäläinen 2002).

    The gain at rank r counts ``1 / log2(r + 1)``, as in scikit-learn. Where nothing is relevant it is 1 for the empty
    ranking, else 0.
    """
    best = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:depth]
    if not best:
        return float(not ranking)
    own_gains = [gains.get(each, 0.0) for each in ranking[:depth]]
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    gained, ideal = (float(discounts[: len(each)] @ np.array(each, dtype=np.float64)) for each in (own_gains, best))
    return gained / ideal


def _ndcg(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    return ndcg(ranking, gains, depth=10)


def _reciprocal_rank(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    return next((1 / rank for rank, each in enumerate(ranking, 1) if gains.get(each, 0) > 0), 0.0)


def _average_precision(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    hits = [rank for rank, each in enumerate(ranking, 1) if gains.get(each, 0) > 0]
    return math.fsum(number / rank for number, rank in enumerate(hits, 1)) / sum(gain > 0 for gain in gains.values())


def _recall(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    relevant = {each for each, gain in gains.items() if gain > 0}
    return len(relevant.intersection(ranking[:10])) / len(relevant)


def _gains(label: str) -> dict[str, float]:
    relevant = json.loads(label)
    return dict.fromkeys(relevant, 1.0) if isinstance(relevant, list) else relevant


def _ranked(
    name: str, score: Callable[[Sequence[str], Mapping[str, float]], float], words: str, agreement: str
) -> Metric:
    """Return the metric that is the mean of a score of each ranking and its gains."""

    def of_each(labels: Array, predictions: Array) -> npt.NDArray[np.float64]:
        pairs = zip(labels.tolist(), predictions.tolist(), strict=True)
        return np.array([score(json.loads(ranking), _gains(label)) for label, ranking in pairs], dtype=np.float64)

    return fraction(name, mean_of(of_each), OF_RANKINGS, words=words, of_each=of_each, agreement=agreement)


_OF_TEXTS: Final = (
    ("exact_match", _best(_exact), "share of answers that are a reference, letter by letter", ""),
    ("squad_exact", _best(_squad_exact), "the same without case, punctuation and articles", ""),
    ("squad_f1", _best(_squad_f1), "F1 of the words of an answer and its reference, as SQuAD's", ""),
    ("rouge1", _rouge("rouge1"), "F of single words, of rouge-score", "rouge_score"),
    ("rouge2", _rouge("rouge2"), "F of pairs of words, of rouge-score", "rouge_score"),
    ("rougeL", _rouge("rougeL"), "F of the longest common subsequence, of rouge-score", "rouge_score"),
)
_OF_CORPORA: Final = (
    ("bleu", "BLEU", "BLEU of all texts, of sacrebleu"),
    ("chrf", "CHRF", "character n-gram F of all texts, of sacrebleu"),
)
_OF_RANKINGS: Final = (
    ("ndcg_at_10", _ndcg, "normalised discounted cumulative gain of the first 10 ids", "ndcg"),
    ("mrr", _reciprocal_rank, "mean reciprocal rank of the first relevant id", "rbo"),
    ("average_precision", _average_precision, "mean average precision", "rbo"),
    ("recall_at_10", _recall, "share of the relevant ids among the first 10", "overlap:k=10"),
)
METRICS: Final = (
    *(
        fraction(name, mean_of(each), OF_TEXTS, words=words, of_each=each, agreement=name, needs=needs)
        for name, each, words, needs in _OF_TEXTS
    ),
    *(
        fraction(name, _corpus(function), OF_TEXTS, words=words, agreement=name, needs="sacrebleu")
        for name, function, words in _OF_CORPORA
    ),
    fraction(
        "token_accuracy",
        _token_accuracy,
        OF_TAGS,
        words="share of tokens with the right tag; a tag too many or too few is a wrong one",
        agreement="token_match",
    ),
    fraction(
        "entity_f1",
        _entity_f1,
        OF_TAGS,
        words="F1 of whole entities (type, begin and end) of tags like B-PER; of other tags it has no value",
        agreement="entity_f1",
        needs="nervaluate",
    ),
    *(_ranked(*each) for each in _OF_RANKINGS),
)
"""Metrics of predicted texts, tags and rankings.

Of several references of a text the closest counts. The metrics of rankings are means over examples. Some metrics need
the extra ``agreement``.
"""
