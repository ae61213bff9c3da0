"""Numbers and lists as checks write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

SHOWN: Final = 8
"""How many rows or columns a message names."""


def points(value: float) -> str:
    """Return a fraction as percentage points with two decimals, as the papers print it."""
    return f"{100 * value:.2f}"


def in_unit(value: float, *, percent: bool) -> str:
    """Return a score or standard deviation in percentage points, or, where it is not read so, as it is."""
    return points(value) if percent else f"{value:.4g}"


def counted(number: int, noun: str) -> str:
    """Return "1 cell", or "2 cells"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted_of(number: int, noun: str, total: int, verb: Literal["has", "is"]) -> str:
    """Return "1 cell of 40 has", or "2 cells of 40 have"."""
    return f"{counted(number, noun)} of {total} {verb if number == 1 else {'has': 'have', 'is': 'are'}[verb]}"


def named(noun: str, numbers: Sequence[int]) -> str:
    """Return the first few of a list of row or column numbers, as people say it."""
    shown = ", ".join(str(number) for number in numbers[:SHOWN])
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"{noun}{'' if len(numbers) == 1 else 's'} {shown}{more}"
