"""Optuna's side of a level: its storage, sampler and pruner by name, its study, and what a trial is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.studies.search.planned import planned
from mlflow_l3d.studies.search.samplers import PLANNED, Level, pruner_name, pruner_of, sampler_name, sampler_of
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.storages import public_storage, storage_of, storage_place

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import Trial

__all__ = [
    "PLANNED",
    "Level",
    "distributions",
    "open_study",
    "planned",
    "pruner_name",
    "pruner_of",
    "public_storage",
    "sampler_name",
    "sampler_of",
    "storage_of",
    "storage_place",
    "suggest",
]


def open_study(
    storage: BaseStorage, name: str, sampler: BaseSampler, pruner: BasePruner, *, metric: Metric | None = None
) -> Study:
    """Return the study of one level, a new one or the one that is there; in the direction of `metric`, else upwards."""
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
    """Return what a trial tries: name -> value, of all that is searched and all that an earlier level fixed."""
    return {**space.fixed, **{name: _suggested(trial, name, each) for name, each in space.ranges.items()}}


def _suggested(trial: Trial, name: str, each: Searched) -> Value:
    if isinstance(each, SearchChoices):
        return cast("Value", trial.suggest_categorical(name, each.choices))
    if each.whole:
        return trial.suggest_int(name, int(each.low), int(each.high), log=each.log)
    return trial.suggest_float(name, each.low, each.high, log=each.log)
