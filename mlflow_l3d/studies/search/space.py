"""What is searched at each stage: few values far apart, then a narrow range around the best; and whole settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, SearchRange, Value
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.search.space_text import check_searched, read_space

AUTO: Final = "auto"
Number = int | float


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """What one stage of a search may try.

    Attributes
    ----------
    ranges
        Name -> what is tried; empty at level 2 where level 1 searched nothing but choices.
    fixed
        Name -> value of what an earlier stage searched and this one does not.
    """

    ranges: Mapping[str, Searched]
    fixed: Mapping[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, approach: Approach, hyperparameters: Mapping[str, Value], override: str = AUTO) -> SearchSpace:
        """Return the space of level 1.

        Parameters
        ----------
        approach
            It declares what is searched; see ``search_space`` of :class:`mlflow_l3d.approaches.base.Approach`.
        hyperparameters
            Complete.
        override
            ``auto``, or what is searched in place of that; see :func:`mlflow_l3d.studies.search.space_text.read_space`.

        Raises
        ------
        ParameterError
            If a name or a value is not allowed, nothing is left to search, or the approach accepts no combination.
        """
        offered = approach.search_space(hyperparameters)
        text = override.strip()
        found = offered if text == AUTO else read_space(text, approach, offered) if text else {}
        if not found:
            fix = "Name what is searched, as in space=learning_rate=1e-5..1e-2."
            raise ParameterError("space", override, f"has nothing to search for approach={approach.name}", fix)
        ranges = {name: check_searched(name, each, approach.hyperparameters[name]) for name, each in found.items()}
        space = cls(ranges)
        _check_some_accepted(space, approach, hyperparameters)
        return space

    def coarse(self) -> dict[str, tuple[Value, ...]]:
        """Return the values of level 1: name -> few of them, rising; all choices, in their order."""
        return {
            name: each.choices if isinstance(each, SearchChoices) else coarse_values(each)
            for name, each in self.ranges.items()
        }

    @property
    def grid_size(self) -> int:
        """How many combinations of the coarse values there are."""
        return math.prod(len(values) for values in self.coarse().values())

    def grid_point(self, index: int) -> dict[str, Value]:
        """Return combination `index`, from 0 to ``grid_size - 1``, of the coarse values; the last name runs fastest."""
        point: dict[str, Value] = {}
        coarse = self.coarse()
        for name in reversed(coarse):
            index, position = divmod(index, len(coarse[name]))
            point[name] = coarse[name][position]
        return {name: point[name] for name in coarse}

    def contains(self, name: str, value: Value) -> bool:
        """Return whether `value` is one that `name` may have here."""
        each = self.ranges[name]
        if isinstance(each, SearchChoices):
            return any(value == choice and type(value) is type(choice) for choice in each.choices)
        return isinstance(value, int | float) and not isinstance(value, bool) and each.low <= value <= each.high

    def around(self, best: Mapping[str, Value]) -> SearchSpace:
        """Return the space of level 2: numbers one coarse step to both sides of `best`, choices as they are there.

        Parameters
        ----------
        best
            The best hyperparameters of this stage; other names in it are not looked at.

        Returns
        -------
        SearchSpace
            What has but one value left is among `fixed`.

        Raises
        ------
        ParameterError
            If a searched number is not one in `best`.
        """
        ranges: dict[str, Searched] = {}
        fixed = dict(self.fixed)
        for name, each in self.ranges.items():
            value = best[name]
            if isinstance(each, SearchChoices):
                fixed[name] = value
                continue
            if isinstance(value, bool | str):
                raise ParameterError(f"space.{name}", value, "must be a number")
            left = narrowed(each, value)
            if isinstance(left, int | float):
                fixed[name] = left
            else:
                ranges[name] = left
        return SearchSpace(ranges, fixed)

    def document(self) -> dict[str, Any]:
        """Return the space as JSON types."""
        coarse = self.coarse()
        ranges: dict[str, Any] = {
            name: {"choices": list(each.choices)}
            if isinstance(each, SearchChoices)
            else {
                "low": each.low,
                "high": each.high,
                "log": each.log,
                "whole": each.whole,
                "coarse": list(coarse[name]),
            }
            for name, each in self.ranges.items()
        }
        return {"ranges": ranges, "fixed": dict(self.fixed), "grid_size": self.grid_size}


def setting(approach: Approach, base: Mapping[str, Value], params: Mapping[str, Value]) -> dict[str, Value]:
    """Return the complete hyperparameters of a trial.

    Parameters
    ----------
    approach
        Its ``complete`` is called where it has one.
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
    resolved = resolve_hyperparameters(approach, {**base, **params})
    return approach.complete(resolved)


def _check_some_accepted(space: SearchSpace, approach: Approach, base: Mapping[str, Value]) -> None:
    """Raise what the approach says of the first combination where it accepts none of those looked at."""
    refused: list[ParameterError] = []
    size = space.grid_size
    # Combinations that are looked at for one that the approach accepts.
    for index in range(0, size, max(1, size // 500)):
        try:
            setting(approach, base, space.grid_point(index))
        except ParameterError as error:
            refused.append(error)
        else:
            return
    name = refused[0].name.replace("hyperparameters.", "space.", 1)
    raise ParameterError(name, refused[0].value, refused[0].allowed, refused[0].fix) from None


def coarse_values(searched: SearchRange) -> tuple[Number, ...]:
    """Return the values of level 1, rising.

    Those that the range names; else three evenly spaced ones, bounds included; with ``log`` the powers of ten inside
    the bounds (with the bounds themselves where these are fewer than three), or three in geometric progression where
    the range is less than two decades. Values between the bounds are rounded to three digits.
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


def narrowed(searched: SearchRange, best: float) -> SearchRange | Number:
    """Return the range of level 2: one step of level 1 to both sides of `best`, within the bounds.

    Where `best` is a value of level 1, the steps are those to its neighbours (at an end, the only one there is, to both
    sides); between two values it is the step between them. With ``log`` a step is a factor.

    Parameters
    ----------
    searched
        The range of level 1.
    best
        Taken to the nearest bound where it lies outside.

    Returns
    -------
    SearchRange or number
        Without values of its own for level 1; a number where only one is left.
    """
    best = min(max(float(best), searched.low), searched.high)
    scale, back = (math.log, math.exp) if searched.log else (float, float)
    values = [scale(value) for value in coarse_values(searched)]
    below, above = _steps(values, scale(best))
    low = max(back(scale(best) - below), searched.low) if below else searched.low
    high = min(back(scale(best) + above), searched.high) if above else searched.high
    if searched.whole:
        low, high = float(round(low)), float(round(high))
    else:
        low, high = _rounded(low, searched), _rounded(high, searched)
    low, high = min(low, best), max(high, best)
    if low == high:
        return _typed(best, searched)
    return replace(searched, low=low, high=high, coarse=())


def _steps(values: list[float], best: float) -> tuple[float, float]:
    """Return the steps below and above `best` among rising values, 0 where there is but one value."""
    gaps = [after - before for before, after in itertools.pairwise(values)]
    if not gaps:
        return 0.0, 0.0
    tolerance = 1e-9 * max(gaps)
    under = sum(value < best - tolerance for value in values)  # values[under - 1] is the neighbour below
    over = sum(value <= best + tolerance for value in values)  # values[over] is the neighbour above
    below, above = min(max(under - 1, 0), len(gaps) - 1), min(max(over - 1, 0), len(gaps) - 1)
    return gaps[below], gaps[above]


def _rounded(value: float, searched: SearchRange) -> float:
    """Return `value` with few digits, where that hardly moves it, and within the bounds."""
    short = float(f"{value:.3g}")
    near = abs(short - value) <= 0.01 * (searched.high - searched.low)
    return min(max(short if near else value, searched.low), searched.high)


def _typed(value: float, searched: SearchRange) -> Number:
    return int(min(max(round(value), searched.low), searched.high)) if searched.whole else float(value)
