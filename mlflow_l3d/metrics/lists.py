"""Scores of lists: the tags of tokens, and rankings, whose label names the relevant ids or maps ids to gains."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import eq
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.base import OF_RANKINGS, OF_TAGS, Metric, OfEach, library, mean_of

Array = npt.NDArray[Any]

_TO_BIO: Final = {"B": "B", "I": "I", "S": "B", "U": "B", "E": "I", "L": "I", "M": "I"}


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


def _of_each(score: Callable[[Sequence[str], Mapping[str, float]], float]) -> OfEach:
    def of_each(labels: Array, predictions: Array) -> npt.NDArray[np.float64]:
        pairs = zip(labels.tolist(), predictions.tolist(), strict=True)
        return np.array([score(json.loads(ranking), _gains(label)) for label, ranking in pairs], dtype=np.float64)

    return of_each


def _gains(label: str) -> dict[str, float]:
    relevant = json.loads(label)
    return dict.fromkeys(relevant, 1.0) if isinstance(relevant, list) else relevant


_fraction: Final = partial(Metric, range=(0.0, 1.0))
METRICS: Final = (
    _fraction(
        "token_accuracy",
        _token_accuracy,
        OF_TAGS,
        words="share of tokens with the right tag; a tag too many or too few is a wrong one",
        agreement="token_match",
    ),
    _fraction(
        "entity_f1",
        _entity_f1,
        OF_TAGS,
        words="F1 of whole entities (type, begin and end) of tags like B-PER; of other tags it has no value",
        agreement="entity_f1",
        needs="nervaluate",
    ),
    *(
        _fraction(name, mean_of(each), OF_RANKINGS, words=words, of_each=each, agreement=agreement)
        for name, each, words, agreement in (
            ("ndcg_at_10", _of_each(_ndcg), "normalised discounted cumulative gain of the first 10 ids", "ndcg"),
            ("mrr", _of_each(_reciprocal_rank), "mean reciprocal rank of the first relevant id", "rbo"),
            ("average_precision", _of_each(_average_precision), "mean average precision", "rbo"),
            ("recall_at_10", _of_each(_recall), "share of the relevant ids among the first 10", "overlap:k=10"),
        )
    ),
)
"""Metrics of predicted tags, and of predicted rankings; of these each is a mean over examples."""
