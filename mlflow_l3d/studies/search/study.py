"""Optuna's side of a stage: its study, what a trial is asked, and settings that are queued, or known from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.studies.search.results import CELL, GIVEN, RESULT, FinishedTrial
from mlflow_l3d.studies.search.space import SearchSpace

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import Trial


def open_study(
    storage: BaseStorage, name: str, sampler: BaseSampler, pruner: BasePruner, *, metric: Metric | None = None
) -> Study:
    """Return the study of one stage, a new one or the one that is there; in the direction of `metric`, else upwards."""
    optuna = need_optuna()
    direction = "maximize" if metric is None or metric.greater_is_better else "minimize"
    study: Study = optuna.create_study(
        study_name=name, storage=storage, sampler=sampler, pruner=pruner, direction=direction, load_if_exists=True
    )
    return study


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Return name -> Optuna's distribution: the whole range, also at level 1, where few values of it are queued."""
    kinds = need_optuna().distributions
    asked = {name: _asked(each) for name, each in space.ranges.items()}
    return {
        name: getattr(kinds, f"{kind.capitalize()}Distribution")(*bounds, **scale)
        for name, (kind, bounds, scale) in asked.items()
    }


def suggest(trial: Trial, space: SearchSpace) -> dict[str, Value]:
    """Return what a trial tries: name -> value, of all that is searched and all that an earlier stage fixed."""
    found = dict(space.fixed)
    for name, each in space.ranges.items():
        kind, bounds, scale = _asked(each)
        found[name] = getattr(trial, f"suggest_{kind}")(name, *bounds, **scale)
    return found


def _asked(each: Searched) -> tuple[str, tuple[Any, ...], dict[str, bool]]:
    """Return what Optuna calls a range, its bounds, and its scale."""
    if isinstance(each, SearchChoices):
        return "categorical", (each.choices,), {}
    kind, number = ("int", int) if each.whole else ("float", float)
    return kind, (number(each.low), number(each.high)), {"log": each.log}


def enqueue(study: Study, space: SearchSpace, params: Mapping[str, Value]) -> None:
    """Put a setting at the end of the queue.

    A value that the space does not hold, such as a default outside of it, is no parameter of Optuna's trial, so that no
    sampler learns from it; :func:`setting_of` returns it all the same.
    """
    study.enqueue_trial(_inside(space, params), user_attrs={GIVEN: dict(params)})


def setting_of(trial: Trial, space: SearchSpace) -> dict[str, Value]:
    """Return what a trial tries: what it was queued with, and suggestions for all else that is searched."""
    queued: Mapping[str, Value] = trial.user_attrs.get(GIVEN, {})
    outside = set(queued) - set(_inside(space, queued))
    asked = replace(space, ranges={name: each for name, each in space.ranges.items() if name not in outside})
    return {**suggest(trial, asked), **queued}


def take_over(study: Study, space: SearchSpace, best: FinishedTrial) -> None:
    """Let a stage begin with the best trial of the stage before, which is not trained again.

    Parameters
    ----------
    study, space
        Of the stage that begins; nothing happens where the study has trials.
    best
        A complete trial.
    """
    if study.get_trials(deepcopy=False):
        return
    taken, inside, kinds = replace(best, origin="taken over"), _inside(space, best.params), distributions(space)
    trial = need_optuna().trial.create_trial(
        params=inside,
        distributions={name: kinds[name] for name in inside},
        value=best.score,
        user_attrs={CELL: taken.identity(), RESULT: taken.result()},
    )
    study.add_trial(trial)


def _inside(space: SearchSpace, params: Mapping[str, Value]) -> dict[str, Value]:
    return {name: params[name] for name in space.ranges if name in params and space.contains(name, params[name])}
