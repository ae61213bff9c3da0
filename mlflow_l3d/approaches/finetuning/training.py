"""The course of one training, whatever is trained: its draws, the schedule, early stopping, and its outcome.

Batch order belongs to ``data_order``, dropout to ``model_randomness``, new weights to ``model_initialisation`` (of
the head: :mod:`mlflow_l3d.approaches.stack`). Each epoch has a stream of its own, so that no draw depends
on how many came before it: ``head_dropout`` in heads, ``lora_dropout`` before adapters, and ``dropout`` for the global
generator of a whole model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.base import OnEpochEnd, should_stop
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import TASK_FACTORS, stream, stream_seed
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import F1_MACRO, f1_macro
from mlflow_l3d.metrics.regression import pearson
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split

C = TypeVar("C", bound="Course")


def batch_order(seed: int, epoch: int, n: int) -> npt.NDArray[np.int64]:
    """Return the order of the n training examples in one epoch (0-based): shape (n,), a permutation.

    `seed` belongs to ``data_order``. Batches are consecutive pieces of it.
    """
    return stream(seed, "batch_order", str(epoch)).permutation(n)


def redrawn(cell: Cell, *purpose: str, kept: Collection[str] = TASK_FACTORS) -> Cell:
    """Return a cell with other draws in its training, derived from its own for a purpose; those of `kept` stay."""
    seeds = {name: seed if name in kept else stream_seed(seed, *purpose) for name, seed in cell.seeds.items()}
    return replace(cell, seeds=seeds)


class DivergedError(L3DError):
    """The training left the finite numbers."""

    def __init__(self, epoch: int, learning_rate: float) -> None:
        place = f"epoch {epoch} at learning_rate={learning_rate:g}"
        super().__init__(f"training diverged: nan or inf in {place}. Use a lower learning rate.")


def learning_rates(recipe: Recipe, steps: int) -> list[float]:
    """Return the learning rate of every step: up from 0 over the warm-up share, then down to 0, both linearly.

    Step t of n with w = ceil(share * n) warm-up steps has ``t / w`` of the highest rate, then ``(n - t) / (n - w)``, as
    ``transformers.get_linear_schedule_with_warmup``.
    """
    warmup = math.ceil(recipe.warmup_share * steps)
    return [
        recipe.learning_rate * (step / warmup if step < warmup else (steps - step) / max(1, steps - warmup))
        for step in range(steps)
    ]


def validate(logits: torch.Tensor, labels: npt.NDArray[Any]) -> tuple[float, float]:
    """Return F1 macro and mean cross-entropy of logits (v, C) on labels (v,); nan and nan if v is 0.

    Of scores, which have float labels and one column: Pearson's correlation and the mean squared error.
    """
    if not len(labels):
        return math.nan, math.nan
    if labels.dtype.kind == "f":
        scores = logits[:, 0].double().numpy()
        return pearson(labels, scores), float(np.mean((scores - labels) ** 2))
    predictions = logits.argmax(1).cpu().numpy()
    loss = torch.nn.functional.cross_entropy(logits.cpu(), torch.from_numpy(labels))
    return f1_macro(labels, predictions, logits.shape[1]), float(loss)


@dataclass
class Progress:
    """The course of one training, and the rule that picks its best epoch.

    The best epoch has the highest validation F1 macro, of equals the lowest validation loss, then the earliest
    (``early_stopping_metric=loss``: the lowest loss, then the earliest). Training stops after
    `early_stopping_patience` epochs in a row that are no better than the best; the weights of the best epoch are what
    is evaluated, or with ``selection=last`` those of the last, or with ``average_last`` or ``soup`` an average, whose
    validation score and loss are `average`. Without validation examples the last epoch counts as the best. Of a
    regression, Pearson's correlation is in the place of F1 macro.
    """

    recipe: Recipe
    f1: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    best: int = -1
    metric: Metric = F1_MACRO
    average: tuple[float, float] | None = None

    @property
    def chosen(self) -> int:
        """The epoch, counted from 0, whose weights are evaluated; of an average the last one."""
        return len(self.f1) - 1 if self.recipe.selection == "last" or self.recipe.average_last else self.best

    @property
    def averaged(self) -> int:
        """Of how many epochs the weights are averaged, up to now; 0 before the first of them."""
        last = self.recipe.average_last
        return max(0, len(self.f1) - self.recipe.epochs + last) if last else 0

    @property
    def validation(self) -> tuple[float, float]:
        """Validation score and loss of the weights that are evaluated."""
        return self.average or (self.f1[self.chosen], self.loss[self.chosen])

    def add(self, f1: float, loss: float, train_loss: float) -> bool:
        """Note one epoch; return whether it is the best so far.

        Raises
        ------
        DivergedError
            If the training loss, or the validation loss if there is one, is not finite.
        """
        epoch = len(self.f1)
        if not math.isfinite(train_loss) or (not math.isnan(f1) and not math.isfinite(loss)):
            raise DivergedError(epoch + 1, self.recipe.learning_rate)
        self.f1.append(f1)
        self.loss.append(loss)
        self.train_loss.append(train_loss)
        better = self.best < 0 or math.isnan(f1) or self._rank(epoch) > self._rank(self.best)
        if better:
            self.best = epoch
        return better

    def _rank(self, epoch: int) -> tuple[float, ...]:
        if self.recipe.early_stopping_metric == "loss":
            return (-self.loss[epoch],)
        return self.metric.sign * self.f1[epoch], -self.loss[epoch]

    @property
    def stop(self) -> bool:
        """Whether patience is at its end."""
        patience = self.recipe.early_stopping_patience
        return patience > 0 and len(self.f1) - 1 - self.best >= patience

    @property
    def metrics(self) -> dict[str, float]:
        """Of the chosen epoch: `best_epoch` counts from 1; `train_loss` is the mean over that epoch, with dropout."""
        epoch = self.chosen
        values = {"best_epoch": float(epoch + 1), "train_loss": self.train_loss[epoch]}
        score, loss = self.validation
        if not math.isnan(score):
            values |= {f"validation_{self.metric.name}": score, "validation_loss": loss}
        return values

    @property
    def curves(self) -> dict[str, list[float]]:
        """One value an epoch."""
        lines = {"train_loss": self.train_loss}
        if not math.isnan(self.f1[self.best]):
            lines |= {f"validation_{self.metric.name}": self.f1, "validation_loss": self.loss}
        return lines


@dataclass(eq=False)
class Course:
    """One cell: what its factors decide, and where its training stands.

    Attributes
    ----------
    diverged
        Why it has no result.
    ended
        Whether its training was told to end.
    best
        Weights after its best epoch so far, or the average of those of its last ones, or in the end of all trainings
        of a soup; empty if the model holds them.
    is_heard
        Whether its epochs are reported: not those of a training that began again, or of a later one of a soup.
    """

    cell: Cell
    split: Split
    progress: Progress
    diverged: DivergedError | None = field(default=None, kw_only=True)
    ended: bool = field(default=False, kw_only=True)
    best: tuple[torch.Tensor, ...] = field(default=(), kw_only=True)
    is_heard: bool = field(default=True, kw_only=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many examples its parts have."""
        return len(self.split.train), len(self.split.validation), len(self.split.test)

    def order(self, epoch: int) -> IntArray:
        """Return the training examples in the order of an epoch, counted from 0."""
        return self.split.train[batch_order(self.cell.seeds["data_order"], epoch, len(self.split.train))]

    def member(self, number: int) -> Self:
        """Return a training of a soup: the first is this one; a later one has the same split and first weights."""
        if not number:
            return self
        cell = redrawn(self.cell, "soup", str(number), kept=(*TASK_FACTORS, "model_initialisation"))
        progress = Progress(self.progress.recipe, metric=self.progress.metric)
        return replace(self, cell=cell, progress=progress, is_heard=False)

    def note(
        self, logits: torch.Tensor, labels: npt.NDArray[Any], loss: float, on_epoch_end: OnEpochEnd | None
    ) -> tuple[bool, bool]:
        """Note an epoch: validation logits, labels and mean loss of the training.

        Returns
        -------
        tuple
            Whether it is the best so far, and whether another one may follow.
        """
        try:
            better = self.progress.add(*validate(logits, labels), loss)
        except DivergedError as error:
            self.diverged = error
            return False, False
        listener = on_epoch_end if self.is_heard else None
        self.ended = should_stop(listener, self.cell.key, len(self.progress.f1) - 1, logits, labels)
        return better, not self.ended and not self.progress.stop

    def collapsed(self, task: Task) -> bool:
        """Return whether it diverged, or is no better than a constant on its validation part, and was not ended."""
        if self.diverged or self.ended:
            return not self.ended
        labels, of_constant = task.labels[self.split.validation], 0.0
        if task.form.has_classes:
            most_frequent = np.full_like(labels, np.bincount(labels).argmax())
            of_constant = f1_macro(labels, most_frequent, len(task.class_names))
        return not self.progress.validation[0] > of_constant


def soups(courses: Sequence[C], recipe: Recipe) -> Iterator[tuple[int, list[C]]]:
    """Yield the number of each training of a soup, from 0, and the trainings of that number, which are to be trained.

    Afterwards a course has the average of their `best` weights; it diverged if one of them did. One that diverged, or
    was told to end, has no further training.
    """
    for number in range(recipe.soup):
        going = [course for course in courses if course.diverged is None and not course.ended]
        if not going:
            return
        yield number, (members := [course.member(number) for course in going])
        for course, member in zip(going, members, strict=True):
            course.diverged = member.diverged
            layers = zip(course.best, member.best, strict=False)
            course.best = tuple(mean.lerp(layer, 1 / (number + 1)) for mean, layer in layers) if number else member.best
