"""What is searched at each stage, and the complete hyperparameters of a trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, Value
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.search.space_text import check_searched, read_space
from mlflow_l3d.studies.search.stages import coarse_values, narrowed

AUTO: Final = "auto"
_MOST_TRIED: Final = 500
"""Combinations that are looked at for one that the approach accepts."""


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
    first: ParameterError | None = None
    size = space.grid_size
    for index in range(0, size, max(1, size // _MOST_TRIED)):
        try:
            setting(approach, base, space.grid_point(index))
        except ParameterError as error:
            first = first or error
        else:
            return
    if first is not None:
        name = first.name.replace("hyperparameters.", "space.", 1)
        raise ParameterError(name, first.value, first.allowed, first.fix) from None
