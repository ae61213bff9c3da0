"""Samplers and pruners by name, ours by default, and any of Optuna's; the grid of level 1."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.plan.factors import stream, stream_seed
from mlflow_l3d.studies.search.space import SearchSpace

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

Stage = Literal["coarse", "fine"]
Kind = Literal["sampler", "pruner"]
GRID: Final = "grid"
_UNFIT: Final = {"base", "basega", "grid", "bruteforce", "partialfixed", "patient", "threshold"}
"""Optuna's classes that end the study themselves, or that need to be told more than a seed."""
_STARTUP: Final = {"n_startup_trials": 5}
_WAYS: Final = {**_STARTUP, "n_warmup_steps": 1, "n_min_trials": 3}
_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "tpe": {"multivariate": False, "constant_liar": True, **_STARTUP},
    "gp": {"warn_independent_sampling": False, **_STARTUP},
    "cmaes": {"warn_independent_sampling": False},
    "qmc": {"warn_independent_sampling": False},
    "median": _WAYS,
    "percentile": {"percentile": 25.0, **_WAYS},
}


def need_optuna() -> ModuleType:
    """Return the module `optuna`, whose messages about each trial are off: the search has its own.

    Raises
    ------
    L3DError
        If it is not installed.
    """
    if find_spec("optuna") is None:
        raise L3DError("A search of hyperparameters needs the package optuna. Run: pip install 'mlflow-l3d[search]'")
    import optuna

    if optuna.logging.get_verbosity() == optuna.logging.INFO:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def sampler_name(parameter: str, typed: str, stage: Stage) -> str:
    """Return the short name of a sampler: ``grid``, or that of Optuna's class (``tpe`` of ``TPESampler``).

    Parameters
    ----------
    parameter
        What it was typed for.
    typed
        ``auto`` (the grid at level 1, tpe at level 2), or a name in any case, with or without ``Sampler``.
    stage
        ``coarse`` or ``fine``.

    Raises
    ------
    ParameterError
        If there is no such sampler, with a did-you-mean, or the package that it needs is missing.
    """
    name = _short_name(parameter, typed, "sampler", auto=GRID if stage == "coarse" else "tpe", more=GRID)
    if name == "cmaes" and find_spec(name) is None:
        fix = "Run: pip install cmaes"
        raise ParameterError(parameter, typed, "needs the package cmaes, which is not installed", fix)
    return name


def pruner_name(typed: str) -> str:
    """Return the short name of a pruner: ``none``, or that of Optuna's class; ``auto`` is ``median``.

    ``median``: a trial ends whose best score so far is below the median of the others at the same epoch; never in the
    first epoch, nor before 5 trials are complete, nor if fewer than 3 came that far. ``percentile``: the same with the
    best quarter.

    Raises
    ------
    ParameterError
        If there is no such pruner, with a did-you-mean.
    """
    name = _short_name("pruner", typed, "pruner", auto="median", more="none")
    return "none" if name == "nop" else name


def sampler_of(name: str, stage: Stage, seed: int, begun: int = 0) -> BaseSampler:
    """Return a sampler of Optuna.

    Parameters
    ----------
    name
        From :func:`sampler_name`; for ``grid``, whose settings are known beforehand, it is one that draws at random.
    stage, seed
        Each stage has its own stream of the seed; zero is a seed.
    begun
        How many trials the study holds; every number has its own stream.
    """
    number = stream_seed(seed, "search sampler", stage, str(begun)) % 2**32  # numpy's old generators take no more
    sampler: BaseSampler = _made("random" if name == GRID else name, "sampler", seed=number)
    return sampler


def pruner_of(name: str) -> BasePruner:
    """Return a pruner of Optuna, by its name from :func:`pruner_name`."""
    pruner: BasePruner = _made("nop" if name == "none" else name, "pruner")
    return pruner


def _short_name(parameter: str, typed: str, kind: Kind, *, auto: str, more: str) -> str:
    known = {"auto", more, *_classes(kind)}
    name = typed.strip().lower().replace("_", "").replace("-", "").removesuffix(kind)
    if name not in known:
        raise unknown_name(parameter, typed.strip(), known)
    return auto if name == "auto" else name


def _classes(kind: Kind) -> dict[str, Any]:
    """Return short name -> class of Optuna's samplers or pruners."""
    module, ending = getattr(need_optuna(), f"{kind}s"), kind.capitalize()
    found = {each.removesuffix(ending).lower(): getattr(module, each) for each in module.__all__ if each[0].isupper()}
    return {name: each for name, each in found.items() if name not in _UNFIT}


def _made(name: str, kind: Kind, **more: Any) -> Any:
    """Return one of Optuna's; nothing is said of a class that may still change there: the user asked for it by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", need_optuna().exceptions.ExperimentalWarning)
        return _classes(kind)[name](**more, **_ARGUMENTS.get(name, {}))


def grid_settings(
    space: SearchSpace, *, trials: int, seed: int, done: Iterable[Mapping[str, Value]] = ()
) -> list[dict[str, Value]]:
    """Return combinations of the coarse values, all different, in random order; a part of them if there are more.

    Parameters
    ----------
    space
        Of the stage.
    trials
        How many are wanted at most.
    seed
        It decides the order; zero is a seed.
    done
        Settings that are tried anyway, such as the defaults; left out. Other names in them are not looked at.
    """
    seen = [{name: each.get(name) for name in space.ranges} for each in done]
    size = min(space.grid_size, 2**62)
    order = stream(seed, "search grid").choice(size, size=min(trials + len(seen), size), replace=False, shuffle=True)
    points = (space.grid_point(int(index)) for index in order)
    return [point for point in points if point not in seen][:trials]
