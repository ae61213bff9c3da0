"""The predictions of all seeds on the same examples, by kind of task: what they score, and how they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import ExampleVotes, example_votes
from mlflow_l3d.analysis.consistency.runs import SeedAgreement, class_agreement, number_agreement
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import scores_of
from mlflow_l3d.studies.seeds.numbers.predictions import Kind, numbered, prediction_matrix


@dataclass(frozen=True)
class ComparedSeeds:
    """Predictions of the seeds that have any; texts are compared as they stand.

    Attributes
    ----------
    kind
        The kind of task.
    seeds
        The S seeds, in the order of the study.
    matrix
        Shape (S, n): predictions as numbers; of texts 0 is right, other numbers are wrong, -1 is none.
    labels, ids
        Shape (n,): true values likewise, and ids of the examples.
    frame
        One row a prediction, as they were given.
    are_texts
        Whether predictions were given as texts.
    known_classes
        How many classes the task has; None if it does not say.
    """

    kind: Kind
    seeds: tuple[int, ...]
    matrix: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    ids: npt.NDArray[Any]
    frame: pd.DataFrame
    are_texts: bool
    known_classes: int | None

    @property
    def are_right_or_wrong(self) -> bool:
        """Whether nothing but the accuracy can be computed from them."""
        return False

    def scores(self) -> dict[int, dict[str, float]]:
        """Return seed -> its scores."""
        texts = self.frame.groupby(["seed"])[["label", "prediction"]]
        parts = {seed: texts.get_group((seed,)) for seed in self.seeds}
        return {seed: scores_of([*part["label"]], [*part["prediction"]], self.kind) for seed, part in parts.items()}

    def agreement(self) -> SeedAgreement:
        """Return how the predictions of the seeds agree."""
        agreement = class_agreement(self.matrix, self.labels)
        if not self.are_texts:
            return agreement
        # Agreement by chance has no meaning if answers are numbered example by example.
        del agreement.together["fleiss_kappa"], agreement.intervals["fleiss_kappa"]
        return agreement

    def votes(self) -> ExampleVotes | None:
        """Return the robust and the fragile examples; None of numbers."""
        return example_votes(self.matrix, self.labels, self.ids)

    @property
    def classes(self) -> int | None:
        """How many classes there are; None if there are none."""
        return self.known_classes

    def constant(self) -> tuple[int, ...]:
        """Return the seeds that give every example the same prediction."""
        different = self.frame.groupby("seed")["prediction"].nunique(dropna=False)
        return tuple(seed for seed in self.seeds if different[seed] == 1)

    def unanswered(self) -> tuple[int, ...]:
        """Return the seeds of which half of the predictions or more name no class."""
        return ()


class ComparedClasses(ComparedSeeds):
    """Predicted classes, or texts of which the labels say which are right."""

    @property
    def are_right_or_wrong(self) -> bool:
        """Whether nothing but the accuracy can be computed from them: texts are of no class."""
        return self.are_texts

    def scores(self) -> dict[int, dict[str, float]]:
        """Return seed -> its scores."""
        only = ("accuracy",) if self.are_texts else ()
        rows = zip(self.seeds, self.matrix, strict=True)
        return {seed: scores_of(self.labels, row, self.kind, only=only) for seed, row in rows}

    @property
    def classes(self) -> int | None:
        """How many classes there are: those of the task, else those among the labels."""
        return self.known_classes or len(np.unique(self.labels))

    def unanswered(self) -> tuple[int, ...]:
        """Return the seeds of which half of the predictions or more name no class."""
        classes = np.unique(self.labels) if self.known_classes is None else np.arange(self.known_classes)
        answers = np.isin(self.matrix, classes)
        return tuple(np.array(self.seeds)[answers.mean(axis=1) <= 0.5].tolist())


class ComparedNumbers(ComparedSeeds):
    """Predicted numbers, which have neither classes nor votes."""

    def scores(self) -> dict[int, dict[str, float]]:
        """Return seed -> its scores."""
        rows = () if self.are_texts else zip(self.seeds, self.matrix, strict=True)
        return {seed: scores_of(self.labels, row, self.kind) for seed, row in rows}

    def agreement(self) -> SeedAgreement:
        """Return how close the predictions of the seeds are."""
        return number_agreement(self.matrix)

    def votes(self) -> ExampleVotes | None:
        """Return None."""
        return None


def compare_seeds(predictions: pd.DataFrame, seeds: tuple[int, ...], kind: Kind, classes: int | None) -> ComparedSeeds:
    """Return the predictions of seeds as they are compared; errors as of ``prediction_matrix``."""
    form, numbers = form_of(kind), numbered(predictions)
    compared = ComparedNumbers if form.has_numbers else ComparedClasses if form.has_classes else ComparedSeeds
    matrix = prediction_matrix(numbers, seeds, kind)
    return compared(kind, *matrix, predictions, numbers is not predictions, known_classes=classes)
