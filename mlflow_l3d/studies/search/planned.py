"""Settings that are known before the first trial: a grid in random order, or quasi-random points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange, Value
from mlflow_l3d.plan.factors import stream
from mlflow_l3d.studies.search.samplers import PLANNED, Stage
from mlflow_l3d.studies.search.space import SearchSpace

_MOST: Final = 2**62
_DOUBLINGS: Final = 6


def planned(
    space: SearchSpace,
    *,
    sampler: str,
    stage: Stage,
    trials: int,
    seed: int,
    done: Iterable[Mapping[str, Value]] = (),
) -> tuple[dict[str, Value], ...]:
    """Return the settings to queue, in the order of the trials.

    They are queued because Optuna's own samplers of this kind stop the study themselves, which only works inside
    ``study.optimize``, or are experimental there.

    Parameters
    ----------
    space
        Of the stage.
    sampler
        A name from :func:`mlflow_l3d.studies.search.samplers.sampler_name`.
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
    size = min(space.grid_size, _MOST)
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
