"""Scores of one set of predictions."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

UNPARSED: Final = -1
"""The prediction of an answer that names no class."""
DENSE_CLASSES: Final = 256
"""Class numbers up to this are counted as they are; larger ones are renumbered first."""


def classification_metrics(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> dict[str, float]:
    """Return the scores of predicted classes against the true ones.

    Parameters
    ----------
    labels
        Shape (n,): true class numbers, 0 or above.
    predictions
        Shape (n,): predicted class numbers; -1 is an answer that names no class.

    Returns
    -------
    dict
        ``f1_macro``, ``precision_macro``, ``recall_macro``, ``accuracy`` and ``matthews_corrcoef``, as fractions (the
        last in [-1, 1]). They equal scikit-learn's. A prediction of -1 is wrong. It is no class of its own in the macro
        averages, which are over the classes that occur among labels or predictions; in the correlation it is an answer
        that is never true. Where the correlation is not defined (one class only), it is 0, and so are the precision of
        a class that is never predicted and the recall of one that never occurs.

    Raises
    ------
    ValueError
        If the arrays are empty, differ in length, hold anything but whole numbers, or class numbers that are too small.
    """
    truth, guess = class_numbers(labels, "labels", 0), class_numbers(predictions, "predictions", UNPARSED)
    if len(truth) != len(guess) or not len(truth):
        msg = f"labels and predictions must be equally many, at least one, got {len(truth)} and {len(guess)}"
        raise ValueError(msg)
    truth, guess, classes = _renumbered(truth, guess)
    counts = np.bincount(truth * (classes + 1) + guess + 1, minlength=classes * (classes + 1))
    confusion = counts.reshape(classes, classes + 1)
    support = confusion.sum(axis=1)
    answered = confusion.sum(axis=0)
    predicted = answered[1:]
    right = np.diagonal(confusion, offset=1)
    present = support + predicted
    seen = present > 0
    total, hits = len(truth), int(right.sum())
    return {
        "f1_macro": float((2 * right[seen] / present[seen]).mean()),
        "precision_macro": float((right / np.maximum(predicted, 1))[seen].mean()),
        "recall_macro": float((right / np.maximum(support, 1))[seen].mean()),
        "accuracy": hits / total,
        "matthews_corrcoef": _correlation(total, hits, support, predicted, int(answered[0])),
    }


def class_numbers(values: npt.ArrayLike, what: str, lowest: int) -> npt.NDArray[np.int64]:
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
    given: npt.NDArray[Any] = np.asarray(values)
    whole = given.dtype.kind in "iub" or (given.dtype.kind == "f" and bool((given == np.trunc(given)).all()))
    if given.ndim != 1 or not (whole or not given.size):
        msg = f"{what} must be one axis of whole class numbers, got shape {given.shape} of {given.dtype}"
        raise ValueError(msg)
    numbers: npt.NDArray[np.int64] = given.astype(np.int64, copy=False)
    if numbers.size and int(numbers.min()) < lowest:
        msg = f"{what} must be {lowest} or above, got {int(numbers.min())}"
        raise ValueError(msg)
    return numbers


def _renumbered(
    truth: npt.NDArray[np.int64], guess: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return labels and predictions with the number of classes to count, at most one more than there are values."""
    classes = int(max(truth.max(), guess.max())) + 1
    if classes <= DENSE_CLASSES:
        return truth, guess, classes
    known = np.unique(np.concatenate((truth, guess[guess != UNPARSED])))
    place = np.where(guess == UNPARSED, UNPARSED, np.searchsorted(known, guess))
    return np.searchsorted(known, truth), place, len(known)


def _correlation(
    total: int, hits: int, support: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64], unparsed: int
) -> float:
    """Return Matthews' correlation coefficient for any number of classes (Gorodkin 2004), 0 where undefined."""
    truth_spread = total**2 - int(support @ support)
    guess_spread = total**2 - int(predicted @ predicted) - unparsed**2
    if truth_spread == 0 or guess_spread == 0:
        return 0.0
    return (hits * total - int(support @ predicted)) / math.sqrt(truth_spread * guess_spread)
