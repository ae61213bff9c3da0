"""Scores of predicted classes, and why nothing could be read from answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.base import Metric, fraction, mean_of

if TYPE_CHECKING:
    import pandas as pd

UNPARSED: Final = -1
"""The prediction of an answer that names no class."""
DENSE_CLASSES: Final = 256
"""Class numbers up to this are counted as they are; larger ones are renumbered first."""

Numbers = npt.NDArray[np.int64]


def hardly_tested(tested: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which classes have fewer than 5 test examples, and less than a quarter of an even share; shapes (C,)."""
    few: npt.NDArray[np.bool_] = tested < min(5, tested.sum() / len(tested) / 4)
    return few


class _Counts(NamedTuple):
    """How often each class is right, true and predicted, shape (C,); and how many predictions name no class."""

    right: Numbers
    support: Numbers
    predicted: Numbers
    unparsed: int

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Which classes occur among labels or predictions."""
        return self.support + self.predicted > 0


def _count(labels: Numbers, predictions: Numbers, classes: int = 0) -> _Counts:
    """Count class by class; of `classes` classes where they are more than those that occur."""
    classes = max(classes, int(max(labels.max(), predictions.max())) + 1)
    if classes > DENSE_CLASSES:
        occurring_classes = np.unique(np.concatenate((labels, predictions[predictions != UNPARSED])))
        predictions = np.where(predictions == UNPARSED, UNPARSED, np.searchsorted(occurring_classes, predictions))
        labels = np.searchsorted(occurring_classes, labels)
        classes = len(occurring_classes)
    counts = np.bincount(labels * (classes + 1) + predictions + 1, minlength=classes * (classes + 1))
    table = counts.reshape(classes, classes + 1)
    answered = table.sum(axis=0)
    return _Counts(np.diagonal(table, offset=1), table.sum(axis=1), answered[1:], int(answered[0]))


def occurring(*arrays: Numbers) -> int:
    """Return how many classes occur in labels and predictions of any shape; -1 is none."""
    return len(np.setdiff1d(np.concatenate([array.ravel() for array in arrays]), [UNPARSED]))


def f1_macro(labels: Numbers, predictions: Numbers, classes: int | None = None) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN), in [0, 1]; nan where n is 0.

    Parameters
    ----------
    labels, predictions
        Shape (n,): class numbers, -1 among the predictions for an answer that names no class.
    classes
        How many classes are distinguished: one that does not occur counts 0, as with ``labels=`` and
        ``zero_division=0`` of scikit-learn. None takes the mean over the classes that occur among labels or
        predictions.
    """
    if not len(labels):
        return math.nan
    counts = _count(labels, predictions, classes or 0)
    return _mean(2 * counts.right / np.maximum(counts.support + counts.predicted, 1), counts, classes)


def f1_macro_of_many(labels: Numbers, predictions: Numbers, classes: int) -> npt.NDArray[np.float64]:
    """Return :func:`f1_macro` of each row of predictions, shape (m, n): shape (m,)."""
    width = max(classes, int(max(labels.max(), predictions.max())) + 1) + 1
    rows = np.arange(len(predictions))[:, None] * width
    codes = predictions + 1 + rows
    predicted, right = (
        np.bincount(each.ravel(), minlength=rows.size * width).reshape(-1, width)[:, 1:]
        for each in (codes, codes[predictions == labels])
    )
    both = predicted + np.bincount(labels + 1, minlength=width)[1:]
    each, seen = 2 * right / np.maximum(both, 1), (both > 0).sum(axis=1)
    means: npt.NDArray[np.float64] = each.sum(axis=1) / np.maximum(classes, seen)
    return means


def _f1_macro_published(labels: Numbers, predictions: Numbers) -> float:
    counts = _count(labels, predictions)
    seen = int(counts.seen.sum())
    return f1_macro(labels, predictions) * seen / (seen + (counts.unparsed > 0))


def _precision_macro(labels: Numbers, predictions: Numbers, classes: int | None = None) -> float:
    counts = _count(labels, predictions, classes or 0)
    return _mean(counts.right / np.maximum(counts.predicted, 1), counts, classes)


def _recall_macro(labels: Numbers, predictions: Numbers, classes: int | None = None) -> float:
    counts = _count(labels, predictions, classes or 0)
    return _mean(counts.right / np.maximum(counts.support, 1), counts, classes)


def _mean(each: npt.NDArray[np.float64], counts: _Counts, classes: int | None) -> float:
    """Return the mean of one number a class, shape (C,), over `classes` of them: 0 for those that do not occur."""
    seen = int(counts.seen.sum())
    return float(each[counts.seen].mean()) if classes is None else float(each.sum()) / max(classes, seen)


def _is_right(labels: Numbers, predictions: Numbers) -> npt.NDArray[np.float64]:
    right: npt.NDArray[np.float64] = (labels == predictions).astype(np.float64)
    return right


def _matthews_corrcoef(labels: Numbers, predictions: Numbers) -> float:
    """Matthews' correlation coefficient for any number of classes (Gorodkin 2004), 0 where undefined."""
    counts, total = _count(labels, predictions), len(labels)
    truth_spread = total**2 - int(counts.support @ counts.support)
    guess_spread = total**2 - int(counts.predicted @ counts.predicted) - counts.unparsed**2
    if truth_spread == 0 or guess_spread == 0:
        return 0.0
    shared = int(counts.right.sum()) * total - int(counts.support @ counts.predicted)
    return shared / math.sqrt(truth_spread * guess_spread)


def _even(classes: int) -> float:
    return 1 / classes


F1_MACRO: Final = fraction(
    "f1_macro",
    f1_macro,
    chance=_even,
    words="mean over the classes of the harmonic mean of precision and recall",
    of_classes=f1_macro,
    of_many=f1_macro_of_many,
)
METRICS: Final = (
    fraction("accuracy", mean_of(_is_right), chance=_even, words="share of right predictions", of_each=_is_right),
    *(
        fraction(name, mean, secondary=True, words=f"mean over the classes of the share of its {what}", of_classes=mean)
        for name, mean, what in (
            ("precision_macro", _precision_macro, "predictions that are right"),
            ("recall_macro", _recall_macro, "examples that are predicted right"),
        )
    ),
    F1_MACRO,
    Metric(
        "matthews_corrcoef",
        _matthews_corrcoef,
        range=(-1.0, 1.0),
        words="Matthews' correlation of labels and predictions, 0 where one side has one class only",
    ),
    fraction(
        "f1_macro_published",
        _f1_macro_published,
        chance=lambda classes: 1 / (classes + 1),
        words="F1 macro with one more class, of F1 0, where an answer names no class",
        opt_in=True,
    ),
)
"""Metrics of predicted classes. Each equals that of scikit-learn.

A prediction of -1 is wrong. It is not a class of its own in the macro averages, which are over the classes that are
distinguished (scikit-learn's ``labels=``); in the correlation it is an answer that is never true. The precision of a
class that is never predicted is 0, and so is the recall of one that never occurs.

`f1_macro_published` is what the code of Pecher et al. (2024) computes: ``f1_score(labels, predictions,
average="macro")`` of scikit-learn, to which -1 is a class like any other. One such answer multiplies the score of C
classes by C / (C + 1), and more of them by no more.
"""


REASONS: Final = {
    "thought": "end inside a thought (raise hyperparameter thought_tokens)",
    "cut": "are cut off at the token limit (raise hyperparameter max_new_tokens)",
    "empty": "are empty",
    "filtered": "were refused, or withheld by a filter of the server (content_filter)",
    "unlikely": "give class words less than 1 % of the probability, or list none (set decision=generate)",
    "other": "hold other text, or several answers",
}
"""What such answers do; ``unparsed_<reason>_share`` is their share of all answers, 0 if it is not recorded."""


def unparsed_reasons(cells: pd.DataFrame) -> str:
    """Return the shares of answers from which nothing could be read, by reason, the largest first.

    Parameters
    ----------
    cells
        One row per run, with the columns that it recorded.
    """
    names = {reason: f"unparsed_{reason}_share" for reason in REASONS}
    shares = {reason: cells[name].fillna(0.0).mean() for reason, name in names.items() if name in cells}
    ordered = sorted((reason for reason in shares if shares[reason] > 0), key=lambda reason: -shares[reason])
    return ", ".join(f"{100 * shares[reason]:.1f} % {REASONS[reason]}" for reason in ordered)
