"""What a kind of task means for training: outputs, loss, scores, and the parts of an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.finetuning.training import pearson
from mlflow_l3d.approaches.watching import Watch, told_to_end
from mlflow_l3d.tasks.base import IntArray, Task

if TYPE_CHECKING:
    import torch


def outputs(task: Task) -> int:
    """Return how many numbers the head gives for one text: a class each, or one (a score, also that of a choice)."""
    return len(task.class_names) if task.kind == "classification" else 1


def score_name(task: Task) -> str:
    """Return the validation score that decides the best epoch, under the name of its curve."""
    return "pearson" if task.kind == "regression" else "f1_macro"


def wanted(task: Task, positions: IntArray, device: str) -> torch.Tensor:
    """Return the labels of some examples, shape (b,): int64 of classes and choices, float32 of scores."""
    import torch

    labels = torch.from_numpy(task.labels[positions])
    return (labels.float() if task.kind == "regression" else labels).to(device)


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of a batch.

    Parameters
    ----------
    logits
        Shape (b, C): of classes, or of the choices of each example; (b, 1) for a regression.
    labels
        Shape (b,), of :func:`wanted`: cross-entropy where they are whole numbers, else the squared error.
    """
    import torch

    if labels.is_floating_point():
        return torch.nn.functional.mse_loss(logits[:, 0].float(), labels)
    return torch.nn.functional.cross_entropy(logits.float(), labels)


def predictions(task: Task, logits: torch.Tensor) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32] | None]:
    """Return predictions (n,), and the scores of classes or choices (n, C), from logits on the CPU.

    A regression has float64 predictions and no scores.
    """
    import torch

    if task.kind == "regression":
        return logits[:, 0].double().numpy(), None
    return logits.argmax(1).numpy().astype(np.int64), torch.softmax(logits.float(), 1).numpy()


def told(
    watch: Watch | None, key: str, epoch: int, logits: torch.Tensor, labels: npt.NDArray[Any], *, kind: str
) -> bool:
    """Tell the watcher of an epoch; of a regression Pearson's correlation and the mean squared error.

    See :func:`mlflow_l3d.approaches.watching.told_to_end`.
    """
    if kind != "regression":
        return told_to_end(watch, key, epoch, logits, labels)
    if watch is None or not len(labels):
        return False
    scores = logits[:, 0].double().numpy()
    found = {
        "validation_pearson": pearson(labels, scores),
        "validation_mse": float(np.mean((scores - labels) ** 2)),
        "validation_mae": float(np.mean(np.abs(scores - labels))),
    }
    return watch(key, epoch, found)
