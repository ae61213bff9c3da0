"""What a whole search found, counted and listed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.search import Scale, StageSummary
from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import value_text
from mlflow_l3d.studies.search.results import FinishedTrial, best_of

TRIAL_COLUMNS: Final = (
    "level",
    "number",
    "state",
    "origin",
    "score",
    "score_std",
    "duration_seconds",
    "run_id",
    "is_default",
)
"""Columns of a table of trials that every search has; all others are searched hyperparameters."""


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
    run_ids: Mapping[str, str] | None = None,
    metrics: Mapping[str, Mapping[str, float]] | None = None,
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
    run_ids
        Key of a cell -> its MLflow run.
    metrics
        Key of a cell -> what was measured (``score_std``, ``duration_seconds``), for trials without an outcome: those
        that were read from a study.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`TRIAL_COLUMNS` and `searched`. Numbers that are not known are nan, as the score of a trial that
        failed.
    """
    rows = []
    for stage, trials in stages.items():
        for trial in trials:
            measured = dict((metrics or {}).get(trial.key, {}))
            if trial.outcome is not None:
                measured |= {**trial.outcome.metrics, "duration_seconds": trial.outcome.duration_seconds}
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
                    "run_id": (run_ids or {}).get(trial.key, ""),
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
