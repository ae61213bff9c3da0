"""Watching a training: scores on the validation part after every epoch, and the wish that it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.scores import f1_macro
from mlflow_l3d.tasks.base import IntArray

if TYPE_CHECKING:
    import torch

Watch: TypeAlias = Callable[[str, int, Mapping[str, float]], bool]
"""``watch(key, epoch, scores)``, called after every epoch of a cell: its key, the epoch counted from 0, and the names
and scores of :func:`validation_scores`, with others that the approach has. True asks for the end of its training."""


def told_to_end(
    watch: Watch | None, key: str, epoch: int, logits: torch.Tensor | npt.NDArray[np.floating], labels: IntArray
) -> bool:
    """Tell the watcher of an epoch, if there is one; return whether it wants the training of this cell to end.

    Parameters
    ----------
    watch
        None where nobody watches.
    key, epoch
        See :data:`Watch`.
    logits, labels
        Shapes (n, C), on the CPU, and (n,), of the validation part; nobody is told of an empty one.
    """
    if watch is None or not len(labels):
        return False
    return watch(key, epoch, validation_scores(labels, np.asarray(logits.argmax(1)), logits.shape[1]))


def validation_scores(labels: IntArray, predictions: npt.NDArray[np.int64], classes: int) -> dict[str, float]:
    """Return what a watcher sees of an epoch: ``validation_`` and the name of every metric that all approaches have.

    Parameters
    ----------
    labels, predictions
        Shape (n,), class numbers in ``[0, classes)``; n is positive.
    classes
        C.
    """
    right = labels == predictions
    return {
        "validation_f1_macro": f1_macro(labels, predictions, classes),
        "validation_accuracy": float(right.mean()),
        "validation_matthews_corrcoef": _correlation(labels, predictions, classes),
    }


def _correlation(labels: IntArray, predictions: npt.NDArray[np.int64], classes: int) -> float:
    """Return Matthews' correlation coefficient for C classes (Gorodkin 2004), 0 where one side has one class only."""
    n = len(labels)
    truth, guess = (np.bincount(side, minlength=classes) for side in (labels, predictions))
    truth_spread, guess_spread = (n * n - int(side @ side) for side in (truth, guess))
    if not truth_spread or not guess_spread:
        return 0.0
    hits = int((labels == predictions).sum())
    return float((hits * n - int(truth @ guess)) / (truth_spread * guess_spread) ** 0.5)
