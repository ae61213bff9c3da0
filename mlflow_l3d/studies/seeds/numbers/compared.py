"""The predictions of all seeds on the same examples, by kind of task: what they score, and how they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.consistency.choice import scoring_of
from mlflow_l3d.analysis.consistency.examples import ExampleVotes, example_votes
from mlflow_l3d.analysis.consistency.runs import SeedAgreement, class_agreement, number_agreement
from mlflow_l3d.analysis.consistency.scored import scored_agreement
from mlflow_l3d.analysis.intervals import LEVEL, known, with_interval
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.metrics.forms import Form, form_of
from mlflow_l3d.metrics.known import of_kind, scores_of
from mlflow_l3d.metrics.sequences import references

Kind = Literal["classification", "regression", "multiple_choice", "generation", "tagging", "ranking"]


def check_seeds(given: list[Any]) -> tuple[int, ...]:
    """Return the seeds as whole numbers.

    Raises
    ------
    ParameterError
        If there are fewer than two, one is not a whole number from 0 on, or one occurs twice.
    """
    for seed in given:
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or not 0 <= seed < 2**63:
            raise ParameterError("seeds", repr(seed), "must be whole numbers from 0 to 2**63 - 1")
    seeds = tuple(map(int, given))
    if len({*seeds}) < len(seeds):
        repeated = max(seeds, key=seeds.count)
        raise ParameterError("seeds", repeated, "must occur once", "A seed that is repeated repeats its run.")
    if len(seeds) < 2:
        listed = ", ".join(map(str, seeds)) or "(none)"
        raise ParameterError("seeds", listed, "must be at least two", "One seed has no spread; the papers' are ten.")
    return seeds


def prediction_matrix(
    predictions: pd.DataFrame, seeds: tuple[int, ...], kind: Kind
) -> tuple[tuple[int, ...], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the predictions of all seeds of the examples that they share as one array.

    Parameters
    ----------
    predictions
        One row per prediction: ``seed``, ``example_id``, ``label``, ``prediction``.
    seeds
        Those that may occur, in the order to keep.
    kind
        What the predictions are: numbers for ``regression``, else class numbers.

    Returns
    -------
    tuple
        The seeds that have predictions, predictions (S, n), labels (n,) and ids (n,).

    Raises
    ------
    ParameterError
        If a column is missing, a seed is not known, or an example occurs twice or has two labels.
    ValueError
        If something is not a class number, or not finite.
    """
    for name in ("seed", "example_id", "label", "prediction"):
        if name not in predictions:
            columns_text = ", ".join(map(str, predictions))
            raise ParameterError("column", name, f"must be in the predictions, which have {columns_text}")
    seeds_with_predictions = set(predictions["seed"].tolist())
    if strangers := sorted(seeds_with_predictions - set(seeds)):
        raise ParameterError("seed", strangers[0], "has predictions and no scores")
    compared = tuple(seed for seed in seeds if seed in seeds_with_predictions)
    form = form_of("regression" if kind == "regression" else "classification")
    truth = form.labels(predictions["label"].to_numpy())
    guess = form.predictions(predictions["prediction"].to_numpy())
    rows = predictions["seed"].map({seed: at for at, seed in enumerate(compared)}).to_numpy()
    columns, ids = pd.factorize(predictions["example_id"])
    if (twice := pd.Series(rows * max(1, len(ids)) + columns).duplicated()).any():
        example = ids[columns[int(np.flatnonzero(twice)[0])]]
        raise ParameterError("example_id", example, "must occur once in the predictions of a seed")
    labels = np.zeros(len(ids), dtype=truth.dtype)
    labels[columns] = truth
    if len(different := np.flatnonzero(labels[columns] != truth)):
        at = different[0]
        raise ParameterError("label", truth[at], f"example_id {ids[columns[at]]} must have one true value")
    matrix = np.empty((len(compared), len(ids)), dtype=guess.dtype)
    matrix[rows, columns] = guess
    shared = np.bincount(columns, minlength=len(ids)) == len(compared)
    return compared, matrix[:, shared], labels[shared], np.asarray(ids)[shared]


def numbered(predictions: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """Return answers that are texts as numbers: of each example 0 is right, 1, 2, ... other answers, -1 none.

    `predictions` has ``example_id``, ``label`` and ``prediction``; values that are not texts are returned unchanged.
    """
    if not {"example_id", "label", "prediction"} <= {*predictions}:
        return predictions
    labels, answers = predictions["label"], predictions["prediction"]
    if pd.api.types.is_numeric_dtype(labels) and pd.api.types.is_numeric_dtype(answers):
        return predictions
    right = (answers == labels).to_numpy()
    if kind == "generation":  # a label may list several texts that are all right
        right = np.array([answer in references(label, answer) for label, answer in zip(labels, answers, strict=True)])
    number = np.where(right, 0, UNPARSED)
    wrong = answers.notna().to_numpy() & ~right
    examples = pd.factorize(predictions["example_id"])[0][wrong]
    codes = pd.Series(pd.factorize(answers[wrong].astype(str), sort=True)[0])
    number[wrong] = codes.groupby(examples).rank("dense")
    return predictions.assign(label=np.zeros(len(labels), dtype=np.int64), prediction=number)


@dataclass(frozen=True)
class ComparedSeeds:
    """Predictions of the seeds that have any.

    Attributes
    ----------
    kind
        The kind of task.
    seeds
        The S seeds, in the order of the study.
    matrix
        Shape (S, n): predictions as numbers; of texts 0 is right, other numbers are wrong, -1 is none.
    labels, ids
        Shape (n,): true values likewise, and ids of the examples, which all seeds predicted.
    frame
        One row per prediction of these, as they were given.
    are_texts
        Whether predictions were given as texts.
    known_classes
        How many classes the task has; None if it does not say.
    scored_by
        How two predictions are compared that are neither classes nor numbers; empty of these.
    """

    kind: Kind
    seeds: tuple[int, ...]
    matrix: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    ids: npt.NDArray[Any]
    frame: pd.DataFrame
    are_texts: bool
    known_classes: int | None
    scored_by: str

    @property
    def form(self) -> Form:
        """What labels and predictions are."""
        return form_of(self.kind)

    def scores(self, predictions: pd.DataFrame) -> dict[Any, dict[str, float]]:
        """Return seed -> the scores of its predictions, shared or not; of texts as classes the accuracy only."""
        if self.form.has_numbers and self.are_texts:
            return {}
        only = ("accuracy",) if self.form.has_classes and self.are_texts else ()
        parts = (numbered(predictions, self.kind) if self.form.has_classes else predictions).groupby("seed")
        return {seed: scores_of([*part["label"]], [*part["prediction"]], self.kind, only=only) for seed, part in parts}

    def agreement(self) -> SeedAgreement:
        """Return how the predictions of the seeds agree; of numbers, how close they are."""
        if self.form.has_numbers:
            return number_agreement(self.matrix)
        agreement = class_agreement(self.matrix, self.labels)
        if self.are_texts:  # agreement by chance has no meaning if answers are numbered example by example
            del agreement.together["fleiss_kappa"], agreement.intervals["fleiss_kappa"]
        if (scoring := scoring_of(self.scored_by) if self.scored_by else None) is None:
            return agreement
        answers = self.frame.pivot(index="seed", columns="example_id", values="prediction").loc[[*self.seeds], self.ids]
        labels = self.frame.drop_duplicates("example_id").set_index("example_id")["label"].loc[self.ids]
        pairs, kappa = scored_agreement(scoring, answers.to_numpy(dtype=object), labels.to_numpy(dtype=object))
        if not self.has_right_answers:
            together = {"unparsed_share": agreement.together["unparsed_share"], "fleiss_kappa": kappa}
            return SeedAgreement(pairs, known(together), {})
        on_wrong = pairs["consistency"].mean - pairs["correct_consistency"].mean
        return SeedAgreement(pairs, agreement.together | {"agreement_on_wrong": on_wrong}, agreement.intervals)

    @property
    def has_right_answers(self) -> bool:
        """Whether a prediction is right or wrong, not more or less alike its label."""
        return not self.form.has_numbers and self.kind != "ranking" and self.scored_by in ("", "exact_match")

    def votes(self) -> ExampleVotes | None:
        """Return the robust and the fragile examples; None if no prediction is simply right or wrong."""
        return example_votes(self.matrix, self.labels, self.ids) if self.has_right_answers else None

    def found(self) -> dict[str, Any]:
        """Return what a study says of the predictions, by the names of its fields; nothing without shared examples."""
        if not len(self.ids):
            return {}
        agreement = self.agreement()
        seeds = {"constant_seeds": self.constant(), "unanswered_seeds": self.unanswered()}
        numbers = {"pairs": agreement.pairs, "together": agreement.together, "intervals": agreement.intervals}
        return {"compared": self.seeds, "examples": self.votes(), **numbers, **seeds}

    @property
    def classes(self) -> int | None:
        """How many classes there are: those of the task, else those among the labels; None if there are none."""
        counts_labels = self.form.has_classes and not (self.are_texts or self.known_classes)
        return len(np.unique(self.labels)) if counts_labels else self.known_classes

    def constant(self) -> tuple[int, ...]:
        """Return the seeds that give every example the same prediction, unless all have the same label, too."""
        if self.frame["label"].nunique() == 1:
            return ()
        different = self.frame.groupby("seed")["prediction"].nunique(dropna=False)
        return tuple(seed for seed in self.seeds if different[seed] == 1)

    def unanswered(self) -> tuple[int, ...]:
        """Return the seeds of which half of the predictions or more name no class."""
        if not self.form.has_classes:
            return ()
        classes = np.unique(self.labels) if self.known_classes is None else np.arange(self.known_classes)
        answers = self.matrix != UNPARSED if self.are_texts else np.isin(self.matrix, classes)
        return tuple(np.array(self.seeds)[answers.mean(axis=1) <= 0.5].tolist())


def compare_seeds(
    predictions: pd.DataFrame, seeds: tuple[int, ...], kind: Kind, classes: int | None, metric: Metric | None = None
) -> ComparedSeeds:
    """Return the predictions of seeds as they are compared under a metric; errors as of ``prediction_matrix``."""
    numbers, form = numbered(predictions, kind), form_of(kind)
    matrix = prediction_matrix(numbers, seeds, kind)
    shared = predictions[predictions["example_id"].isin(matrix[-1])]
    scored_by = "" if form.has_classes or form.has_numbers else (metric and metric.agreement) or "exact_match"
    return ComparedSeeds(kind, *matrix, shared, numbers is not predictions, classes, scored_by)


@dataclass(frozen=True, slots=True)
class AnswerChanges:
    """The answers to identical requests, row by row.

    Attributes
    ----------
    repeats, rows
        Requests per row, and rows.
    changed, score_changed
        Rows with more than one answer, and those of them whose answers differ in their score, too.
    unread
        Rows with more than one answer whose answers are the same, but for those that nothing could be read from.
    interval
        Of the share of rows with more than one answer: exactly binomial (Clopper and Pearson 1934), over rows.
    scored_by
        The metric that scores a single answer.
    """

    repeats: int
    rows: int
    changed: int
    score_changed: int
    interval: tuple[float, float]
    scored_by: str
    unread: int = 0

    def metrics(self) -> dict[str, float]:
        """Return the numbers by name, for the parent run."""
        shares = dict(zip(with_interval("changed_share"), (self.changed / self.rows, *self.interval), strict=True))
        return {**shares, "score_changed_share": self.score_changed / self.rows}


def answer_changes(predictions: pd.DataFrame, kind: str, metric: Metric) -> AnswerChanges:
    """Count the rows whose answers differ; of a metric that scores no single answer, the first of the kind that does.

    Parameters
    ----------
    predictions
        One row per answer: ``seed`` (its number), ``example_id``, ``label``, ``prediction``.
    kind, metric
        That of the task, and the metric that is looked at.
    """
    from scipy.stats import binomtest

    name, of_each = next((each.name, each.of_each) for each in (metric, *of_kind(kind)) if each.of_each is not None)
    answers = predictions.drop_duplicates(["example_id", "prediction"])
    form = form_of(kind)
    scores = of_each(form.labels(answers["label"].tolist()), form.predictions(answers["prediction"].tolist()))
    scored = answers.assign(score=scores).groupby("example_id")["score"]
    rows = scored.ngroups
    changed = int((scored.size() > 1).sum())
    score_changed = int((scored.nunique() > 1).sum())
    read = answers[answers["prediction"].notna() & ~answers["prediction"].isin([UNPARSED, ""])]
    unread = changed - int((read.groupby("example_id").size() > 1).sum())
    low, high = binomtest(changed, rows).proportion_ci(LEVEL)
    counts = predictions["seed"].nunique(), rows, changed, score_changed
    return AnswerChanges(*counts, (float(low), float(high)), name, unread)
