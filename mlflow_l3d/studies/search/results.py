"""What is known of trials once they have ended: how Optuna's storage keeps it, and a whole stage counted and listed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pandas as pd

from mlflow_l3d.analysis.search import Scale, StageSummary
from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.report.numbers import value_text
from mlflow_l3d.studies.search.cells import TrialCell

if TYPE_CHECKING:
    import optuna

State = Literal["complete", "pruned", "failed"]
Origin = Literal["trained", "known", "repeated", "taken over"]
"""Where a score comes from: this trial's training; a finished outcome of the same key; another trial of the stage with
the same hyperparameters; the stage before."""

GIVEN: Final = "l3d.given"
"""User attribute: the whole setting that a trial was queued with."""
CELL: Final = "l3d.cell"
"""User attribute: key, params and complete hyperparameters, set when the trial begins."""
RESULT: Final = "l3d.result"
"""User attribute: state, score, origin and error, set right before the trial ends."""
TRIAL_COLUMNS: Final = (
    *("level", "number", "state", "origin", "score", "score_std", "duration_seconds", "run_id", "is_default"),
)
"""Columns of a table of trials that every search has; all others are searched hyperparameters."""


@dataclass(frozen=True, slots=True)
class PrunedBefore:
    """How a trial of an earlier process was pruned: enough to be told so again, without training.

    Attributes
    ----------
    score
        That its training ended with, a fraction.
    reported, step
        What it last reported to Optuna, as far as the ledger knows; samplers look at it.
    """

    score: float
    reported: float
    step: int

    @classmethod
    def all_of(cls, known: Mapping[str, Mapping[str, float]], metric: str) -> dict[str, PrunedBefore]:
        """Read key -> how it was pruned from the metrics that the ledger knows; `metric` scores the trials."""
        found = {}
        for key, metrics in known.items():
            if (score := metrics.get("score")) is not None:
                reported = float(metrics.get(f"curve/validation_{metric}", score))
                found[key] = cls(float(score), reported, max(0, int(metrics.get("epochs_done", 1)) - 1))
        return found


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A trial that has ended.

    Attributes
    ----------
    number
        In its study, from 0.
    params
        What was searched: name -> value.
    hyperparameters, key
        Complete, and the key of the cell; empty where the approach refused the values.
    state
        ``failed`` trials have no score. One that is ``pruned`` has the score that its training ended with, or what
        it last reported.
    score
        Mean of the metric over the configurations, on the validation part.
    origin
        See :data:`Origin`.
    error
        Why it failed, one line.
    cell, outcome
        Where it was trained by this process, for the ledger; the outcome is None where the score was known.
    """

    number: int
    params: Mapping[str, Value]
    hyperparameters: Mapping[str, Value]
    key: str
    state: State
    score: float | None = None
    origin: Origin = "trained"
    error: str | None = None
    cell: TrialCell | None = field(default=None, compare=False)
    outcome: Outcome | None = field(default=None, compare=False)

    def identity(self) -> dict[str, Any]:
        """Return what the storage keeps under :data:`CELL`."""
        return {"key": self.key, "params": dict(self.params), "hyperparameters": dict(self.hyperparameters)}

    def result(self) -> dict[str, Any]:
        """Return what the storage keeps under :data:`RESULT`."""
        return {"state": self.state, "score": self.score, "origin": self.origin, "error": self.error}


def finished_trials(study: optuna.Study) -> list[FinishedTrial]:
    """Return the trials of a study that have ended, in their order.

    An earlier version told Optuna of trials that were ``interrupted``, and that others repeat: these are left out.
    """
    found = []
    for trial in study.get_trials(deepcopy=False):
        refused = {"params": dict(trial.params), "hyperparameters": {}, "key": ""}
        cell, result = trial.user_attrs.get(CELL, refused), trial.user_attrs.get(RESULT)
        if trial.state.is_finished() and result is not None and result["origin"] != "interrupted":
            found.append(FinishedTrial(trial.number, **cell, **result))
    return found


def best_of(trials: Sequence[FinishedTrial], metric: Metric | None = None) -> FinishedTrial | None:
    """Return the complete trial with the best score, of equals the first; None where none is complete.

    The best is the highest where `metric` does not say otherwise.
    """
    sign = 1.0 if metric is None else metric.sign
    complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]
    return max(complete, key=lambda trial: sign * (trial.score or 0.0), default=None)


def score_of(hyperparameters: Mapping[str, Value], trials: Sequence[FinishedTrial]) -> float:
    """Return the score of a setting; nan where no complete trial had it."""
    complete = (trial for trial in trials if trial.state == "complete" and trial.score is not None)
    found = (trial.score for trial in complete if dict(trial.hyperparameters) == dict(hyperparameters))
    return next((score for score in found if score is not None), math.nan)


def stage_summary(
    name: str,
    sampler: str,
    ranges: Mapping[str, Searched],
    trials: Sequence[FinishedTrial],
    metric: Metric | None = None,
) -> StageSummary:
    """Count the trials of a stage; one that was taken over counts for the best score only."""
    own = [trial.state for trial in trials if trial.origin != "taken over"]
    best = best_of(list(trials), metric)
    return StageSummary(
        name=name,
        sampler=sampler,
        ranges={each: range_text(searched) for each, searched in ranges.items()},
        trials=len(own),
        complete=own.count("complete"),
        pruned=own.count("pruned"),
        failed=own.count("failed"),
        best_score=math.nan if best is None or best.score is None else best.score,
        scales={each: _scale(searched) for each, searched in ranges.items()},
    )


def _scale(searched: Searched) -> Scale:
    return "choices" if isinstance(searched, SearchChoices) else "log" if searched.log else "linear"


def trials_table(
    stages: Mapping[str, Sequence[FinishedTrial]],
    searched: Sequence[str],
    *,
    default: Mapping[str, Value],
    run_of: Callable[[str], str],
    metrics: Mapping[str, Mapping[str, float]],
) -> pd.DataFrame:
    """Return one row a trial, in the order of stages and trials.

    Parameters
    ----------
    stages
        Name of a stage -> its trials.
    searched
        Hyperparameters that get a column.
    default
        The approach's own hyperparameters, complete.
    run_of
        Returns the MLflow run of the cell with a key; the empty text where it has none.
    metrics
        Key of a cell -> what was measured (``score_std``, ``duration_seconds``).

    Returns
    -------
    pandas.DataFrame
        Columns :data:`TRIAL_COLUMNS` and `searched`. Numbers that are not known are nan, as the score of a trial that
        failed.
    """
    rows = []
    for stage, trials in stages.items():
        for trial in trials:
            measured = metrics.get(trial.key, {})
            values = {**trial.params, **trial.hyperparameters}
            rows.append(
                {
                    "level": stage,
                    "number": trial.number,
                    "state": trial.state,
                    "origin": trial.origin,
                    "score": math.nan if trial.score is None else trial.score,
                    "score_std": measured.get("score_std", math.nan),
                    "duration_seconds": measured.get("duration_seconds", math.nan),
                    "run_id": run_of(trial.key) if trial.key else "",
                    "is_default": bool(trial.hyperparameters) and dict(trial.hyperparameters) == dict(default),
                    **{name: values.get(name) for name in searched},
                }
            )
    return pd.DataFrame(rows, columns=[*TRIAL_COLUMNS, *searched])


def range_text(searched: Searched) -> str:
    """Return what may be tried, as in ``1e-05 to 0.01, log scale``, or ``4, 8, 16``."""
    if isinstance(searched, SearchChoices):
        return ", ".join(value_text(choice) for choice in searched.choices)
    low, high = (value_text(int(each) if searched.whole else float(each)) for each in (searched.low, searched.high))
    return f"{low} to {high}{', log scale' if searched.log else ''}"
