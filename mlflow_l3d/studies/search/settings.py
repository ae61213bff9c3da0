"""Settings of trials beside Optuna: what is queued, what was taken over, what the space does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.studies.search.results import GIVEN
from mlflow_l3d.studies.search.space import SearchSpace

if TYPE_CHECKING:
    import optuna


def enqueue(study: optuna.Study, space: SearchSpace, params: Mapping[str, Value]) -> None:
    """Put a setting at the end of the queue.

    A value that the space does not hold, such as a default outside of it, is no parameter of Optuna's trial, so that no
    sampler learns from it; :func:`setting_of` returns it all the same.
    """
    study.enqueue_trial(_inside(space, params), user_attrs={GIVEN: dict(params)})


def setting_of(trial: optuna.Trial, space: SearchSpace) -> dict[str, Value]:
    """Return what a trial tries: what it was queued with, and suggestions for all else that is searched."""
    from mlflow_l3d.studies.search.study import suggest

    queued: Mapping[str, Value] = trial.user_attrs.get(GIVEN, {})
    outside = set(queued) - set(_inside(space, queued))
    asked = replace(space, ranges={name: each for name, each in space.ranges.items() if name not in outside})
    return {**suggest(trial, asked), **queued}


def add_finished(
    study: optuna.Study, space: SearchSpace, params: Mapping[str, Value], score: float, attributes: Mapping[str, Any]
) -> None:
    """Add a complete trial whose score is known from elsewhere; `attributes` are user attributes, JSON types."""
    import optuna

    from mlflow_l3d.studies.search.study import distributions

    inside, kinds = _inside(space, params), distributions(space)
    study.add_trial(
        optuna.trial.create_trial(
            state=optuna.trial.TrialState.COMPLETE,
            params=inside,
            distributions={name: kinds[name] for name in inside},
            value=score,
            user_attrs=dict(attributes),
        )
    )


def _inside(space: SearchSpace, params: Mapping[str, Value]) -> dict[str, Value]:
    return {name: params[name] for name in space.ranges if name in params and space.contains(name, params[name])}
