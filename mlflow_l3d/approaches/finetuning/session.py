"""What all ways of training share in a session: cells side by side, those that begin again, and their outcomes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import torch

from mlflow_l3d.approaches.base import answered
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.approaches.finetuning.training import C, DivergedError, redrawn
from mlflow_l3d.approaches.stacked.chunks import StackedSession
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task


class CourseSession(StackedSession[C]):
    """Cells whose parts are equally large are trained side by side."""

    recipe: Recipe

    @cached_property
    def truncated(self) -> dict[str, float]:
        """The share of the examples with more words than `max_length`, which are surely cut; nothing if it is 0."""
        words = np.sum([[len(text.split()) for text in column] for column in self.task.texts], axis=0)
        share = float(np.mean(words > self.recipe.max_length))
        return {"truncated_share": share} if share else {}

    @abstractmethod
    def trained(self, courses: Sequence[C]) -> Sequence[torch.Tensor | DivergedError]:
        """Train cells; return the logits of the test examples of each, (n, C) on the CPU, or how it diverged."""

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
                    key, more = course.cell.key, {"restarts": float(attempt)} if self.recipe.restarts else {}
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
        course = {"metrics": {**own.progress.metrics, **more, **self.truncated}, "curves": own.progress.curves}
        return answered(own.cell.key, self.task, own.split.test, predictions, scores, **course)


def check_validation(task: Task, recipe: Recipe, *names: str) -> None:
    """Raise if one of some hyperparameters, which need a validation part, is used, and there is none."""
    if len(task.split(dict.fromkeys(TASK_FACTORS, 0)).validation):
        return
    for name in names:
        value = getattr(recipe, name)
        if value not in (0, HYPERPARAMETERS[name].default):
            fix = "Leave it out (the last epoch counts), or hold examples out with validation_fraction."
            raise ParameterError(f"hyperparameters.{name}", value, "needs a validation part, and there is none", fix)
