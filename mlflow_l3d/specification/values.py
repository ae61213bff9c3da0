"""Values as they are typed: numbers, `auto`, and hyperparameters in their three forms."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

from mlflow_l3d.errors import ParameterError


def integer(name: str, value: str, low: int) -> int:
    """Return `value` as a whole number of at least `low`.

    Raises
    ------
    ParameterError
        If it is none.
    """
    try:
        number = int(value)
    except ValueError:
        raise ParameterError(name, value, f"must be a whole number of at least {low}") from None
    if number < low:
        raise ParameterError(name, value, f"must be a whole number of at least {low}")
    return number


def number_or_auto(name: str, value: str, low: int) -> int | None:
    """Return `value` as :func:`integer` does, or None for `auto`."""
    if value == "auto":
        return None
    try:
        return integer(name, value, low)
    except ParameterError:
        raise ParameterError(name, value, f"must be auto or a whole number of at least {low}") from None


def parse_hyperparameters(text: str) -> dict[str, Any]:
    """Return the hyperparameters that `text` gives: nothing for ``default``, a JSON file, inline JSON, or ``a=1,b=2``.

    Raises
    ------
    ParameterError
        If it is none of these.
    """
    if text == "default":
        return {}
    if text.lstrip().startswith("{"):
        return _json_object(text, text)
    if text.endswith(".json"):
        try:
            content = Path(text).read_text(encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise ParameterError("hyperparameters", text, f"the file cannot be read ({reason})") from error
        return _json_object(text, content)
    values: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ParameterError(
                "hyperparameters", text, "must be default, a .json file, a JSON object, or name=value,name=value"
            )
        if name.strip() in values:
            raise ParameterError("hyperparameters", text, f"must name {name.strip()} once")
        values[name.strip()] = value.strip()
    return values


def _json_object(text: str, content: str) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except json.JSONDecodeError as error:
        raise ParameterError("hyperparameters", text, f"is not valid JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise ParameterError("hyperparameters", text, "must hold a JSON object, name -> value")
    return parsed


def public_name(value: str) -> str:
    """Return a value that may be shown to others: of an absolute or home path, only the last part."""
    if value.startswith(("/", "~", "\\")) or (len(value) > 1 and value[1] == ":" and value[0].isalpha()):
        return PurePath(value.replace("\\", "/")).name
    return value
