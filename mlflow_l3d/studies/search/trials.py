"""Trials: as cells that are trained, as they have ended, as the recorder keeps them, and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, cast

from mlflow_l3d.cells.cell import Cell, Logged, Outcome, content_key
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.search.space import Setting
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking.records import TrialRecord, measured

if TYPE_CHECKING:
    import pandas as pd
    from optuna.trial import FrozenTrial

    from mlflow_l3d.tracking.recorder import Recovered

Seeds = Mapping[str, int]
"""Factor -> seed, of one configuration."""
Earlier = tuple["FrozenTrial", ...]
"""Optuna's trials before another one in its stage."""
State = Literal["complete", "pruned", "failed"]
Origin = Literal["trained", "known", "repeated", "taken over"]
"""Where a score comes from: this trial's training; a finished outcome of the same key; another trial of the stage with
the same hyperparameters; the stage before."""

REPORTED: Final = "reported"
"""Metric of a trial: what its training reported to the pruner, step by step."""


@dataclass(frozen=True, slots=True)
class TrialCell(Cell):
    """One trial of a search. As a cell it is a golden run: index is its number, seeds are those of configuration 0.

    Attributes
    ----------
    hyperparameters
        Complete.
    configurations_seeds
        Factor -> seed, one mapping for each of the k configurations that it is trained on.
    earlier
        Optuna's trials of the stage before this one, as they were when it began: a pruner compares it with them.
    """

    hyperparameters: Setting
    configurations_seeds: tuple[Seeds, ...]
    earlier: Earlier = ()

    @classmethod
    def of(
        cls, key: str, hyperparameters: Setting, seeds: Sequence[Seeds], number: int, earlier: Earlier = ()
    ) -> TrialCell:
        """Return the cell of the trial with this number in its stage."""
        return cls("golden", None, None, None, number, {}, dict(seeds[0]), key, hyperparameters, tuple(seeds), earlier)

    @property
    def name(self) -> str:
        """Name of the run as people read it."""
        return f"trial {self.index}"


def evaluated_on(task: Task, part: Literal["test", "validation"]) -> Task:
    """Return the task with another part in the place of its test examples."""
    return replace(task, settings=replace(task.settings, evaluated=part))


def trial_key(context_key: str, hyperparameters: Setting, seeds: Sequence[Seeds]) -> str:
    """Return the key of a trial: equal keys mean equal scores, on either stage and in any search.

    `context_key` is a hash of everything that the trials share except hyperparameters and seeds.
    """
    configurations = [dict(configuration) for configuration in seeds]
    content = {"context": context_key, "hyperparameters": dict(hyperparameters), "configurations": configurations}
    return content_key(content)


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A trial that has ended.

    Attributes
    ----------
    number
        In its stage, from 0.
    params
        Searched hyperparameter -> value.
    hyperparameters, key
        Complete, and the key of the cell; empty if the approach refused the values.
    state
        How it ended; ``failed`` until it has.
    score
        Mean of the metric over the configurations, on the validation part; nan if it failed. If it was pruned, the
        score that its training ended with.
    origin
        See :data:`Origin`.
    error
        Why it failed, one line.
    reports
        Step -> score that its training reported to the pruner.
    """

    number: int
    params: Setting
    hyperparameters: Setting = field(default_factory=dict)
    key: str = ""
    state: State = "failed"
    score: float = math.nan
    origin: Origin = "trained"
    error: str | None = None
    reports: Mapping[int, float] = field(default_factory=dict)

    def with_outcome(self, outcome: Outcome) -> FinishedTrial:
        """Return the trial as its training ended."""
        if outcome.error is not None:
            return replace(self, error=outcome.error)
        state: State = "pruned" if outcome.metrics.get("pruned") else "complete"
        reports = reports_in((outcome.logged or Logged()).metrics)
        return replace(self, state=state, score=float(outcome.metrics["score"]), reports=reports)

    def with_end_of(self, other: FinishedTrial, origin: Origin) -> FinishedTrial:
        """Return the trial as another one of the same setting ended; the reports of a repeated one count once."""
        reports = {} if origin == "repeated" else other.reports
        return replace(self, state=other.state, score=other.score, error=other.error, reports=reports, origin=origin)

    def record(self, stage: str, name: str, seeds: Sequence[Seeds], outcome: Outcome) -> TrialRecord:
        """Return the record of a trial, or of a run of the comparison, that was trained on these configurations."""
        return TrialRecord(
            stage=stage,
            number=self.number,
            state=self.state,
            hyperparameters=dict(self.hyperparameters),
            seeds={factor: ",".join(str(configuration[factor]) for configuration in seeds) for factor in seeds[0]},
            key=self.key,
            name=name,
            **measured(outcome),
        )


def reports_in(logged: Sequence[tuple[str, float, int, int]]) -> dict[int, float]:
    """Return step -> score of what a training reported, from the metrics that it logged."""
    return {step: value for name, value, _, step in logged if name == REPORTED}


def known_trials(recovered: Recovered, spooled: Sequence[TrialRecord], stage: str) -> dict[str, FinishedTrial]:
    """Return key -> trial, of those that an earlier process or another search trained and that are not trained again.

    What was complete counts in any stage of any search, what was pruned in the same stage of the same search. Only the
    records in the spool of this machine, where a search lies until it is complete, have all that an interrupted search
    reported.
    """
    ended: list[tuple[str, State, Mapping[str, float], Mapping[int, float]]] = []
    for key, metrics in recovered.pruned.get(stage, {}).items():
        last_epoch = max(0, int(metrics.get("epochs_done", 1)) - 1)
        reports = {last_epoch: metrics.get(REPORTED, metrics.get("score", math.nan))}
        ended.append((key, "pruned", metrics, reports))
    ended += [(key, "complete", metrics, {}) for key, metrics in recovered.metrics.items()]
    ended += [
        (record.key, cast(State, record.state), record.metrics, reports_in(record.metrics_logged))
        for record in spooled
        if record.stage == stage
    ]
    return {
        key: FinishedTrial(0, {}, {}, key, state, metrics["score"], "known", reports=reports)
        for key, state, metrics, reports in ended
        if "score" in metrics
    }


def best_trial(trials: Sequence[FinishedTrial], sign: float = 1.0) -> FinishedTrial:
    """Return the complete trial with the best score, of equals the first; `sign` is -1 if lower scores are better.

    Raises
    ------
    L3DError
        If no trial is complete; it names the first error.
    """
    complete = [trial for trial in trials if trial.state == "complete"]
    if not complete:
        error = next((f"; the first error: {trial.error.rstrip('.')}" for trial in trials if trial.error), "")
        wrong = f"No trial was complete: all {len(trials)} trials were pruned or failed{error}"
        raise L3DError(f"{wrong}. Mend that, or use pruner=none or another space.")
    return max(complete, key=lambda trial: sign * trial.score)


def trials_table(
    stages: Mapping[str, Sequence[FinishedTrial]],
    searched: Sequence[str],
    *,
    default: Setting,
    run_of: Callable[[str], str],
    metrics: Mapping[str, Mapping[str, float]],
) -> pd.DataFrame:
    """Return one row for each trial, in the order of stages and trials.

    Parameters
    ----------
    stages
        Name of a stage -> its trials.
    searched
        Hyperparameters that get a column.
    default
        The approach's own hyperparameters, complete.
    run_of
        Returns the MLflow run of the cell with a key; the empty text if it has none.
    metrics
        Key of a cell -> what was measured (``score_std``, ``duration_seconds``).

    Returns
    -------
    pandas.DataFrame
        Columns as in :attr:`mlflow_l3d.studies.search.numbers.SearchResult.trials`. Numbers that are not known are nan,
        as is the score of a trial that failed.
    """
    import pandas as pd  # workers of a search import this module

    rows = []
    for stage, trial in ((name, trial) for name, trials in stages.items() for trial in trials):
        values = {**trial.params, **trial.hyperparameters}
        measurements = metrics.get(trial.key, {})
        rows.append(
            {
                "level": stage,
                **{name: getattr(trial, name) for name in ("number", "state", "origin", "score")},
                **{name: measurements.get(name, math.nan) for name in ("score_std", "duration_seconds")},
                "run_id": run_of(trial.key) if trial.key else "",
                "is_default": bool(trial.hyperparameters) and dict(trial.hyperparameters) == dict(default),
                **{name: values.get(name) for name in searched},
            }
        )
    return pd.DataFrame(rows)
