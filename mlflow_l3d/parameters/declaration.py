"""How a parameter is declared: once, as an item of a TypedDict, which editors, mypy and every door read."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.values import Choice, Number, Registered, Whole, as_text

F = TypeVar("F", bound=Callable[..., Any])
Auto = Literal["auto"] | None
No = Literal["none"] | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a verb.

    Attributes
    ----------
    name, default, help
        Its name in Python, its default as typed, and one line of help.
    values
        What it may be, if it is one of a list or a number; otherwise its user checks it.
    type
        Its type in Python.
    """

    name: str
    default: str
    help: str
    values: Choice | Registered | Whole | Number | None = None
    type: Any = str

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    def parse(self, given: Mapping[str, str]) -> Any:
        """Return its value among texts as typed: a number, None for a word in place of one, or the text itself.

        Raises
        ------
        ParameterError
            If it is not allowed.
        """
        text = given[self.name]
        return text if self.values is None else self.values.parse(self.name, text)

    def typed(self, given: Mapping[str, object]) -> str:
        """Return its value among those from Python as it would be typed; None is ``none`` if that is allowed.

        Raises
        ------
        ParameterError
            If it cannot be typed.
        """
        value = given.get(self.name, self.default)
        if value is None:
            return "none" if "none" in getattr(self.values, "words", ()) else self.default
        return as_text(self.name, value)

    @property
    def python_default(self) -> Any:
        """The default as Python has it."""
        is_text = self.values is None or isinstance(self.values, Choice | Registered)
        if self.type is not bool and (is_text or self.default in getattr(self.values, "words", ())):
            return self.default
        return json.loads(self.default)


Parameters = Mapping[str, Parameter]
"""Name -> parameter, in the order in which people read them."""


def declared(*groups: type) -> Parameters:
    """Return the parameters that TypedDicts declare, in their order."""
    hints = {name: hint for group in groups for name, hint in get_type_hints(group, include_extras=True).items()}
    return {name: _parameter(name, hint.__origin__, *hint.__metadata__) for name, hint in hints.items()}


def _parameter(name: str, kind: Any, of: Of) -> Parameter:
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    words = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
    values: Choice | Registered | Whole | Number | None = None
    if bool in parts:
        values = Choice(("true", "false"))
    elif float in parts:
        values = Number(of.low, of.high, of.closed, words)
    elif int in parts and str not in parts:
        values = Whole(int(of.low), None if math.isinf(of.high) else int(of.high), words)
    elif of.registered:
        values = Registered(name)
    elif words and str not in parts:
        values = Choice(words)
    help_text = f"approach={of.approach}: {of.help}" if of.approach else of.help
    return Parameter(name, of.default, help_text, values, kind)


def with_signature(*groups: type) -> Callable[[F], F]:
    """Return a decorator: ``inspect.signature`` and editors see each parameter in place of ``**parameters``."""

    def decorated(function: F) -> F:
        signature, keyword = inspect.signature(function), inspect.Parameter.KEYWORD_ONLY
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, keyword, default=parameter.python_default, annotation=parameter.type)
            for name, parameter in declared(*groups).items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return decorated
