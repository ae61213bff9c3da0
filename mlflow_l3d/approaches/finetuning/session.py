"""What both ways of training share: the outcome of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlflow_l3d.approaches.finetuning.kinds import predictions
from mlflow_l3d.approaches.finetuning.training import Progress
from mlflow_l3d.errors import L3DError
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Trained:
    """What a training leaves: its course, and the logits of the test examples, shape (n, C), on the CPU.

    C counts classes or choices; it is 1 for a regression.
    """

    progress: Progress
    logits: torch.Tensor


def outcome_of(key: str, task: Task, split: Split, trained: Trained) -> Outcome:
    """Return the outcome of the cell with this key, without its wall clock.

    Raises
    ------
    L3DError
        If a logit is not finite.
    """
    import torch

    if not bool(torch.isfinite(trained.logits).all()):
        raise L3DError("the scores of the test examples are nan or inf. Use a lower learning rate.")
    predicted, scores = predictions(task, trained.logits)
    return Outcome(
        key=key,
        example_ids=task.example_ids[split.test],
        labels=task.labels[split.test],
        predictions=predicted,
        scores=scores,
        metrics=trained.progress.metrics,
        curves=trained.progress.curves,
    )
