"""Samplers and pruners by name, ours by default, and any of Optuna's; settings that are planned beforehand."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange, Value
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.plan.factors import stream, stream_seed
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.studies.search.space import SearchSpace

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

Stage = Literal["coarse", "fine"]
PLANNED: Final = ("grid", "qmc")
"""Samplers whose settings are all known before the first trial; see :func:`planned`."""
_STARTUP: Final = 5
_DOUBLINGS: Final = 6
_SAMPLERS: Final[Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...]]]] = {
    "tpe": ("TPESampler", {"multivariate": False, "constant_liar": True, "n_startup_trials": _STARTUP}, ()),
    "random": ("RandomSampler", {}, ()),
    "cmaes": ("CmaEsSampler", {"warn_independent_sampling": False}, ("cmaes",)),
    "gp": ("GPSampler", {"warn_independent_sampling": False, "n_startup_trials": _STARTUP}, ("torch", "scipy")),
    "nsgaii": ("NSGAIISampler", {}, ()),
    "nsgaiii": ("NSGAIIISampler", {}, ()),
}
"""Name -> Optuna's class, its arguments, and the packages that it needs beside Optuna.

Optuna's others do not fit: they stop the study themselves once they have tried everything, or wrap another sampler.
"""
_WAYS: Final = {"n_startup_trials": _STARTUP, "n_warmup_steps": 1, "n_min_trials": 3}
_PRUNERS: Final[Mapping[str, Callable[[Any], BasePruner]]] = {
    "none": lambda pruners: pruners.NopPruner(),
    "median": lambda pruners: pruners.MedianPruner(**_WAYS),
    "percentile": lambda pruners: pruners.PercentilePruner(25.0, **_WAYS),
    "successive_halving": lambda pruners: pruners.SuccessiveHalvingPruner(),
    "hyperband": lambda pruners: pruners.HyperbandPruner(),
    "patient": lambda pruners: pruners.PatientPruner(pruners.MedianPruner(**_WAYS), patience=2),
    "wilcoxon": lambda pruners: pruners.WilcoxonPruner(),
}


def sampler_name(name: str, *, stage: Stage, grid_size: int, trials: int) -> str:
    """Return the short name of a sampler: ``grid``, ``qmc``, ``tpe``, ``random``, ``cmaes``, ``gp``, ``nsgaii(i)``.

    Parameters
    ----------
    name
        ``auto``, a short name, or the name of Optuna's class (``TPESampler``), in any case. ``auto`` is, at level 1,
        the grid where `trials` can hold it, else quasi-random points (qmc); at level 2 it is tpe.
    stage
        ``coarse`` or ``fine``.
    grid_size
        Combinations of level 1, those that are tried anyway left out.
    trials
        How many the stage may still try.

    Raises
    ------
    ParameterError
        If there is no such sampler, with a did-you-mean, or a package that it needs is missing.
    """
    known = {"auto": "auto", **{name: name for name in PLANNED}, **{name: name for name in _SAMPLERS}}
    found = known.get(_plain(name, "sampler"))
    if found is None:
        raise unknown_name("sampler", name.strip(), known)
    if found == "auto":
        found = "tpe" if stage == "fine" else "grid" if grid_size <= trials else "qmc"
    for package in _SAMPLERS[found][2] if found in _SAMPLERS else ():
        if find_spec(package) is None:
            fix = f"Run: pip install {package}"
            raise ParameterError("sampler", name, f"needs the package {package}, which is not installed", fix)
    return found


def sampler_of(name: str, stage: Stage, seed: int, begun: int = 0) -> BaseSampler:
    """Return a sampler of Optuna.

    Parameters
    ----------
    name, stage
        See :func:`sampler_name`; not ``auto``. For ``grid`` and ``qmc`` it is one that draws at random: their settings
        are queued (:func:`planned`), and it answers for what is asked beyond them.
    seed
        Zero is a seed. Each stage has its own stream of it.
    begun
        How many trials the study holds; every number has its own stream.

    Raises
    ------
    ParameterError
        As :func:`sampler_name`.
    """
    short = sampler_name(name, stage=stage, grid_size=0, trials=0)
    optuna = need_optuna()
    class_name, arguments, _ = _SAMPLERS["random" if short in PLANNED else short]
    number = stream_seed(seed, "search sampler", stage, str(begun)) % 2**32  # numpy's old generators take no more
    with _asked_for(optuna):
        sampler: BaseSampler = getattr(optuna.samplers, class_name)(seed=number, **arguments)
    return sampler


def pruner_name(name: str) -> str:
    """Return the short name of a pruner; ``auto`` is ``median``.

    Raises
    ------
    ParameterError
        If there is no such pruner, with a did-you-mean.
    """
    known = {"auto": "median", "nop": "none", **{_plain(short, "pruner"): short for short in _PRUNERS}}
    found = known.get(_plain(name, "pruner"))
    if found is None:
        raise unknown_name("pruner", name.strip(), ("auto", *_PRUNERS))
    return found


def pruner_of(name: str) -> BasePruner:
    """Return a pruner of Optuna.

    Parameters
    ----------
    name
        ``auto`` and ``median``: a trial ends whose best score so far is below the median of the others at the same
        epoch; never in the first epoch, nor before 5 trials are complete, nor where fewer than 3 came that far.
        ``percentile``: the same with the best quarter. ``none``, ``successive_halving``, ``hyperband``, ``patient``
        (median, after 2 epochs without a better score), ``wilcoxon``, or the name of Optuna's class.

    Raises
    ------
    ParameterError
        If there is no such pruner.
    """
    short = pruner_name(name)
    optuna = need_optuna()
    with _asked_for(optuna):
        return _PRUNERS[short](optuna.pruners)


def _plain(name: str, ending: str) -> str:
    return name.strip().lower().replace("_", "").replace("-", "").removesuffix(ending)


@contextmanager
def _asked_for(optuna: Any) -> Iterator[None]:
    """Say nothing of a class that may still change in Optuna: the user asked for it by name, no default is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def planned(
    space: SearchSpace, *, sampler: str, stage: Stage, trials: int, seed: int, done: Iterable[Mapping[str, Value]] = ()
) -> tuple[dict[str, Value], ...]:
    """Return the settings to queue, in the order of the trials.

    They are queued because Optuna's own samplers of this kind stop the study themselves, which only works inside
    ``study.optimize``, or are experimental there.

    Parameters
    ----------
    space
        Of the stage.
    sampler
        A name from :func:`sampler_name`.
    stage
        At level 1 (``coarse``) ``qmc`` takes the coarse values, at level 2 any number of the range.
    trials
        How many are wanted at most.
    seed
        It decides the order of the grid, or scrambles the Sobol sequence; zero is a seed.
    done
        Settings that are tried anyway, such as the defaults; left out. Other names in them are not looked at.

    Returns
    -------
    tuple of dict
        All different. At most `trials`, fewer where there are no more; empty for a sampler that learns from the trials.
    """
    if sampler not in PLANNED or not space.ranges or trials < 1:
        return ()
    seen = {_key(each, space) for each in done if set(space.ranges) <= set(each)}
    found: dict[tuple[Value, ...], dict[str, Value]] = {}
    points = _grid(space, trials + len(seen), seed) if sampler == "grid" else _sobol(space, stage, trials, seed)
    for point in points:
        key = _key(point, space)
        if key not in seen:
            found.setdefault(key, point)
        if len(found) == trials:
            break
    return tuple(found.values())


def _key(point: Mapping[str, Value], space: SearchSpace) -> tuple[Value, ...]:
    return tuple(point[name] for name in space.ranges)


def _grid(space: SearchSpace, most: int, seed: int) -> Iterator[dict[str, Value]]:
    size = min(space.grid_size, 2**62)
    order = stream(seed, "search grid").choice(size, size=min(most, size), replace=False, shuffle=True)
    return (space.grid_point(int(index)) for index in order)


def _sobol(space: SearchSpace, stage: Stage, trials: int, seed: int) -> Iterator[dict[str, Value]]:
    """Yield points of one scrambled Sobol sequence, many more than `trials`: values with few digits repeat."""
    from scipy.stats import qmc

    engine = qmc.Sobol(len(space.ranges), scramble=True, rng=stream(seed, "search qmc", stage))
    power = math.ceil(math.log2(max(trials, 2)))
    rows: Any = engine.random_base2(power)
    for doubling in range(_DOUBLINGS + 1):
        for row in rows:
            yield _point(space, stage, [float(number) for number in row])
        if doubling < _DOUBLINGS:
            rows = engine.random_base2(power + doubling)


def _point(space: SearchSpace, stage: Stage, row: list[float]) -> dict[str, Value]:
    """Return the setting of a point of the unit cube."""
    coarse = space.coarse()
    point: dict[str, Value] = {}
    for uniform, (name, each) in zip(row, space.ranges.items(), strict=True):
        if stage == "coarse" or isinstance(each, SearchChoices):
            point[name] = coarse[name][min(int(uniform * len(coarse[name])), len(coarse[name]) - 1)]
        else:
            point[name] = _inside(each, uniform)
    return point


def _inside(each: SearchRange, uniform: float) -> int | float:
    if each.whole:
        low, high = each.low - 0.5, each.high + 0.5
    else:
        low, high = each.low, each.high
    value = low * (high / low) ** uniform if each.log else low + (high - low) * uniform
    value = min(max(value, each.low), each.high)
    return int(min(max(round(value), each.low), each.high)) if each.whole else float(value)
