"""Values as they are typed: numbers, `auto`, and names that others may see."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from mlflow_l3d.errors import ParameterError

MOST_DIGITS: Final = 1000
"""Longer numbers are a mistake, and Python refuses to read them."""


def as_text(name: str, value: object) -> str:
    """Return a value from Python as it would be typed: a mapping as JSON, a list or tuple separated by commas.

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
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def integer(name: str, value: str, low: int, high: int | None = None) -> int:
    """Return `value` as a whole number of at least `low` and at most `high`, None for no bound.

    Raises
    ------
    ParameterError
        If it is none.
    """
    text = value.strip()
    digits = text[1:] if text[:1] in {"-", "+"} else text
    # Python itself reads more than people write: 1_000, and the digits of every script.
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS else None
    if number is None or number < low or (high is not None and number > high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(name, value, f"must be a whole number {bounds}")
    return number


def number_or_auto(name: str, value: str, low: int) -> int | None:
    """Return `value` as :func:`integer` does, or None for `auto`."""
    if value == "auto":
        return None
    try:
        return integer(name, value, low)
    except ParameterError:
        raise ParameterError(name, value, f"must be auto or a whole number of at least {low}") from None


def number(name: str, value: str, low: float, high: float) -> float:
    """Return `value` as a number above `low` and below `high`.

    Raises
    ------
    ParameterError
        If it is none.
    """
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not low < found < high:
        bounds = f"above {low:g}" if high == math.inf else f"above {low:g} and below {high:g}"
        raise ParameterError(name, value, f"must be a number {bounds}")
    return found


def public_name(value: str) -> str:
    """Return a value that may be shown to others: of an absolute or home path, only the last part."""
    if value.startswith(("/", "~", "\\")) or (len(value) > 1 and value[1] == ":" and value[0].isalpha()):
        return PurePath(value.replace("\\", "/")).name
    return value
