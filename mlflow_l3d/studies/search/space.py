"""What is searched at each stage: few values far apart, then a narrow range around the best; and whole settings."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import AUTO, SearchChoices, Searched, SearchRange, Value
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.search.space_text import check_searched, read_space

Number = int | float
Setting = Mapping[str, Value]
"""Hyperparameter -> value."""


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """What one stage of a search may try.

    Attributes
    ----------
    ranges
        Name -> what is tried; empty at level 2 if level 1 searched nothing but choices.
    fixed
        Name -> value of what an earlier stage searched and this one does not.
    """

    ranges: Mapping[str, Searched]
    fixed: Mapping[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, approach: Approach, hyperparameters: Setting, override: str = AUTO) -> SearchSpace:
        """Return the space of level 1.

        Parameters
        ----------
        approach
            It declares what is searched; see ``search_space`` of :class:`mlflow_l3d.approaches.base.Approach`.
        hyperparameters
            Complete.
        override
            ``auto``, or what is searched instead; see :func:`mlflow_l3d.studies.search.space_text.read_space`.

        Raises
        ------
        ParameterError
            If a name or a value is not allowed, nothing is left to search, or the approach accepts no combination.
        """
        searched = approach.search_space(hyperparameters)
        if (text := override.strip()) != AUTO:
            searched = read_space(text, approach, searched) if text else {}
        if not searched:
            fix = "Name what is searched, as in space=learning_rate=1e-5..1e-2."
            raise ParameterError("space", override, f"has nothing to search for approach={approach.name}", fix)
        space = cls(
            {name: check_searched(name, each, approach.hyperparameters[name]) for name, each in searched.items()}
        )
        _check_some_accepted(space, approach, hyperparameters)
        return space

    def coarse(self) -> dict[str, tuple[Value, ...]]:
        """Return the values of level 1: name -> few of them, rising; all choices, in their order."""
        return {
            name: searched.choices if isinstance(searched, SearchChoices) else coarse_values(searched)
            for name, searched in self.ranges.items()
        }

    @property
    def grid_size(self) -> int:
        """How many combinations of the coarse values there are."""
        return math.prod(map(len, self.coarse().values()))

    def grid_point(self, index: int) -> Setting:
        """Return combination `index`, from 0 to ``grid_size - 1``, of the coarse values; the last name runs fastest."""
        point: dict[str, Value] = {}
        for name, values in reversed(self.coarse().items()):
            index, position = divmod(index, len(values))
            point[name] = values[position]
        return {name: point[name] for name in self.ranges}

    def contains(self, name: str, value: Value) -> bool:
        """Return whether `value` is one that `name` may have here."""
        searched = self.ranges[name]
        if isinstance(searched, SearchChoices):
            return any(value == choice and type(value) is type(choice) for choice in searched.choices)
        return isinstance(value, int | float) and not isinstance(value, bool) and searched.low <= value <= searched.high

    def around(self, best: Setting) -> SearchSpace:
        """Return the space of level 2: numbers one coarse step to both sides of `best`, choices as they are there.

        Parameters
        ----------
        best
            The best hyperparameters of this stage; other names in it are ignored.

        Returns
        -------
        SearchSpace
            Hyperparameters with only one value left are among `fixed`.

        Raises
        ------
        ParameterError
            If a searched number is not one in `best`.
        """
        ranges: dict[str, Searched] = {}
        fixed = dict(self.fixed)
        for name, searched in self.ranges.items():
            value = best[name]
            if isinstance(searched, SearchRange):
                if isinstance(value, bool | str):
                    raise ParameterError(f"space.{name}", value, "must be a number")
                narrow = narrow_range(searched, value)
                if isinstance(narrow, SearchRange):
                    ranges[name] = narrow
                    continue
                value = narrow
            fixed[name] = value
        return SearchSpace(ranges, fixed)

    def document(self) -> dict[str, Any]:
        """Return the space as JSON types."""
        ranges = {name: asdict(searched) for name, searched in self.ranges.items()}
        for name, values in self.coarse().items():
            ranges[name]["choices" if "choices" in ranges[name] else "coarse"] = list(values)
        return {"ranges": ranges, "fixed": dict(self.fixed), "grid_size": self.grid_size}


def complete_setting(approach: Approach, base: Setting, params: Setting) -> dict[str, Value]:
    """Return the complete hyperparameters of a trial.

    Parameters
    ----------
    approach
        Its ``complete`` is called if it has one.
    base
        What holds for all trials: as the user gave it, so that what follows from another hyperparameter follows from
        that of the trial; or complete, and it stays.
    params
        What the trial tries.

    Raises
    ------
    ParameterError
        If the approach does not accept them together: the trial fails.
    """
    return approach.complete(resolve_hyperparameters(approach, {**base, **params}))


def _check_some_accepted(space: SearchSpace, approach: Approach, base: Setting) -> None:
    """Raise the approach's error for the first combination if it accepts none of those that are tried."""
    refused: list[ParameterError] = []
    size = space.grid_size
    for index in range(0, size, max(1, size // 500)):
        try:
            complete_setting(approach, base, space.grid_point(index))
        except ParameterError as error:
            refused.append(error)
        else:
            return
    name = refused[0].name.replace("hyperparameters.", "space.", 1)
    raise ParameterError(name, refused[0].value, refused[0].allowed, refused[0].fix) from None


def grid_settings(space: SearchSpace, *, trials: int, seed: int, done: Iterable[Setting] = ()) -> list[Setting]:
    """Return combinations of the coarse values, all different, in random order; a part of them if there are more.

    Parameters
    ----------
    space
        Of the stage.
    trials
        How many are returned at most.
    seed
        It decides the order; zero is a seed.
    done
        Settings that are tried anyway, such as the defaults; left out. Other names in them are ignored.
    """
    seen = [{name: each.get(name) for name in space.ranges} for each in done]
    size = min(space.grid_size, 2**62)
    order = stream(seed, "search grid").choice(size, size=min(trials + len(seen), size), replace=False, shuffle=True)
    return [point for point in (space.grid_point(int(index)) for index in order) if point not in seen][:trials]


def coarse_values(searched: SearchRange) -> tuple[Number, ...]:
    """Return the values of level 1, rising.

    Those that the range names; else three evenly spaced ones, bounds included; with ``log`` the powers of ten inside
    the bounds (with the bounds themselves if these are fewer than three), or three in geometric progression if the
    range is less than two decades. Values between the bounds are rounded to three digits.
    """
    low, high = searched.low, searched.high
    if searched.coarse:
        values = list(searched.coarse)
    elif not searched.log:
        values = [low, _rounded(low + (high - low) / 2, searched), high]
    elif math.log10(high) - math.log10(low) < 2 - 1e-9:
        values = [low, _rounded(math.exp((math.log(low) + math.log(high)) / 2), searched), high]
    else:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        values = [min(max(float(f"1e{power}"), low), high) for power in range(first, last + 1)]
        values = values if len(values) >= 3 else [low, *values, high]
    return tuple(sorted({_typed(value, searched) for value in values}))


def narrow_range(searched: SearchRange, best: float) -> SearchRange | Number:
    """Return the range of level 2: one step of level 1 to both sides of `best`, within the bounds.

    If `best` is a value of level 1, the steps are those to its neighbours (at an end, the only one there is, to both
    sides); between two values it is the step between them. With ``log`` a step is a factor.

    Parameters
    ----------
    searched
        The range of level 1.
    best
        Taken to the nearest bound if it lies outside.

    Returns
    -------
    SearchRange or number
        Without values of its own for level 1; a number if only one is left.
    """
    best = min(max(float(best), searched.low), searched.high)
    scale, back = (math.log, math.exp) if searched.log else (float, float)
    below, above = _steps([scale(value) for value in coarse_values(searched)], scale(best))
    low = max(back(scale(best) - below), searched.low) if below else searched.low
    high = min(back(scale(best) + above), searched.high) if above else searched.high
    low, high = (float(round(end)) if searched.whole else _rounded(end, searched) for end in (low, high))
    low, high = min(low, best), max(high, best)
    return _typed(best, searched) if low == high else replace(searched, low=low, high=high, coarse=())


def _steps(values: list[float], best: float) -> tuple[float, float]:
    """Return the steps below and above `best` among rising values, 0 if there is only one value."""
    gaps = [after - before for before, after in itertools.pairwise(values)]
    if not gaps:
        return 0.0, 0.0
    tolerance = 1e-9 * max(gaps)
    below = bisect_left(values, best - tolerance) - 1  # the neighbour below starts this gap
    above = bisect_right(values, best + tolerance) - 1  # the neighbour above ends this gap
    return gaps[min(max(below, 0), len(gaps) - 1)], gaps[min(max(above, 0), len(gaps) - 1)]


def _rounded(value: float, searched: SearchRange) -> float:
    """Return `value` with few digits, if the change is negligible, and within the bounds."""
    short = float(f"{value:.3g}")
    is_near = abs(short - value) <= 0.01 * (searched.high - searched.low)
    return min(max(short if is_near else value, searched.low), searched.high)


def _typed(value: float, searched: SearchRange) -> Number:
    return int(min(max(round(value), searched.low), searched.high)) if searched.whole else float(value)
