"""What a whole search found, as people are told it; frozen, and without Optuna."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pandas as pd

from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.search.held_out import HeldOut
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


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """One level of a search.

    Attributes
    ----------
    name
        ``coarse`` or ``fine``.
    sampler
        The one that was used, never ``auto``.
    ranges
        Searched hyperparameter -> its range as text; see :func:`range_text`.
    trials
        All that ended, those that were taken over from another level left out.
    complete, pruned, failed
        How they ended.
    best_score
        Best score of a complete trial, a fraction; nan without one.
    """

    name: str
    sampler: str
    ranges: Mapping[str, str]
    trials: int
    complete: int
    pruned: int
    failed: int
    best_score: float

    @classmethod
    def of(
        cls,
        name: str,
        sampler: str,
        ranges: Mapping[str, Searched],
        trials: Sequence[FinishedTrial],
        metric: Metric | None = None,
    ) -> LevelSummary:
        """Count the trials of a level; one that was taken over counts for the best score only."""
        own = [trial.state for trial in trials if trial.origin != "taken over"]
        best = best_of(list(trials), metric)
        return cls(
            name=name,
            sampler=sampler,
            ranges={each: range_text(searched) for each, searched in ranges.items()},
            trials=len(own),
            complete=own.count("complete"),
            pruned=own.count("pruned"),
            failed=own.count("failed"),
            best_score=math.nan if best is None or best.score is None else best.score,
        )


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A search that has ended.

    Attributes
    ----------
    title
        What was searched, as in ``finetuning on rotten_tomatoes: search of hyperparameters``.
    metric
        What is scored.
    levels
        In their order.
    trials
        One row a trial; columns :data:`TRIAL_COLUMNS` and one a searched hyperparameter; see :func:`trials_table`.
    best, default
        Complete hyperparameters: the found ones and the approach's own.
    best_score, default_score
        Their scores on the validation part, fractions; nan where the default was not scored.
    importances
        Searched hyperparameter -> share (0..1) of the variance of the score that it brings about alone, the largest
        first; empty where that is not known (`notes` say why).
    configurations
        How many splits and labelled sets each trial was trained on.
    validation_examples
        Examples that scored a trial, in each of these.
    held_out
        None where the found setting was not tried on other configurations.
    seconds
        Of the whole search.
    run_id
        MLflow's id of the search, to hand over its result; empty without one.
    notes
        Sentences.
    """

    title: str
    metric: str
    levels: tuple[LevelSummary, ...]
    trials: pd.DataFrame
    best: Mapping[str, Value]
    default: Mapping[str, Value]
    best_score: float
    default_score: float
    importances: Mapping[str, float]
    configurations: int
    validation_examples: int
    held_out: HeldOut | None = None
    seconds: float = math.nan
    run_id: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def searched(self) -> tuple[str, ...]:
        """Names that any level searched, in the order of the levels."""
        return tuple(dict.fromkeys(name for level in self.levels for name in level.ranges))

    @property
    def trials_run(self) -> int:
        """Trials of all levels together."""
        return sum(level.trials for level in self.levels)

    @property
    def kept_default(self) -> bool:
        """Whether the approach's own hyperparameters are the best."""
        return dict(self.best) == dict(self.default)


def trials_table(
    levels: Mapping[str, Sequence[FinishedTrial]],
    searched: Sequence[str],
    *,
    default: Mapping[str, Value],
    run_ids: Mapping[str, str] | None = None,
    metrics: Mapping[str, Mapping[str, float]] | None = None,
) -> pd.DataFrame:
    """Return one row a trial, in the order of levels and trials.

    Parameters
    ----------
    levels
        Name of a level -> its trials.
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
    for level, trials in levels.items():
        for trial in trials:
            measured = dict((metrics or {}).get(trial.key, {}))
            if trial.outcome is not None:
                measured |= {**trial.outcome.metrics, "duration_seconds": trial.outcome.duration_seconds}
            values = {**trial.params, **trial.hyperparameters}
            rows.append(
                {
                    "level": level,
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


def value_text(value: object) -> str:
    """Return a hyperparameter as people read it: a float with at most four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def range_text(searched: Searched) -> str:
    """Return what may be tried, as in ``1e-05 to 0.01, log scale``, or ``4, 8, 16``."""
    if isinstance(searched, SearchChoices):
        return ", ".join(value_text(choice) for choice in searched.choices)
    low, high = (value_text(int(each) if searched.whole else float(each)) for each in (searched.low, searched.high))
    return f"{low} to {high}{', log scale' if searched.log else ''}"
