"""Values as they are typed: what a parameter may be, and how names, pairs, JSON and files are read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlflow_l3d import registry
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.paths import unique_pairs


@dataclass(frozen=True, slots=True)
class Choice:
    """One name of a closed list, or, if `parameter` is a key of `mlflow_l3d.registry.GROUPS`, one that is installed."""

    words: tuple[str, ...]
    parameter: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All that is allowed now."""
        return (*self.words, *registry.names(self.parameter)) if self.parameter else self.words

    @cache  # noqa: B019 - there are few
    def __str__(self) -> str:
        *others, last = self.names
        return f"{', '.join(others)} or {last}"

    def read(self, name: str, value: object) -> str:
        """Return the value of the parameter `name`, or raise a ParameterError."""
        if value not in (names := self.names):
            raise unknown_name(name, as_text(name, value), names)
        return str(value)


@dataclass(frozen=True, slots=True)
class Flag(Choice):
    """True or false."""

    words: tuple[str, ...] = ("true", "false")

    def read(self, name: str, value: object) -> Any:
        """Return the value of the parameter `name`, or raise a ParameterError."""
        word = str(value).lower() if isinstance(value, str | bool) else value
        return Choice.read(self, name, word) == "true"


@dataclass(frozen=True, slots=True)
class Number:
    """A number above `low`, or from `low` where that is `closed`, and below `high`; or one of `words`."""

    low: float
    high: float = math.inf
    words: tuple[str, ...] = ()
    closed: bool = False

    def __str__(self) -> str:
        low, high = ("from", "to") if self.closed else ("above", "and")
        words = "".join(f"{word} or " for word in self.words)
        return f"{words}a number {low} {self.low:g}" + (f" {high} below {self.high:g}" if self.high < math.inf else "")

    def read(self, name: str, value: object) -> Any:
        """Return the value of the parameter `name`, or raise a ParameterError."""
        return str(value) if value in self.words else self.number(name, value)

    def number(self, name: str, value: object) -> float:
        """Return the number that `value` is or says, or raise a ParameterError."""
        text = as_text(name, value)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not self.low < number < self.high and not (self.closed and number == self.low):
            raise ParameterError(name, text, f"must be {self}")
        return number


@dataclass(frozen=True, slots=True)
class Whole(Number):
    """A whole number of at least `low` and at most `high`; or one of `words`."""

    def __str__(self) -> str:
        bounds = f"of at least {self.low}" if self.high == math.inf else f"from {self.low} to {self.high}"
        words = {0: "", 1: "{} or ", 2: "{}, {}, or "}[len(self.words)].format(*self.words)
        return f"{words}a whole number {bounds}"

    def number(self, name: str, value: object) -> int:
        """Return the number that `value` is or says, or raise a ParameterError."""
        text = as_text(name, value)
        # Python itself reads more than people write: 1_000, and the digits of every script; and no more than 4,300.
        number = int(text) if re.fullmatch(r"\s*[-+]?[0-9]{1,1000}\s*", text) else None
        if number is None or not self.low <= number <= self.high:
            raise ParameterError(name, text, f"must be {self}")
        return number


Values = Choice | Number


def check_names(
    parameter: str, given: Iterable[object], known: Iterable[str], what: str = "one of", more: Container[object] = ()
) -> None:
    """Raise a ParameterError for the first name that is neither among those that are known, nor in `more`."""
    known = list(known)
    for name in given:
        if name == "dry_run" and parameter in ("parameter", "file"):
            plans = [registry.load("study", each).plans for each in registry.names("study")]
            functions = sorted(target.partition(":")[2] for target in plans if target.startswith("mlflow_l3d."))
            fix = f"In Python call {', '.join(functions[:-1])} or {functions[-1]} of mlflow_l3d."
            raise ParameterError(name, "...", "is an option of the command line, --dry-run", fix)
        if name not in known and name not in more:
            raise unknown_name(parameter, str(name), known, what)


def names_of(value: object) -> tuple[str, ...]:
    """Return several names: those of a list, or of a text that separates them by commas."""
    return tuple(name.strip() for name in as_text("", value).split(","))


def json_of(parameter: str, given: str, text: str) -> Any:
    """Return the JSON in `text`, which was given, or raise a ParameterError."""
    try:
        return json.loads(text, object_pairs_hook=unique_pairs)
    except (ValueError, RecursionError) as error:
        raise ParameterError(parameter, given, f"is not valid JSON ({error})") from error


def file_text(parameter: str, given: str, path: str) -> str:
    """Return the content of a file that was given, or raise a ParameterError."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParameterError(parameter, given, f"the file cannot be read ({reason})") from error


def as_text(name: str, value: object) -> str:
    """Return a value from Python as it would be typed: a mapping as JSON, a list separated by commas, ``true``.

    Raises
    ------
    ParameterError
        If a mapping holds what JSON cannot represent.
    """
    if isinstance(value, Mapping):
        try:
            return json.dumps(dict(value), sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ParameterError(name, dict(value), f"must hold numbers, texts and booleans only ({error})") from error
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def pairs(text: str) -> dict[str, str]:
    """Return the ``name=value`` pairs of a text, separated by commas; a word without a value is ``true``."""
    parts = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): value.strip() if sign else "true" for name, sign, value in parts}
