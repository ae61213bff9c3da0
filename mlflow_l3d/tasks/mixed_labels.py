"""Labels of two sorts in one column: a few scores among classes, or a few names among scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.identity import shorten
from mlflow_l3d.tasks.table import missing

_FEW: Final = 0.1
"""Up to this share of decimal numbers among whole ones are taken for mistakes; scores have more (STS-B: a half)."""


def check_one_sort(values: Sequence[Any], column: str) -> None:
    """Raise where a label stands out: decimal among class names or whole numbers, or a name among decimal numbers.

    Where names and decimal numbers are mixed, labels that occur more than once are taken for names of classes.

    Parameters
    ----------
    values
        Labels of all rows; missing ones are passed over.
    column
        Their column.

    Raises
    ------
    ParameterError
        That names the first such row.
    """
    present = [(row, value, _number(value)) for row, value in enumerate(values, 1) if not missing(value)]
    decimal = [(row, value) for row, value, number in present if number is not None and not number.is_integer()]
    names = [(row, value) for row, value, number in present if number is None]
    if not decimal or len(decimal) == len(present):
        return
    if names and not _once(names if len(names) < len(decimal) else decimal):
        return
    if names and len(names) < len(decimal):
        row, value = names[0]
        others = "other rows decimal numbers (scores)"
        fix = "Correct it; the entry point seeds reads scores, with task_kind=regression."
    elif len(decimal) < len(names) or (not names and len(decimal) <= _FEW * len(present)):
        row, value = decimal[0]
        others = "other rows class names" if names else "nearly all other rows whole numbers (classes)"
        fix = "Correct it; if it is a score, the entry point seeds reads scores with task_kind=regression."
    else:
        return
    raise ParameterError("label_column", column, f"row {row} of the data has {shorten(value)!r}, and {others}", fix)


def _once(found: Sequence[tuple[int, Any]]) -> bool:
    return len({value for _, value in found}) == len(found)


def _number(value: Any) -> float | None:
    """Return the number that a label is or is written as; None for a name, a truth value and what is not finite."""
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None
