"""Scores of rankings: a label names the relevant ids, or maps ids to gains."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.base import OF_RANKINGS, Metric, OfEach, mean_of

Array = npt.NDArray[Any]

_DEPTH: Final = 10


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
    return ndcg(ranking, gains, _DEPTH)


def _reciprocal_rank(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    return next((1 / rank for rank, each in enumerate(ranking, 1) if gains.get(each, 0) > 0), 0.0)


def _average_precision(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    hits = [rank for rank, each in enumerate(ranking, 1) if gains.get(each, 0) > 0]
    return math.fsum(number / rank for number, rank in enumerate(hits, 1)) / sum(gain > 0 for gain in gains.values())


def _recall(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    relevant = {each for each, gain in gains.items() if gain > 0}
    return len(relevant.intersection(ranking[:_DEPTH])) / len(relevant)


def _of_each(score: Callable[[Sequence[str], Mapping[str, float]], float]) -> OfEach:
    def of_each(labels: Array, predictions: Array) -> npt.NDArray[np.float64]:
        pairs = zip(labels.tolist(), predictions.tolist(), strict=True)
        return np.array([score(json.loads(ranking), _gains(label)) for label, ranking in pairs], dtype=np.float64)

    return of_each


def _gains(label: str) -> dict[str, float]:
    relevant = json.loads(label)
    return dict.fromkeys(relevant, 1.0) if isinstance(relevant, list) else relevant


METRICS: Final = tuple(
    Metric(
        name,
        mean_of(_of_each(score)),
        OF_RANKINGS,
        range=(0.0, 1.0),
        words=words,
        of_each=_of_each(score),
        agreement=agreement,
    )
    for name, score, words, agreement in (
        (f"ndcg_at_{_DEPTH}", _ndcg, f"normalised discounted cumulative gain of the first {_DEPTH} ids", "ndcg"),
        ("mrr", _reciprocal_rank, "mean reciprocal rank of the first relevant id", "rbo"),
        ("average_precision", _average_precision, "mean average precision", "rbo"),
        (f"recall_at_{_DEPTH}", _recall, f"share of the relevant ids among the first {_DEPTH}", f"overlap:k={_DEPTH}"),
    )
)
"""Metrics of predicted rankings, each a mean over examples."""
