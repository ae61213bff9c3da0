"""What labels and predictions are, by kind of task: class numbers, numbers, texts, tags or rankings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.classification import UNPARSED, Numbers
from mlflow_l3d.metrics.regression import Floats

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Form:
    """How labels and predictions of one kind of task are held, and what they may be.

    Attributes
    ----------
    kind
        The kind of task.
    words
        What a label is, in a few words, for messages.
    labels, predictions
        Return labels or predictions as they are held, shape (n,); raise a ValueError if one cannot be.
    has_classes
        Whether labels are class numbers: draws are then stratified by them, and a prediction may have class scores.
    has_class_names
        Whether the classes mean the same in every example, so that they have names.
    has_choices
        Whether each example has choices of its own, of which the label is one.
    has_numbers
        Whether labels are numbers that are more or less than others.
    has_tags
        Whether a label is a list of tags, one per token.
    """

    kind: str
    words: str
    labels: Callable[[Any], Array]
    predictions: Callable[[Any], Array]
    has_classes: bool = False
    has_class_names: bool = False
    has_choices: bool = False
    has_numbers: bool = False
    has_tags: bool = False


def form_of(kind: str) -> Form:
    """Return the form of a kind of task; that of a classification if the kind is unknown."""
    return FORMS.get(kind, CLASSES)


def _held(
    label: Callable[[Any], str], prediction: Callable[[Any], str]
) -> tuple[Callable[[Any], Array], Callable[[Any], Array]]:
    """Return what holds labels, and predictions, from what holds one of them."""
    return partial(_each, what="label", held=label), partial(_each, what="prediction", held=prediction)


def _each(values: Any, what: str, held: Callable[[Any], str]) -> Array:
    """Return values as they are held; what cannot be is named by its place and type, and not shown: it may be private.

    Lists of numpy and rows of unequal length are sequences like any other.
    """
    entries = values.tolist() if isinstance(values, np.ndarray) else values
    if isinstance(entries, str | Mapping) or not isinstance(entries, Sequence):
        raise ValueError(f"{what}s must be a list with one entry per example, got {type(values).__name__}")
    forms = np.empty(len(entries), dtype=object)
    for place, value in enumerate(entries):
        try:
            forms[place] = held(value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{what} {place} {error}") from None
    return forms


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, and is of type {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("is not valid Unicode text") from None
    return str(value)


def _reference(value: Any) -> str:
    """Return one reference, or several as JSON."""
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("is empty, and a label must be a text")
        return _text(value)
    texts = list(map(_text, _members(value, "must be a text, or a list of texts that are all right")))
    if not texts or not all(each.strip() for each in texts):
        raise ValueError("holds no text, or an empty one")
    return texts[0] if len(texts) == 1 else _json(texts)


def _tags(value: Any) -> str:
    wanted = "must be a list of tags"
    return _json(_names(_parsed(value, wanted), wanted))


def _ranking(value: Any) -> str:
    return _json(_ids(_parsed(value, "must be a list of ids, best first")))


def _relevant(value: Any) -> str:
    """Return a list of relevant ids, or gains by id."""
    parsed = _parsed(value, "must be a list of relevant ids, or map ids to gains")
    if not isinstance(parsed, Mapping):
        ids = _ids(parsed)
        if not ids:
            raise ValueError("names no relevant id")
        return _json(ids)
    gains = dict(zip(_ids(list(parsed)), parsed.values(), strict=True))
    for gain in gains.values():
        if isinstance(gain, bool) or not isinstance(gain, int | float) or not math.isfinite(gain) or gain < 0:
            raise ValueError("has a gain that is not a finite number of 0 or above")
    if not any(gains.values()):
        raise ValueError("names no id with a gain above 0")
    return _json(gains)


def _ids(value: Any) -> list[str]:
    ids = _names(value, "must be a list of ids, best first")
    if len(set(ids)) < len(ids):
        raise ValueError("has an id twice")
    return ids


def _names(value: Any, wanted: str) -> list[str]:
    """Return the texts in a list; whole numbers become such."""
    return [_text(str(each) if _whole(each) else each) for each in _members(value, wanted)]


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _parsed(value: Any, wanted: str) -> Any:
    """Return what a JSON text holds; what is not a text comes back."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(f"{wanted}, also written as JSON, and is another text") from None


def _members(value: Any, wanted: str) -> list[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise ValueError(f"{wanted}, and is of type {type(value).__name__}")
    return list(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def check_tags(labels: Array, predictions: Array) -> None:
    """Raise a ValueError if no text has as many predicted tags as tokens: the tags are then of other tokens."""
    sizes = [(len(json.loads(label)), len(json.loads(tags))) for label, tags in zip(labels, predictions, strict=True)]
    if sizes and all(tokens != tags for tokens, tags in sizes):
        each = f"in every text, {sizes[0][1]} for {sizes[0][0]} in the first"
        raise ValueError(f"another number of tags than tokens {each}; give one tag per token (labels are JSON lists)")


def class_numbers(values: npt.ArrayLike, what: str, lowest: int) -> Numbers:
    """Return class numbers as int64.

    Parameters
    ----------
    values
        Shape (n,).
    what
        What they are, for the message.
    lowest
        The smallest number that is allowed.

    Raises
    ------
    ValueError
        If they have not one axis, are not whole numbers, or one is below `lowest`.
    """
    array: npt.NDArray[Any] = np.asarray(values)
    whole = array.dtype.kind in "iub" or (array.dtype.kind == "f" and bool((array == np.trunc(array)).all()))
    if array.ndim != 1 or not (whole or not array.size):
        raise ValueError(f"{what} must be one axis of whole class numbers, got shape {array.shape} of {array.dtype}")
    numbers: Numbers = array.astype(np.int64, copy=False)
    if numbers.size and int(numbers.min()) < lowest:
        raise ValueError(f"{what} must be {lowest} or above, got {int(numbers.min())}")
    return numbers


def numbers(values: npt.ArrayLike, what: str) -> Floats:
    """Return numbers as a copy in float64.

    Parameters
    ----------
    values
        Shape (n,).
    what
        What they are, for the message.

    Raises
    ------
    ValueError
        If they have not one axis, or something is not a finite number.
    """
    array: npt.NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise ValueError(f"{what} must be one axis of numbers, got shape {array.shape} of {array.dtype}")
    copied: Floats = array.astype(np.float64)
    if not np.isfinite(copied).all():
        raise ValueError(f"{what} must be finite, {int((~np.isfinite(copied)).sum())} are not")
    return copied


CLASSES: Final = Form(
    "classification",
    "class numbers",
    partial(class_numbers, what="labels", lowest=0),
    partial(class_numbers, what="predictions", lowest=UNPARSED),
    has_classes=True,
    has_class_names=True,
)
"""Whole numbers, int64; a prediction of -1 names no class."""
FORMS: Final = {
    form.kind: form
    for form in (
        CLASSES,
        replace(CLASSES, kind="multiple_choice", has_class_names=False, has_choices=True),
        Form(
            "regression",
            "finite numbers",
            partial(numbers, what="labels"),
            partial(numbers, what="predictions"),
            has_numbers=True,
        ),
        Form("generation", "texts", *_held(_reference, _text)),
        Form("tagging", "lists of tags", *_held(_tags, _tags), has_tags=True),
        Form("ranking", "rankings", *_held(_relevant, _ranking)),
    )
}
"""Kind of task -> its form. Numbers are float64. All else is texts, dtype object: a label of a text is one reference,
or the JSON list of several of which each is right; tags are the JSON list of those of the tokens of a text; a ranking
is the JSON list of ids, best first, and its label maps ids to gains, or lists the relevant ones. Ids are texts, whole
numbers become such."""
