"""Scores of tagged tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from itertools import chain
from operator import eq
from typing import Any, Final

import numpy.typing as npt

from mlflow_l3d.metrics.base import OF_TAGS, Metric, library

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


METRICS: Final = (
    Metric(
        "token_accuracy",
        _token_accuracy,
        OF_TAGS,
        range=(0.0, 1.0),
        words="share of tokens with the right tag; a tag too many or too few is a wrong one",
        agreement="token_match",
    ),
    Metric(
        "entity_f1",
        _entity_f1,
        OF_TAGS,
        range=(0.0, 1.0),
        words="F1 of whole entities (type, begin and end) of tags like B-PER; of other tags it has no value",
        agreement="entity_f1",
        needs="nervaluate",
    ),
)
"""Metrics of predicted tags."""
