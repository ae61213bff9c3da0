"""A session of any way of training: labels and losses by kind of task, epochs of cells side by side, their outcomes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.base import answered
from mlflow_l3d.approaches.chunks import StackedSession
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.approaches.finetuning.training import C, DivergedError, Progress, learning_rates, redrawn, validate
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.metrics.regression import PEARSON
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray


def outputs(task: Task) -> int:
    """Return how many numbers the head gives for one text: a class each, or one (a score, also that of a choice)."""
    return len(task.class_names) if task.form.has_class_names else 1


def wanted(task: Task, positions: IntArray, device: str) -> torch.Tensor:
    """Return the labels of some examples, in their shape: int64 of classes and choices, float32 of scores."""
    labels = torch.from_numpy(task.labels[positions])
    return (labels.float() if task.form.has_numbers else labels).to(device)


def unit_of(task: Task, positions: IntArray) -> tuple[float, float]:
    """Return the mean and the standard deviation of the scores of some examples; 0 and 1 of classes and choices.

    Equal scores have the standard deviation 1, so that it can be divided by.
    """
    if not task.form.has_numbers:
        return 0.0, 1.0
    labels = task.labels[positions]
    return float(labels.mean()), float(labels.std()) or 1.0


def loss_of(logits: torch.Tensor, labels: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Return the mean loss of a batch; without a reduction that of each example, shape (b,).

    Parameters
    ----------
    logits
        Shape (b, C): of classes, or of the choices of each example; (b, 1) for a regression.
    labels
        Shape (b,), of :func:`wanted`: cross-entropy if they are whole numbers, else the squared error.
    reduction
        ``mean`` or ``none``.
    """
    if labels.is_floating_point():
        return torch.nn.functional.mse_loss(logits[:, 0].to(labels.dtype), labels, reduction=reduction)
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction=reduction)


def losses_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of each of B batches, shape (B,), of logits (B, b, C) and labels (B, b)."""
    if len(logits) == 1:
        return loss_of(logits.flatten(0, 1), labels.flatten())[None]
    return loss_of(logits.flatten(0, 1), labels.flatten(), "none").view(labels.shape).mean(1)


class RowWeights:
    """The weights of cells side by side, in tensors of which each cell has a row.

    Parameters
    ----------
    tensors
        Shapes (B, *).
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors, self._best = tensors, [list[torch.Tensor]()] * len(tensors[0])

    def row(self, place: int) -> list[torch.Tensor]:
        """Return a copy of a row of each weight."""
        return [tensor.detach()[place].clone() for tensor in self.tensors]

    def keep(self, place: int, averaged: int = 1) -> None:
        """Remember the weights of the cell in a row as they are now.

        Or their mean with those that were kept before, if these and the ones before them are `averaged` in all.
        """
        if averaged > 1:
            torch._foreach_lerp_(self._best[place], self.row(place), 1 / averaged)
        else:
            self._best[place] = self.row(place)

    def end(self, place: int, *, best: bool) -> tuple[torch.Tensor, ...]:
        """Return the final weights of the cell in a row: what was kept, if that is the best, or what it has now."""
        return tuple(self._best[place] if best else self.row(place))

    def select(self, places: npt.NDArray[np.intp]) -> None:
        """Go on with some of the rows, in their order."""
        self._best = [self._best[place] for place in places]


class CourseSession(StackedSession[C]):
    """Cells whose parts are equally large are trained side by side.

    Parameters
    ----------
    task, device
        See :class:`~mlflow_l3d.approaches.chunks.StackedSession`.
    recipe
        Complete hyperparameters.

    Raises
    ------
    ParameterError
        If a hyperparameter needs a validation part, and there is none.
    """

    truncated_share = 0.0
    """Share of the examples, of training and test, that have more tokens than `max_length`."""
    need_validation: tuple[str, ...] = ("restarts",)
    """Hyperparameters that need a validation part if they are not 0 or at their defaults."""

    def __init__(self, task: Task, recipe: Recipe, device: str) -> None:
        super().__init__(task, device)
        self.recipe = recipe
        if len(task.first_split.validation):
            return
        for name in self.need_validation:
            value = getattr(recipe, name)
            if value not in (0, HYPERPARAMETERS[name].default):
                fix = "Leave it out (the last epoch counts), or hold examples out with validation_fraction."
                raise ParameterError(
                    f"hyperparameters.{name}", value, "needs a validation part, and there is none", fix
                )

    def progress(self) -> Progress:
        """Return the course of a training that has not begun."""
        return Progress(self.recipe, metric=PEARSON if self.task.form.has_numbers else F1_MACRO)

    @abstractmethod
    def trained(self, courses: Sequence[C]) -> Sequence[torch.Tensor | DivergedError]:
        """Train cells; return the logits of the test examples of each, (n, C) on the CPU, or how it diverged."""

    @abstractmethod
    def epoch(
        self, courses: Sequence[C], number: int, order: IntArray, weights: Any, rates: Sequence[float]
    ) -> list[float]:
        """Visit the training examples of cells in an order, (B, n); return each cell's mean loss of an example."""

    @abstractmethod
    def logits(self, parts: Sequence[IntArray], courses: Sequence[C], weights: Any = None, /) -> list[torch.Tensor]:
        """Return the logits of a part of the examples of each cell, shape (n, C) each, on the CPU, without dropout.

        The weights in training decide them, or, without any, the `best` of each course.
        """

    def fit(self, courses: Sequence[C], weights: Any) -> None:
        """Train; each course that did not diverge has its `best` weights afterwards, or the model has them.

        A cell that is done, is told to end, or whose loss is not finite, leaves the weights; the others continue.
        """
        recipe, running = self.recipe, list(courses)
        steps = -(-len(courses[0].split.train) // (recipe.batch_size * recipe.gradient_accumulation))
        rates = learning_rates(recipe, recipe.epochs * steps)
        for epoch in range(recipe.epochs):
            order = np.stack([course.order(epoch) for course in running])
            losses = self.epoch(running, epoch, order, weights, rates[epoch * steps : (epoch + 1) * steps])
            validated = self.logits([course.split.validation for course in running], running, weights)
            going = []
            for place, (course, loss, logits) in enumerate(zip(running, losses, validated, strict=True)):
                labels = self.task.labels[course.split.validation]
                better, goes_on = course.note(logits, labels, loss, self.on_epoch_end)
                going.append(goes_on and epoch + 1 < recipe.epochs)
                averaged = 0 if course.diverged else course.progress.averaged
                if averaged:
                    weights.keep(place, averaged)
                elif going[-1] and better and recipe.selection == "best" and len(labels):
                    weights.keep(place)
                if not going[-1] and course.diverged is None:
                    course.best = weights.end(
                        place, best=averaged > 0 or course.progress.chosen + 1 < len(course.progress.f1)
                    )
            places = np.flatnonzero(going)
            if not len(places):
                return
            if len(places) < len(running):
                weights.select(places)
                running = [running[place] for place in places]

    def tested(self, courses: Sequence[C]) -> list[torch.Tensor | DivergedError]:
        """Return the logits of the test examples of each cell, or how it diverged.

        Of averaged weights the validation score is noted, too.
        """
        ended = [course for course in courses if course.diverged is None]
        if ended and (self.recipe.average_last or self.recipe.soup > 1):
            validated = self.logits([course.split.validation for course in ended], ended)
            for course, logits in zip(ended, validated, strict=True):
                course.progress.average = validate(logits, self.task.labels[course.split.validation])
        tested = iter(self.logits([course.split.test for course in ended], ended) if ended else [])
        return [course.diverged or next(tested) for course in courses]

    def together(self, drawn: Sequence[C]) -> list[tuple[Outcome, float]]:
        """Return the outcomes; the work of a cell is the number of epochs that it was trained.

        Nobody is called after the epochs of a training that began again.
        """
        outcomes: dict[str, Outcome] = {}
        work = dict.fromkeys((course.cell.key for course in drawn), 0)
        waiting = list(drawn)
        for attempt in range(1 + self.recipe.restarts):
            # Splits of our own tasks are stratified and equally large; those of a stranger's task need not be.
            for sizes in sorted({course.sizes for course in waiting}):
                same = [course for course in waiting if course.sizes == sizes]
                for course, logits in zip(same, self.trained(same), strict=True):
                    key = course.cell.key
                    more = {"restarts": float(attempt)} if self.recipe.restarts else {}
                    outcomes[key] = self._outcome(course, logits, more)
                    work[key] += len(course.progress.f1) + (course.diverged is not None)
            if attempt < self.recipe.restarts:
                waiting = [self.draw(redrawn(each.cell, "restart")) for each in waiting if each.collapsed(self.task)]
            for course in waiting:
                course.is_heard = False
        return [(outcomes[course.cell.key], work[course.cell.key]) for course in drawn]

    def _outcome(self, own: C, logits: torch.Tensor | DivergedError, more: Mapping[str, float]) -> Outcome:
        """Return the outcome of a cell, without its wall clock.

        Of a regression, whose logits have one column, predictions are float64 and there are no scores.
        """
        if isinstance(logits, DivergedError):
            return failed(own.cell.key, logits)
        if not bool(torch.isfinite(logits).all()):
            why = "the scores of the test examples are nan or inf. Use a lower learning rate."
            return failed(own.cell.key, L3DError(why))
        predictions, scores = logits[:, 0].double().numpy(), None
        if self.task.form.has_classes:
            predictions = logits.argmax(1).numpy().astype(np.int64)
            scores = torch.softmax(logits.float(), 1).numpy()
        cut = {"truncated_share": self.truncated_share} if self.truncated_share else {}
        course = {"metrics": {**own.progress.metrics, **more, **cut}, "curves": own.progress.curves}
        return answered(own.cell.key, self.task, own.split.test, predictions, scores, **course)
