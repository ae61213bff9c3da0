"""Whether identical requests get the same answer: rows whose answer changes, and those whose score changes with it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL, with_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.metrics.known import of_kind


@dataclass(frozen=True, slots=True)
class AnswerChanges:
    """The answers to identical requests, row by row.

    Attributes
    ----------
    repeats, rows
        Requests per row, and rows.
    changed, score_changed
        Rows with more than one answer, and those of them whose answers differ in their score, too.
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

    def metrics(self) -> dict[str, float]:
        """Return the numbers by name, for the parent run."""
        numbers = (self.changed / self.rows, *self.interval)
        shares = dict(zip(with_interval("changed_share"), numbers, strict=True))
        return {**shares, "score_changed_share": self.score_changed / self.rows}


def answer_changes(predictions: pd.DataFrame, kind: str, metric: Metric, *, level: float = LEVEL) -> AnswerChanges:
    """Count the rows whose answers differ; of a metric that scores no single answer, the first of the kind that does.

    Parameters
    ----------
    predictions
        One row per answer: ``seed`` (its number), ``example_id``, ``label``, ``prediction``.
    kind, metric
        That of the task, and the metric that is looked at.
    level
        Of the interval.
    """
    from scipy.stats import binomtest

    name, of_each = next((each.name, each.of_each) for each in (metric, *of_kind(kind)) if each.of_each is not None)
    answers, form = predictions.drop_duplicates(["example_id", "prediction"]), form_of(kind)
    scores = of_each(form.labels(answers["label"].tolist()), form.predictions(answers["prediction"].tolist()))
    scored = answers.assign(score=scores).groupby("example_id")["score"]
    rows, changed, score_changed = scored.ngroups, int((scored.size() > 1).sum()), int((scored.nunique() > 1).sum())
    low, high = binomtest(changed, rows).proportion_ci(level)
    counts = predictions["seed"].nunique(), rows, changed, score_changed
    return AnswerChanges(*counts, (float(low), float(high)), name)
