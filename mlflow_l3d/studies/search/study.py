"""Optuna's side of a stage: its study, what a trial is asked, and settings that are queued, or known from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.studies.search.results import GIVEN
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
    found: dict[str, BaseDistribution] = {}
    for name, each in space.ranges.items():
        if isinstance(each, SearchChoices):
            found[name] = kinds.CategoricalDistribution(each.choices)
        elif each.whole:
            found[name] = kinds.IntDistribution(int(each.low), int(each.high), log=each.log)
        else:
            found[name] = kinds.FloatDistribution(each.low, each.high, log=each.log)
    return found


def suggest(trial: Trial, space: SearchSpace) -> dict[str, Value]:
    """Return what a trial tries: name -> value, of all that is searched and all that an earlier stage fixed."""
    return {**space.fixed, **{name: _suggested(trial, name, each) for name, each in space.ranges.items()}}


def _suggested(trial: Trial, name: str, each: Searched) -> Value:
    if isinstance(each, SearchChoices):
        return cast("Value", trial.suggest_categorical(name, each.choices))
    if each.whole:
        return trial.suggest_int(name, int(each.low), int(each.high), log=each.log)
    return trial.suggest_float(name, each.low, each.high, log=each.log)


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


def add_finished(
    study: Study, space: SearchSpace, params: Mapping[str, Value], score: float, attributes: Mapping[str, Any]
) -> None:
    """Add a complete trial whose score is known from elsewhere; `attributes` are user attributes, JSON types."""
    trial = need_optuna().trial
    inside, kinds = _inside(space, params), distributions(space)
    study.add_trial(
        trial.create_trial(
            state=trial.TrialState.COMPLETE,
            params=inside,
            distributions={name: kinds[name] for name in inside},
            value=score,
            user_attrs=dict(attributes),
        )
    )


def _inside(space: SearchSpace, params: Mapping[str, Value]) -> dict[str, Value]:
    return {name: params[name] for name in space.ranges if name in params and space.contains(name, params[name])}
