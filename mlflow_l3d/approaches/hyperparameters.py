"""Hyperparameters: what each of them is, what may be searched, and values that follow from others."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from mlflow_l3d.errors import ParameterError, check_known, unknown_name

Value = bool | int | float | str

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class SearchRange:
    """A number between two bounds.

    Attributes
    ----------
    low, high
        Inclusive bounds, in the unit of the hyperparameter.
    log
        Whether orders of magnitude matter; `low` is then positive.
    whole
        Whether it is a whole number.
    coarse
        The values of level 1, rising; empty if they follow from the bounds (:meth:`values`).
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False
    coarse: tuple[float, ...] = ()

    def values(self) -> tuple[Value, ...]:
        """Return the values of level 1, rising.

        Those that the range names; else three evenly spaced ones, bounds included; with ``log`` the powers of ten
        inside the bounds (with the bounds themselves if these are fewer than three), or three in geometric progression
        if the range is less than two decades. Values between the bounds are rounded to three digits.
        """
        low, high = self.low, self.high
        if self.coarse:
            values = list(self.coarse)
        elif not self.log:
            values = [low, self._rounded(low + (high - low) / 2), high]
        elif math.log10(high) - math.log10(low) < 2 - 1e-9:
            values = [low, self._rounded(math.exp((math.log(low) + math.log(high)) / 2)), high]
        else:
            first = math.ceil(math.log10(low) - 1e-9)
            last = math.floor(math.log10(high) + 1e-9)
            values = [min(max(float(f"1e{power}"), low), high) for power in range(first, last + 1)]
            values = values if len(values) >= 3 else [low, *values, high]
        return tuple(sorted({self._typed(value) for value in values}))

    def holds(self, value: Value) -> bool:
        """Return whether a value may be tried."""
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def around(self, best: Value) -> SearchRange | Value:
        """Return the range of level 2: one step of level 1 to both sides of `best`, within the bounds.

        If `best` is a value of level 1, the steps are those to its neighbours (at an end, the only one there is, to
        both sides); between two values it is the step between them. With ``log`` a step is a factor.

        Parameters
        ----------
        best
            A number, taken to the nearest bound if it lies outside.

        Returns
        -------
        SearchRange or number
            Without values of its own for level 1; a number if only one is left.
        """
        best = min(max(float(best), self.low), self.high)
        scale, back = (math.log, math.exp) if self.log else (float, float)
        below, above = _steps([scale(float(value)) for value in self.values()], scale(best))
        low = max(back(scale(best) - below), self.low) if below else self.low
        high = min(back(scale(best) + above), self.high) if above else self.high
        low, high = (float(round(end)) if self.whole else self._rounded(end) for end in (low, high))
        low, high = min(low, best), max(high, best)
        return self._typed(best) if low == high else replace(self, low=low, high=high, coarse=())

    def _rounded(self, value: float) -> float:
        """Return `value` with few digits, if the change is negligible, and within the bounds."""
        short = float(f"{value:.3g}")
        is_near = abs(short - value) <= 0.01 * (self.high - self.low)
        return min(max(short if is_near else value, self.low), self.high)

    def _typed(self, value: float) -> int | float:
        return int(min(max(round(value), self.low), self.high)) if self.whole else float(value)


def _steps(values: list[float], best: float) -> tuple[float, float]:
    """Return the steps below and above `best` among rising values, 0 if there is only one value."""
    gaps = [after - before for before, after in pairwise(values)]
    if not gaps:
        return 0.0, 0.0
    tolerance = 1e-9 * max(gaps)
    below = bisect_left(values, best - tolerance) - 1  # the neighbour below starts this gap
    above = bisect_right(values, best + tolerance) - 1  # the neighbour above ends this gap
    return gaps[min(max(below, 0), len(gaps) - 1)], gaps[min(max(above, 0), len(gaps) - 1)]


@dataclass(frozen=True, slots=True)
class SearchChoices:
    """One of some values, which have no order: all of them at level 1, the best one at level 2."""

    choices: tuple[Value, ...]

    def values(self) -> tuple[Value, ...]:
        """Return all of them, in their order."""
        return self.choices

    def holds(self, value: Value) -> bool:
        """Return whether a value may be tried: true is not 1."""
        return any(value == choice and type(value) is type(choice) for choice in self.choices)

    def around(self, best: Value) -> Value:
        """Return the best one, which level 2 keeps."""
        return best


Searched = SearchRange | SearchChoices


@dataclass(frozen=True, slots=True)
class Hyperparameter:
    """One hyperparameter: its type (that of `default`), what is allowed, and what it does.

    Attributes
    ----------
    default
        The value if the user gives none; its type is the type of the hyperparameter.
    help
        One line, with the unit.
    low, high
        Inclusive bounds of a number; None for no bound.
    choices
        Allowed values of a text; empty if any text is allowed.
    log
        Whether orders of magnitude matter (a search then samples on a log scale).
    auto
        ``int`` or ``float`` for a number that may also be ``auto``, its default: the approach's ``complete`` then sets
        the value that goes with the others.
    several
        Whether several of the choices may be given, with ``|`` between them.

    Examples
    --------
    >>> import mlflow_l3d
    >>> rate = mlflow_l3d.Hyperparameter(1e-3, "learning rate", low=0.0, high=1.0, log=True)
    >>> rate.parse("rate", "0.01")
    0.01
    >>> rate.parse("rate", 2)
    Traceback (most recent call last):
        ...
    mlflow_l3d.errors.ParameterError: hyperparameters.rate=2: must lie in [0, 1].
    """

    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    log: bool = False
    auto: type[int | float] | None = None
    several: bool = False

    @property
    def type(self) -> type:
        """Type of its values other than ``auto``."""
        return self.auto or type(self.default)

    @property
    def is_number(self) -> bool:
        """Whether it is a number, or a number or ``auto``."""
        return self.type in {int, float}

    def parse(self, name: str, value: object) -> Value:
        """Return `value` as this hyperparameter's type.

        Raises
        ------
        ParameterError
            If it has another type or lies outside the bounds.
        """
        if self.auto and str(value).strip().lower() == AUTO:
            return AUTO
        try:
            parsed = _convert(self.type, value)
        except (OverflowError, TypeError, ValueError):
            raise ParameterError(f"hyperparameters.{name}", value, f"must be a {self.type.__name__}") from None
        if self.several and isinstance(parsed, str):
            parsed = self._listed(name, parsed)
        elif self.choices and parsed not in self.choices:
            raise unknown_name(f"hyperparameters.{name}", str(parsed), self.choices)
        if isinstance(parsed, int | float) and self.is_number:
            low = -math.inf if self.low is None else self.low
            high = math.inf if self.high is None else self.high
            if not low <= parsed <= high or not math.isfinite(parsed):
                raise ParameterError(f"hyperparameters.{name}", value, f"must lie in [{low:g}, {high:g}]")
        return parsed

    def _listed(self, name: str, text: str) -> str:
        """Return choices with ``|`` between them, each known and there once."""
        names = [each.strip() for each in text.split("|")]
        check_known(f"hyperparameters.{name}", names, self.choices)
        if len(set(names)) < len(names):
            raise ParameterError(f"hyperparameters.{name}", text, "must name each choice once")
        return "|".join(names)

    def searched(self) -> Searched | None:
        """Return all that it allows, or None if that is open or a single value.

        The scale is logarithmic if the declaration asks for it and the lower bound is positive.
        """
        if self.type is bool:
            return SearchChoices((False, True))
        if len(self.choices) >= 2:
            return SearchChoices(self.choices)
        low, high = self.low, self.high
        if not self.is_number or low is None or high is None or not low < high:
            return None
        return SearchRange(low, high, log=self.log and low > 0, whole=self.type is int)


def hyperparameter(default: Value, help: str, **limits: Any) -> Any:
    """Return the field of a dataclass for a :class:`Hyperparameter`; see :func:`declared`."""
    return field(metadata={"declared": Hyperparameter(default, help, **limits)})


def declared(recipe: type) -> dict[str, Hyperparameter]:
    """Return name -> declaration of a dataclass whose fields are ``name: type = hyperparameter(...)``.

    The texts of a field's ``Literal`` are its choices, and a number whose default is ``auto`` is a number or that.
    """
    declarations: dict[str, Hyperparameter] = {each.name: each.metadata["declared"] for each in fields(recipe)}
    for name, hint in get_type_hints(recipe).items():
        if get_origin(hint) is Literal:
            declarations[name] = replace(declarations[name], choices=get_args(hint))
        elif hint in (int, float) and declarations[name].default == AUTO:
            declarations[name] = replace(declarations[name], auto=hint)
    return declarations


def completed(
    hyperparameters: Mapping[str, Value],
    declarations: Mapping[str, Hyperparameter],
    deciding: str,
    values: Mapping[str, Mapping[str, Value]],
    without_effect: Mapping[str, Sequence[str]],
) -> dict[str, Value]:
    """Return hyperparameters with values in place of ``auto`` that one of them decides; the rest as it is.

    Parameters
    ----------
    hyperparameters, declarations
        All of the approach.
    deciding
        Name of the one that decides.
    values
        What it may be -> what goes with it.
    without_effect
        What it may be -> names that have no effect with it.

    Raises
    ------
    ParameterError
        If one that has no effect differs from its default.
    """
    choice = str(hyperparameters[deciding])
    for name in without_effect.get(choice, ()):
        if hyperparameters[name] != declarations[name].default:
            allowed = f"has no effect with {deciding}={choice}"
            raise ParameterError(f"hyperparameters.{name}", hyperparameters[name], allowed, "Leave it out.")
    defaults = values[choice]
    return {name: defaults.get(name, value) if value == AUTO else value for name, value in hyperparameters.items()}


def _convert(kind: type, value: object) -> Value:
    if kind is bool:
        text = str(value).lower()
        if text not in {"true", "false"}:
            raise ValueError
        return text == "true"
    if kind is str:
        return str(value)
    number = float(str(value))
    if isinstance(value, bool) or (kind is int and number != int(number)):
        raise ValueError
    return int(number) if kind is int else number
