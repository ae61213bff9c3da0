"""What may be typed for hyperparameters: a source, a source and values that override it, or values alone."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.values import as_text, file_text, json_of

SourceName = Literal["default", "paper", "search", "file", "inline"]

NAMES: Final[Mapping[str, SourceName]] = {"default": "default", "paper": "paper", "latest": "search"}
_ALLOWED: Final = (
    "must be default, paper, latest, the id of a search run, a .json file, a JSON object, or name=value,name=value"
)
RUN_ID: Final = re.compile(r"[0-9a-f]{32}")
_PAIR: Final = re.compile(r"\w+\s*=")
_FILE: Final = re.compile(r"(.*?\.json)\s*,(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Given:
    """What was typed, taken apart.

    Attributes
    ----------
    text
        As it was typed.
    source
        Its kind; ``search`` for ``latest`` and for the id of a search's run.
    name
        The part of the text that names the source.
    values
        Content of the file or of the inline object; empty for other sources.
    overrides
        Values that stand beside the source, as typed.
    """

    text: str
    source: SourceName
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)


def parse(hyperparameters: str | Mapping[str, Any]) -> Given:
    """Take apart what was asked for as hyperparameters.

    Parameters
    ----------
    hyperparameters
        Their values; or ``default``, ``paper``, ``latest``, the id of a search run (32 hexadecimal digits), a file
        whose name ends with ``.json``, or a JSON object; each may be followed by a comma and ``name=value,name=value``,
        which win. Or such pairs alone.

    Raises
    ------
    ParameterError
        If it is none of these, or a file cannot be read.
    """
    text = as_text("hyperparameters", hyperparameters)
    if isinstance(hyperparameters, Mapping):
        return Given(text, "inline", "the values", hyperparameters)
    stripped = text.strip()
    if stripped.startswith("{"):
        values, rest = _inline_object(text, stripped)
        return Given(text, "inline", "the JSON object", values, _overrides(text, rest))
    if not _PAIR.match(stripped) or _is_file(stripped):
        name, rest = _file(stripped)
        if name:
            return Given(text, "file", name, _json_file(text, name), _overrides(text, rest))
    name, comma, rest = stripped.partition(",")
    name = name.strip()
    source = "search" if RUN_ID.fullmatch(name) else NAMES.get(name)
    if source is not None:
        return Given(text, source, name, {}, _overrides(text, comma + rest))
    return Given(text, "inline", "the values", _pairs(text, stripped))


def _file(text: str) -> tuple[str, str]:
    """Return the name of a file and what follows it; two empty texts where none is named."""
    found = _FILE.fullmatch(text)
    if text.endswith(".json") and (found is None or _is_file(text)):
        return text, ""
    return (found[1], f",{found[2]}") if found else ("", "")


def _is_file(name: str) -> bool:
    try:
        return name.endswith(".json") and Path(name).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # too long a name, or the home of nobody
        return False


def _inline_object(text: str, stripped: str) -> tuple[dict[str, Any], str]:
    """Return the object at the start of the text, and what follows it."""
    try:
        parsed, end = json.JSONDecoder().raw_decode(stripped)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ParameterError("hyperparameters", text, f"is not valid JSON ({error})") from error
    rest = stripped[end:].strip()
    if rest and not rest.startswith(","):
        raise ParameterError("hyperparameters", text, "must be a JSON object; a comma and name=value may follow it")
    return parsed, rest


def _json_file(text: str, name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json_of("hyperparameters", text, file_text("hyperparameters", text, name))
    if not isinstance(parsed, dict):
        raise ParameterError("hyperparameters", text, "must hold a JSON object, name -> value")
    return parsed


def _overrides(text: str, rest: str) -> dict[str, Any]:
    """Return the pairs of what follows a source: nothing, or a comma and pairs."""
    return _pairs(text, rest.removeprefix(",")) if rest else {}


def _pairs(text: str, pairs: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for part in pairs.split(","):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not name:
            close = difflib.get_close_matches(name.casefold(), NAMES, n=1, cutoff=0.7) if not equals else []
            raise ParameterError("hyperparameters", text, _ALLOWED, f"Did you mean {close[0]!r}?" if close else "")
        if name in values:
            raise ParameterError("hyperparameters", text, f"must name {name} once")
        values[name] = value.strip()
    return values
