"""What is recorded of a trained cell, whether its numbers stayed finite or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.meta_learning.chunk import Draws
from mlflow_l3d.approaches.stacked.draws import FloatArray
from mlflow_l3d.metrics.classification import f1_macro
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.tasks.base import Task


def outcome_of(
    draws: Draws,
    losses: npt.NDArray[np.float64],
    test: FloatArray,
    validation: FloatArray,
    task: Task,
    classes: Sequence[int],
) -> Outcome:
    """Return the outcome of one cell, without its wall clock.

    A cell whose loss, or whose logits after adaptation, are not finite has **diverged**. Its weights are then nan, and
    nothing is left that could predict; argmax over such logits names the first class for every example, in every
    framework. That is what is recorded: uniform scores and the first class, a score below chance, which counts as
    collapsed. To go back to the last weights that were finite would be a rule of early stopping that the methods do not
    have, and would hide an unstable setting behind a passable score; to make it an error would take the worst runs out
    of the spread that is measured.

    Parameters
    ----------
    draws
        What the factors decided.
    losses
        Shape (epochs, steps): loss of every meta-step.
    test, validation
        Shapes (n, C) and (v, C): logits.
    task, classes
        The data, and the numbers of the C classes.

    Returns
    -------
    Outcome
        Metrics: `train_loss`, the mean of the last epoch (of a diverged cell the last finite loss, left out if there is
        none); `diverged_step`, the first meta-step, counted from 1, whose loss is not finite, steps + 1 if only the
        adaptation diverged, 0 for none; where there are validation examples, `validation_f1_macro` and
        `validation_loss`. Curve `train_loss`: the mean of every epoch that stayed finite.
    """
    diverged = diverged_step(losses, test, validation)
    if diverged:
        test, validation = np.zeros_like(test), np.zeros_like(validation)
    labels, numbers = task.labels, np.asarray(classes, dtype=np.int64)
    scores = np.zeros((len(test), len(task.class_names)), dtype=np.float32)
    scores[:, numbers] = np.exp(_log_softmax(test))
    epochs = losses.mean(axis=1)
    metrics = {"diverged_step": float(diverged)}
    if not diverged:
        metrics["train_loss"] = float(epochs[-1])
    elif diverged > 1:
        metrics["train_loss"] = float(losses.reshape(-1)[diverged - 2])
    if len(validation):
        wanted = labels[draws.validation]
        places = np.searchsorted(numbers, wanted)
        predicted = validation.argmax(axis=1)
        metrics["validation_f1_macro"] = f1_macro(places, predicted, len(numbers))
        metrics["validation_loss"] = float(-_log_softmax(validation)[np.arange(len(places)), places].mean())
    return Outcome(
        key=draws.cell.key,
        example_ids=task.example_ids[draws.test],
        labels=labels[draws.test],
        predictions=numbers[test.argmax(axis=1)],
        scores=scores,
        metrics=metrics,
        curves={"train_loss": [float(value) for value in epochs if np.isfinite(value)]},
    )


def diverged_step(losses: npt.NDArray[np.float64], *logits: FloatArray) -> int:
    """Return the first step (from 1) whose loss is not finite; steps + 1 if only logits are not; 0 for none."""
    wrong = np.flatnonzero(~np.isfinite(losses.reshape(-1)))
    if len(wrong):
        return int(wrong[0]) + 1
    return 0 if all(np.isfinite(part).all() for part in logits) else losses.size + 1


def _log_softmax(logits: FloatArray) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    found: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return found
