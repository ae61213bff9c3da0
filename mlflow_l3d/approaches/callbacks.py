"""What a session says after an epoch: its scores on the validation part."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.base import OnEpochEnd
from mlflow_l3d.metrics.known import of_kind, score
from mlflow_l3d.tasks.settings import IntArray


def should_stop(
    on_epoch_end: OnEpochEnd | None,
    key: str,
    epoch: int,
    logits: torch.Tensor | npt.NDArray[np.floating],
    labels: npt.NDArray[Any],
) -> bool:
    """Call back after an epoch, if someone asked for it; return whether the training of this cell is to end.

    Parameters
    ----------
    on_epoch_end
        None if nobody asked.
    key, epoch
        See :data:`~mlflow_l3d.approaches.base.OnEpochEnd`.
    logits, labels
        Shapes (n, C), on the CPU, and (n,), of the validation part; there is no call for an empty one. Float labels
        belong to a regression, whose logits have one column.
    """
    if on_epoch_end is None or not len(labels):
        return False
    if labels.dtype.kind != "f":
        return on_epoch_end(key, epoch, validation_scores(labels, np.asarray(logits.argmax(1)), logits.shape[1]))
    predicted = np.asarray(logits[:, 0], dtype=np.float64)
    scores = {f"validation_{metric.name}": score(metric, labels, predicted) for metric in of_kind("regression")}
    return on_epoch_end(key, epoch, scores)


def validation_scores(labels: IntArray, predictions: npt.NDArray[np.int64], classes: int) -> dict[str, float]:
    """Return the scores of an epoch: ``validation_`` and the name of every metric that all approaches have.

    Parameters
    ----------
    labels, predictions
        Shape (n,), class numbers in ``[0, classes)``; n is positive.
    classes
        C.
    """
    of_all = of_kind("classification", secondary=False)
    return {f"validation_{metric.name}": score(metric, labels, predictions, classes) for metric in of_all}
