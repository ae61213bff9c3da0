"""What the user asks for: parameters, each declared once, as an item of a TypedDict that all doors and editors read."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.values import Choice, Flag, Number, Values, Whole, as_text, check_names

F = TypeVar("F", bound=Callable[..., Any])
Auto = Literal["auto"] | None
No = Literal["none"] | None


@dataclass(frozen=True, slots=True)
class Of:
    """What a declaration says in addition to the type: ``name: Annotated[type, Of(...)]``.

    Attributes
    ----------
    default, help
        The default as it is typed on the command line, and one line of help.
    low, high
        Bounds of a number: those of a whole number are allowed values, those of another are not.
    closed
        Whether `low` is allowed for a number that is not whole.
    registered
        Whether the value is the name of an entry point.
    approach
        The one approach that takes the parameter, which the shown help begins with; empty if every approach does.
    """

    default: str
    help: str
    low: float = 0
    high: float = math.inf
    closed: bool = False
    registered: bool = False
    approach: str = ""


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
    takes_lists
        Whether a list from Python stays one; that of another parameter is read as it would be typed.
    """

    name: str
    default: str
    help: str
    values: Values | None = None
    type: Any = str
    takes_lists: bool = False

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def none(self) -> str:
        """What None from Python stands for, as typed: ``none`` if that is allowed, or the default."""
        return "none" if "none" in getattr(self.values, "words", ()) else self.default

    def read(self, value: object) -> Any:
        """Return a value, from Python or as typed, as its type in Python.

        Raises
        ------
        ParameterError
            If it is not allowed.
        """
        if value is None:
            value = self.none
        # A path, a device or a list is read as it would be typed; the others stay what they are.
        is_number = isinstance(value, numbers.Number) and self.values is not None
        is_mapping = isinstance(value, Mapping) and self.type is not str
        is_kept = is_number or is_mapping or isinstance(value, str) or callable(value) or is_dataclass(value)
        if not self.takes_lists and not is_kept:
            text = as_text(self.name, value)
            if "\n" in text and not isinstance(value, list | tuple):  # of a data frame or an array
                raise ParameterError(self.name, type(value).__name__, "must be a text or a number")
            value = text
        return value if self.values is None else self.values.read(self.name.rstrip("_"), value)

    @property
    def python_default(self) -> Any:
        """The default as Python has it."""
        return self.read(self.default)


Parameters = Mapping[str, Parameter]
"""Name -> parameter, in the order in which people read them."""


class Arguments(dict[str, Any]):
    """What a verb was asked for, checked: name -> value, of every parameter, those at their defaults included.

    Parameters
    ----------
    typed
        As their types in Python.
    texts
        As they would be typed: what MLflow logs.
    """

    def __init__(self, typed: Mapping[str, Any], texts: Mapping[str, str]) -> None:
        super().__init__(typed)
        self.texts = texts

    def changed(self, **values: Any) -> Arguments:
        """Return the same with other values of some parameters."""
        texts = {name: as_text(name, value) for name, value in values.items()}
        return Arguments({**self, **values}, {**self.texts, **texts})


def read_arguments(parameters: Mapping[str, object], known: Parameters, unread: Sequence[str] = ()) -> Arguments:
    """Return the arguments, from Python or as typed; of the `unread` parameters any value is taken.

    Raises
    ------
    ParameterError
        If a parameter is unknown, or a value is not allowed.

    Examples
    --------
    >>> known = {"runs": Parameter("runs", "auto", "how many", Whole(2, words=("auto",)))}
    >>> read_arguments({"runs": "3"}, known)["runs"], read_arguments({}, known)["runs"]
    (3, 'auto')
    """
    check_names("parameter", parameters, known)
    values, texts = {}, {}
    for name, parameter in known.items():
        value = parameters.get(name, parameter.default)
        values[name] = value if name in unread else parameter.read(value)
        texts[name] = as_text(name, parameter.none if value is None else value)
    return Arguments(values, texts)


def declared(*groups: type) -> Parameters:
    """Return the parameters that TypedDicts declare, in their order."""
    hints = {name: hint for group in groups for name, hint in get_type_hints(group, include_extras=True).items()}
    return {name: _parameter(name, hint.__origin__, *hint.__metadata__) for name, hint in hints.items()}


def _parameter(name: str, kind: Any, of: Of) -> Parameter:
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    words = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
    values: Values | None = None
    if bool in parts:
        values = Flag()
    elif float in parts:
        values = Number(of.low, of.high, words, of.closed)
    elif int in parts and str not in parts:
        values = Whole(of.low, of.high, words)
    elif of.registered:
        values = Choice(words, name)
    elif words and str not in parts:
        values = Choice(words)
    help_text = f"approach={of.approach}: {of.help}" if of.approach else of.help
    takes_lists = any(part in (Any, object) or get_origin(part) is Sequence for part in parts)
    return Parameter(name, of.default, help_text, values, kind, takes_lists)


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
