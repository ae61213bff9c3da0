"""What is searched at each stage, declared by the approach or typed as `space`; and whole settings of a trial."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, SearchChoices, Searched, SearchRange, Value
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.parameters.values import check_names, file_text, json_of

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
            ``auto``, or what is searched instead; see :func:`mlflow_l3d.studies.search.space.read_space`.

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
        return {name: searched.values() for name, searched in self.ranges.items()}

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
            if isinstance(searched, SearchRange) and isinstance(best[name], bool | str):
                raise ParameterError(f"space.{name}", best[name], "must be a number")
            narrow = searched.around(best[name])
            if isinstance(narrow, SearchRange):
                ranges[name] = narrow
            else:
                fixed[name] = narrow
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


_FORMS: Final = "must be auto, a .json file, a JSON object, or name=low..high, name=a|b|c or name, separated by commas"
_SCALES: Final = ("linear", "log")


def read_space(text: str, approach: Approach, offered: Mapping[str, Searched]) -> dict[str, Searched]:
    """Return what `text` says is searched; :func:`check_searched` checks its values.

    Parameters
    ----------
    text
        A ``.json`` file, a JSON object (``{"epochs": {"low": 2, "high": 9, "log": true, "coarse": [2, 9]},
        "batch_size": [4, 8]}``), or ``learning_rate=1e-5..1e-2:log,batch_size=4|8,dropout``. Bounds without a scale
        have the one that `offered`, or the declaration, has; a name alone takes all of that.
    approach
        Its declarations decide what is allowed.
    offered
        What the approach itself would search.

    Raises
    ------
    ParameterError
        For the first entry that is not allowed; named ``space.<name>``.
    """
    entries: Any
    if text.startswith("{") or text.endswith(".json"):
        entries = json_of("space", text, text if text.startswith("{") else file_text("space", text, text))
        if not isinstance(entries, dict):
            raise ParameterError("space", text, "must hold a JSON object, name -> what is searched")
    else:
        entries = _inline_entries(text)
    check_names("space", entries, approach.hyperparameters, f"a name of {approach.name}:")
    declared = {name: approach.hyperparameters[name] for name in entries}
    return {name: _searched(name, entry, declared[name], offered.get(name)) for name, entry in entries.items()}


def check_searched(name: str, searched: Searched, declaration: Hyperparameter) -> Searched:
    """Return `searched` with every value as the hyperparameter's type.

    Raises
    ------
    ParameterError
        If a value is not allowed, a bound is not below the other, or there are not two values.
    """
    parameter = f"space.{name}"
    if isinstance(searched, SearchChoices):
        choices = tuple(dict.fromkeys(_parse(name, value, declaration) for value in searched.choices))
        if len(choices) < 2:
            shown = "|".join(map(str, choices))
            fix = f"Leave it out of space, and fix it with hyperparameters={name}={shown}." if choices else ""
            raise ParameterError(parameter, shown, "needs at least two different values", fix)
        return SearchChoices(choices)
    if not declaration.is_number:
        raise ParameterError(parameter, f"{searched.low}..{searched.high}", "is not a number", f"Use {name}=a|b|c.")
    low, high, *coarse = (
        float(_parse(name, each, declaration)) for each in (searched.low, searched.high, *searched.coarse)
    )
    if not low < high:
        raise ParameterError(parameter, f"{low:g}..{high:g}", "must have a low bound below its high one")
    if searched.log and low <= 0:
        fix = f"Use {name}={low:g}..{high:g}:linear, or a positive low bound."
        raise ParameterError(parameter, f"{low:g}..{high:g}:log", "must be positive on a logarithmic scale", fix)
    rising = tuple(sorted(set(coarse)))
    if rising and not low <= rising[0] <= rising[-1] <= high:
        shown = "|".join(f"{value:g}" for value in rising)
        raise ParameterError(f"{parameter}.coarse", shown, f"must lie in [{low:g}, {high:g}]")
    return SearchRange(low, high, log=searched.log, whole=declaration.type is int, coarse=rising)


def _parse(name: str, value: object, declaration: Hyperparameter) -> Value:
    """Return a value, checked; `auto`, which stands for a number that is not known here, is none."""
    try:
        parsed = declaration.parse(name, value)
    except ParameterError as error:
        shown = error.value if isinstance(error.value, str | int | float) else repr(error.value)
        raise ParameterError(f"space.{name}", shown, error.allowed, error.fix) from None
    if declaration.is_number and isinstance(parsed, str):
        raise ParameterError(f"space.{name}", value, "must be a number")
    return parsed


def _searched(name: str, entry: Any, declaration: Hyperparameter, offered: Searched | None) -> Searched:
    """Return one entry: None is all that is offered or declared, a list is choices, a mapping bounds."""
    whole_range = offered if offered is not None else declaration.searched()
    if entry is None:
        if whole_range is None:
            raise ParameterError("space", name, "has no bounds of its own", f"Use {name}=a|b or {name}=low..high.")
        return whole_range
    if isinstance(entry, list):
        return SearchChoices(tuple(entry))
    if isinstance(entry, dict):
        check_names(f"space.{name}", entry, ("low", "high", "log", "coarse"))
    if not isinstance(entry, dict) or not {"low", "high"} <= set(entry):
        allowed = "must be a list of values, or an object with low and high"
        raise ParameterError(f"space.{name}", json.dumps(entry), allowed)
    log = entry.get("log", whole_range.log if isinstance(whole_range, SearchRange) else declaration.log)
    coarse = entry.get("coarse", [])
    if not isinstance(log, bool) or not isinstance(coarse, list):
        allowed = "must have true or false as log, and a list of numbers as coarse"
        raise ParameterError(f"space.{name}", json.dumps(entry), allowed)
    return SearchRange(entry["low"], entry["high"], log=log, coarse=tuple(coarse))


def _inline_entries(text: str) -> dict[str, Any]:
    """Return the entries of ``name=low..high:scale,name=a|b|c,name`` as the JSON form has them."""
    entries: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not value):
            raise ParameterError("space", text, _FORMS)
        if name in entries:
            raise ParameterError("space", text, f"must name {name} once")
        entries[name] = None
        if ".." in value.partition(":")[0]:
            bounds, colon, scale = (piece.strip() for piece in value.partition(":"))
            if colon and scale not in _SCALES:
                raise unknown_name(f"space.{name}", scale, _SCALES)
            low, _, high = (piece.strip() for piece in bounds.partition(".."))
            entries[name] = {"low": low, "high": high, **({"log": scale == "log"} if colon else {})}
        elif equals:
            entries[name] = [choice.strip() for choice in value.split("|")]
    return entries
