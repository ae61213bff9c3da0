"""What is known of trials once they have ended: how the recorder keeps it, and a whole stage counted and listed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast

from mlflow_l3d.analysis.search import Scale, StageSummary
from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.plan.cells import Outcome
from mlflow_l3d.report.numbers import value_text
from mlflow_l3d.studies.search.cells import TrialCell

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_l3d.tracking.recorder import RunRecorder
    from mlflow_l3d.tracking.records import TrialRecord

State = Literal["complete", "pruned", "failed"]
Origin = Literal["trained", "known", "repeated", "taken over"]
"""Where a score comes from: this trial's training; a finished outcome of the same key; another trial of the stage with
the same hyperparameters; the stage before."""

REPORTED: Final = "reported"
"""Metric of a trial: what its training reported to the pruner, step by step."""
TRIAL_COLUMNS: Final = (
    *("level", "number", "state", "origin", "score", "score_std", "duration_seconds", "run_id", "is_default"),
)
"""Columns of a table of trials that every search has; all others are searched hyperparameters."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a trial ended that an earlier process, or another search, trained; it is not trained again.

    Attributes
    ----------
    state, score, reports
        As of :class:`FinishedTrial`.
    """

    state: State
    score: float
    reports: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A trial that has ended.

    Attributes
    ----------
    number
        In its stage, from 0.
    params
        What was searched: name -> value.
    hyperparameters, key
        Complete, and the key of the cell; empty where the approach refused the values.
    state
        ``failed`` trials have no score. One that is ``pruned`` has the score that its training ended with.
    score
        Mean of the metric over the configurations, on the validation part.
    origin
        See :data:`Origin`.
    error
        Why it failed, one line.
    reports
        Step -> score that its training reported to the pruner.
    cell, outcome
        Where it was trained by this process, for the recorder; the outcome is None where the score was known.
    """

    number: int
    params: Mapping[str, Value]
    hyperparameters: Mapping[str, Value]
    key: str
    state: State
    score: float | None = None
    origin: Origin = "trained"
    error: str | None = None
    reports: Mapping[int, float] = field(default_factory=dict)
    cell: TrialCell | None = field(default=None, compare=False)
    outcome: Outcome | None = field(default=None, compare=False)


def reports_in(logged: Sequence[tuple[str, float, int, int]]) -> dict[int, float]:
    """Return step -> score of what a training reported, from the metrics that it logged."""
    return {step: value for name, value, _, step in logged if name == REPORTED}


def known_endings(recorder: RunRecorder[TrialRecord], stage: str) -> dict[str, Ending]:
    """Return key -> how it ended, of each trial that a stage need not train.

    What was complete counts in any stage of any search, what was pruned in the same stage of the same search. Only the
    spool of this machine, where a search lies until it is complete, has all that an interrupted search reported.
    """
    found: dict[str, Ending] = {}
    for key, metrics in recorder.recovered.pruned.get(stage, {}).items():
        if (score := metrics.get("score")) is not None:
            last = max(0, int(metrics.get("epochs_done", 1)) - 1)
            found[key] = Ending("pruned", score, {last: metrics.get(REPORTED, score)})
    for key, metrics in recorder.recovered.metrics.items():
        if (score := metrics.get("score")) is not None:
            found[key] = Ending("complete", score)
    for record in spooled_records(recorder, stage):
        state, reports = cast(State, record.state), reports_in(record.metrics_logged)
        found[record.key] = Ending(state, record.metrics["score"], reports)
    return found


def spooled_records(recorder: RunRecorder[TrialRecord], stage: str) -> list[TrialRecord]:
    """Return the records of a stage that lie in the spool: they are of an earlier process at the same search."""
    return [record for record in map(recorder.spool.record, recorder.spool) if record.stage == stage]


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
    import pandas as pd  # workers of a search import this module

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
