"""Adaptation with gradient descent, and prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_l3d.approaches.meta_learning.learners.base import Buffers
from mlflow_l3d.approaches.meta_learning.learners.inner import descend, one_hot, per_task
from mlflow_l3d.approaches.stacked.stack import Stack

if TYPE_CHECKING:
    import torch


def adapted(
    stack: Stack, x_s: torch.Tensor, labels_s: torch.Tensor, x: torch.Tensor, learning_rate: float, steps: int
) -> torch.Tensor:
    """Return the logits of `x` after gradient steps on the adaptation sets.

    Parameters
    ----------
    stack, x_s, labels_s, x
        See :meth:`~mlflow_l3d.approaches.meta_learning.learners.base.Learner.adapted_logits`.
    learning_rate, steps
        Of the base optimiser.
    """
    import torch

    with torch.inference_mode():
        if steps == 0:
            return predict(stack.w1, *per_task(stack.w2, 1, Buffers()), x)
        targets = one_hot(labels_s, stack.classes, x_s)
        gram = torch.bmm(x_s, x_s.transpose(1, 2)) if steps > 1 else None
        layer, buffers = per_task(stack.w2, 1, Buffers()), Buffers()
        path = descend(torch.bmm(x_s, stack.w1), gram, targets, None, *layer, learning_rate, steps, buffers)
        w1 = torch.baddbmm(stack.w1, x_s.transpose(1, 2), path.total, alpha=-learning_rate)
        return predict(w1, path.weights[-1], path.biases[-1], x)


def predict(w1: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return logits (B, n, C) of rows (B, n, D + 1) with layers (B, D + 1, H), (B, C, H) and (B, 1, C)."""
    import torch

    return torch.baddbmm(biases, torch.bmm(x, w1).clamp_min_(0), weights.transpose(1, 2))
