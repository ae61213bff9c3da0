"""A table of the report, and how an interval stands in it."""

from __future__ import annotations

from dataclasses import dataclass

from mlflow_l3d.report.investigation.verdicts import MISSING, signed


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its head, its rows (the first cell names the row), and a sentence below it.

    A cell may hold a second, smaller line after a line break.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: frozenset[int] = frozenset()
    """Columns of words, which stand at the left and may break."""


def between(low: float, high: float) -> str:
    """Return an interval of importance; ``n/a`` where it has no end."""
    ends = signed(low), signed(high)
    return MISSING if MISSING in ends else f"{ends[0]} to {ends[1]}"
