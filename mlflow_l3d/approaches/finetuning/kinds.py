"""What a kind of task means for training: outputs, loss, scores."""

from __future__ import annotations

import torch

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.metrics.regression import PEARSON
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray


def outputs(task: Task) -> int:
    """Return how many numbers the head gives for one text: a class each, or one (a score, also that of a choice)."""
    return len(task.class_names) if task.kind == "classification" else 1


def stopping_metric(task: Task) -> Metric:
    """Return the metric that decides the best epoch, on the validation part."""
    return PEARSON if task.kind == "regression" else F1_MACRO


def wanted(task: Task, positions: IntArray, device: str) -> torch.Tensor:
    """Return the labels of some examples, in their shape: int64 of classes and choices, float32 of scores."""
    labels = torch.from_numpy(task.labels[positions])
    return (labels.float() if task.kind == "regression" else labels).to(device)


def unit_of(task: Task, positions: IntArray) -> tuple[float, float]:
    """Return the mean and the standard deviation of the scores of some examples; 0 and 1 of classes and choices.

    Equal scores have the standard deviation 1, so that it can be divided by.
    """
    if task.kind != "regression":
        return 0.0, 1.0
    labels = task.labels[positions]
    return float(labels.mean()), float(labels.std()) or 1.0


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of a batch.

    Parameters
    ----------
    logits
        Shape (b, C): of classes, or of the choices of each example; (b, 1) for a regression.
    labels
        Shape (b,), of :func:`wanted`: cross-entropy if they are whole numbers, else the squared error.
    """
    if labels.is_floating_point():
        return torch.nn.functional.mse_loss(logits[:, 0].to(labels.dtype), labels)
    return torch.nn.functional.cross_entropy(logits.float(), labels)


def losses_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of each of B batches, shape (B,), of logits (B, b, C) and labels (B, b)."""
    if len(logits) == 1:
        return loss_of(logits.flatten(0, 1), labels.flatten())[None]
    if labels.is_floating_point():
        return (logits[:, :, 0].to(labels.dtype) - labels).square().mean(1)
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="none")
    return each.view(labels.shape).mean(1)
