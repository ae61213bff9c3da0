"""What is known of a trial once it has ended, and how Optuna's storage keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.studies.search.cells import TrialCell

if TYPE_CHECKING:
    import optuna

State = Literal["complete", "pruned", "failed"]
Origin = Literal["trained", "known", "repeated", "taken over", "interrupted"]
"""Where a score comes from: this trial's training; a finished outcome of the same key; another trial of the stage with
the same hyperparameters; the stage before. An interrupted trial has none: its process ended, another one repeats it."""

GIVEN: Final = "l3d.given"
"""User attribute: the whole setting that a trial was queued with."""
CELL: Final = "l3d.cell"
"""User attribute: key, params and complete hyperparameters, set when the trial begins."""
RESULT: Final = "l3d.result"
"""User attribute: state, score, origin and error, set right before the trial ends."""


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
    """Return the trials of a study that have ended, in their order; those that were interrupted are left out."""
    from optuna.trial import TrialState

    states: dict[TrialState, State] = {
        TrialState.COMPLETE: "complete",
        TrialState.PRUNED: "pruned",
        TrialState.FAIL: "failed",
    }
    found = []
    for trial in study.get_trials(deepcopy=False, states=tuple(states)):
        cell, result = trial.user_attrs.get(CELL, {}), trial.user_attrs.get(RESULT, {})
        if result.get("origin") == "interrupted":
            continue
        value = None if trial.state is TrialState.FAIL else trial.value
        found.append(
            FinishedTrial(
                number=trial.number,
                params=cell.get("params", dict(trial.params)),
                hyperparameters=cell.get("hyperparameters", {}),
                key=cell.get("key", ""),
                state=states[trial.state],
                score=result.get("score", value),
                origin=result.get("origin", "trained"),
                error=result.get("error"),
            )
        )
    return found


def best_of(trials: list[FinishedTrial], metric: Metric | None = None) -> FinishedTrial | None:
    """Return the complete trial with the best score, of equals the first; None where none is complete.

    The best is the highest where `metric` does not say otherwise.
    """
    sign = 1.0 if metric is None else metric.sign
    scored = [(trial.score, -trial.number, trial) for trial in trials if trial.state == "complete"]
    ranked = [(sign * score, order, trial) for score, order, trial in scored if score is not None]
    return max(ranked, key=lambda entry: entry[:2])[2] if ranked else None


def score_of(hyperparameters: Mapping[str, Value], trials: Sequence[FinishedTrial]) -> float:
    """Return the score of a setting; nan where no complete trial had it."""
    scores = [
        trial.score
        for trial in trials
        if trial.state == "complete" and dict(trial.hyperparameters) == dict(hyperparameters)
    ]
    return next((score for score in scores if score is not None), math.nan)
