"""Studies as people look at them: scores in percentage points, every value that was tried in sight."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.studies.search.importances import in_memory
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.studies.search.results import CELL

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

LEVEL_TITLES: Final = {"coarse": "level 1: coarse", "fine": "level 2: fine"}


def in_points(study: Study) -> Study:
    """Return a copy for plots, in memory: scores and reports in percentage points, the same numbers of trials.

    A number that was tried outside the range (a default, say) is put among the parameters, for which the range of that
    trial is widened. Trials that have not ended are taken as failed.
    """
    optuna = need_optuna()
    states = optuna.trial.TrialState
    shown = in_memory(optuna.pruners.NopPruner(), study.direction)
    trials = study.get_trials(deepcopy=False)
    kinds = {name: kind for trial in trials for name, kind in trial.distributions.items()}
    for trial in trials:
        ended = trial.state.is_finished() and not (trial.state == states.COMPLETE and not _finite(trial))
        value = trial.value if trial.state == states.COMPLETE else None
        params, distributions = _widened(trial, kinds)
        shown.add_trial(
            optuna.trial.create_trial(
                state=trial.state if ended else states.FAIL,
                value=None if value is None or not ended else 100 * value,
                params=params,
                distributions=distributions,
                intermediate_values={
                    step: 100 * score for step, score in trial.intermediate_values.items() if math.isfinite(score)
                },
            )
        )
    return shown


def complete_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that are plotted."""
    states = need_optuna().trial.TrialState
    return study.get_trials(deepcopy=False, states=(states.COMPLETE,))


def varied(study: Study) -> list[str]:
    """Return the hyperparameters that have more than one value among the complete trials, by name."""
    tried: dict[str, set[Any]] = {}
    for trial in complete_trials(study):
        for name, value in trial.params.items():
            tried.setdefault(name, set()).add(value)
    return sorted(name for name, values in tried.items() if len(values) > 1)


def _finite(trial: FrozenTrial) -> bool:
    return trial.value is not None and math.isfinite(trial.value)


def _widened(
    trial: FrozenTrial, kinds: Mapping[str, BaseDistribution]
) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
    params, distributions = dict(trial.params), dict(trial.distributions)
    tried: Mapping[str, Value] = trial.user_attrs.get(CELL, {}).get("params", {})
    for name, value in tried.items():
        kind: Any = kinds.get(name)
        if name in params or not hasattr(kind, "low") or isinstance(value, bool | str) or (kind.log and value <= 0):
            continue
        if isinstance(value, float) and isinstance(kind.low, int):
            continue
        kind = copy.copy(kind)
        kind.low, kind.high = min(kind.low, value), max(kind.high, value)
        params[name], distributions[name] = value, kind
    return params, distributions


def log_ticks(values: list[float]) -> list[float]:
    """Return the ticks of a logarithmic axis: every decade, or where there are not three, both ends and the middle."""
    low, high = min(values), max(values)
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    decades = [10.0**power for power in range(first, last + 1)]
    if len(decades) >= 3:
        return decades[:: math.ceil(len(decades) / 4)]
    return [low, math.sqrt(low * high), high] if high > low else [low]


def two_lines(name: str, line_break: str) -> str:
    """Break a long name at the underscore nearest to its middle."""
    places = [at for at, letter in enumerate(name) if letter == "_"]
    if len(name) <= 14 or not places:
        return name
    place = min(places, key=lambda at: abs(at - len(name) // 2))
    return f"{name[: place + 1]}{line_break}{name[place + 1 :]}"


def values_of(study: Study, name: str) -> list[Any]:
    """Return what the complete trials tried of one hyperparameter."""
    return [trial.params[name] for trial in complete_trials(study) if name in trial.params]
