"""Watching a training: scores on the validation part after every epoch, and the wish that it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.metrics.known import of_kind, score
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
    of_all = of_kind("classification", secondary=False)
    return {f"validation_{metric.name}": score(metric, labels, predictions, classes) for metric in of_all}
