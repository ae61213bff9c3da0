"""Meta-learning of many cells a call, and the outcome of each, whether its numbers stayed finite or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from mlflow_l3d.approaches.base import answered, should_stop
from mlflow_l3d.approaches.meta_learning.algorithms import Maml, Reptile
from mlflow_l3d.approaches.meta_learning.chunk import Draws, Trained, train
from mlflow_l3d.approaches.meta_learning.learner import Learner, ProtoNet
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.shots import chosen_classes
from mlflow_l3d.approaches.stacked.chunks import StackedSession, cells_at_once
from mlflow_l3d.approaches.stacked.stack import FloatArray
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.metrics.numerical import f1_macro
from mlflow_l3d.tasks.base import Task


def learner_of(settings: Recipe) -> Learner:
    """Return the learner that complete hyperparameters describe."""
    return {"protonet": ProtoNet, "reptile": Reptile}.get(settings.learner, Maml)(settings)


def outcome_of(draws: Draws, trained: Trained, task: Task, classes: Sequence[int]) -> Outcome:
    """Return the outcome of one cell, without its wall clock.

    A cell whose loss, or whose logits after adaptation, are not finite has **diverged**. Its weights are then nan, and
    nothing is left that could predict; argmax over such logits names the first class for every example, in every
    framework. This outcome is recorded: uniform scores and the first class, a score below chance, which counts as
    collapsed. To go back to the last weights that were finite would be a rule of early stopping that the methods do not
    have, and would hide an unstable setting behind a passable score; to make it an error would take the worst runs out
    of the spread that is measured.

    Parameters
    ----------
    draws
        What the factors decided.
    trained
        What its training left.
    task, classes
        The data, and the numbers of the C classes.

    Returns
    -------
    Outcome
        Metrics: `train_loss`, the mean of the last epoch (of a diverged cell the last finite loss, left out if there is
        none); `diverged_step`, the first meta-step, counted from 1, whose loss is not finite, steps + 1 if only the
        adaptation diverged, 0 for none; if there are validation examples, `validation_f1_macro` and
        `validation_loss`. Curve `train_loss`: the mean of every epoch that stayed finite.
    """
    losses, test, validation = trained.losses, trained.test, trained.validation
    diverged = diverged_step(losses, test, validation)
    if diverged:
        test, validation = np.zeros_like(test), np.zeros_like(validation)
    numbers = np.asarray(classes, dtype=np.int64)
    scores = np.zeros((len(test), len(task.class_names)), dtype=np.float32)
    scores[:, numbers] = np.exp(log_softmax(test.astype(np.float64), axis=1))
    epochs = losses.mean(axis=1)
    metrics = {"diverged_step": float(diverged)}
    if diverged != 1:
        metrics["train_loss"] = float(losses.reshape(-1)[diverged - 2] if diverged else epochs[-1])
    if len(validation):
        places = np.searchsorted(numbers, task.labels[draws.split.validation])
        log_likelihoods = log_softmax(validation.astype(np.float64), axis=1)
        metrics["validation_f1_macro"] = f1_macro(places, validation.argmax(axis=1), len(numbers))
        metrics["validation_loss"] = float(-log_likelihoods[np.arange(len(places)), places].mean())
    curves = {"train_loss": epochs[np.isfinite(epochs)].tolist()}
    predicted = numbers[test.argmax(axis=1)]
    return answered(draws.cell.key, task, draws.split.test, predicted, scores, metrics=metrics, curves=curves)


def diverged_step(losses: npt.NDArray[np.float64], *logits: FloatArray) -> int:
    """Return the first step (from 1) whose loss is not finite; steps + 1 if only logits are not; 0 for none."""
    wrong = np.flatnonzero(~np.isfinite(losses.reshape(-1)))
    if len(wrong):
        return int(wrong[0]) + 1
    return 0 if all(np.isfinite(part).all() for part in logits) else losses.size + 1


class MetaSession(StackedSession[Draws]):
    """Train and evaluate cells, a chunk at a time; see :class:`~mlflow_l3d.approaches.stacked.chunks.StackedSession`.

    Parameters
    ----------
    task, device
        See :class:`~mlflow_l3d.approaches.stacked.chunks.StackedSession`.
    features
        Shape (n, D), float32, one row per example; may be memory-mapped.
    recipe
        Complete hyperparameters.
    """

    def __init__(self, task: Task, features: FloatArray, recipe: Recipe, device: str) -> None:
        super().__init__(task, device)
        self.features, self.recipe = features, recipe
        self.classes = chosen_classes(recipe.classes, task.class_names)
        self.learner = learner_of(recipe)
        inputs, classes, hidden = features.shape[1], len(self.classes), recipe.hidden_units
        examples = classes * (recipe.shots + recipe.queries)
        step = self.learner.bytes_per_cell(inputs, hidden, classes, recipe.tasks, examples)
        evaluated = len(task.split(dict.fromkeys(TASK_FACTORS, 0)).test)
        self.cells_at_once = cells_at_once(step, 4.0 * evaluated * (2 * inputs + 2 * hidden), device)

    def draw(self, cell: Cell) -> Draws:
        """Return what the factors decide for one cell."""
        return Draws.of(cell, self.task, self.classes, self.recipe, self.features.shape[1])

    def together(self, drawn: Sequence[Draws]) -> list[tuple[Outcome, float]]:
        """Return the outcomes; the work of a cell is the number of epochs that it was trained."""
        tell = None if self.on_epoch_end is None else self._told
        trained = train(drawn, self.learner, self.features, self.device, tell)
        pairs = zip(drawn, trained, strict=True)
        return [(outcome_of(draws, left, self.task, self.classes), len(left.losses)) for draws, left in pairs]

    def _told(self, own: Draws, epoch: int, validation: FloatArray) -> bool:
        labels = np.searchsorted(self.classes, self.task.labels[own.split.validation])
        return should_stop(self.on_epoch_end, own.cell.key, epoch, validation, labels)
