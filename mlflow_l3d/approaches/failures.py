"""Cells one by one: each is timed, and one that raises leaves an outcome that says why."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from mlflow_l3d.errors import L3DError
from mlflow_l3d.plan.cells import Cell, Outcome

LONGEST_ERROR: Final = 500
"""Characters of an error; libraries put whole inputs into theirs, and those are not to be logged."""


def one_line(error: BaseException) -> str:
    """Return type (if not ours) and message of an exception as one line of at most :data:`LONGEST_ERROR` characters."""
    message = " ".join(str(error).split())
    name = type(error).__name__
    text = message if message and isinstance(error, L3DError) else f"{name}: {message}" if message else name
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 3]}..."


def failed(key: str, error: BaseException, duration_seconds: float = 0.0) -> Outcome:
    """Return the outcome of a cell that raised.

    Parameters
    ----------
    key
        Key of the cell.
    error
        What it raised.
    duration_seconds
        Wall clock until then.
    """
    return Outcome(
        key=key,
        duration_seconds=duration_seconds,
        error=one_line(error),
        traceback="".join(traceback.format_exception(error)),
    )


def one_by_one(cells: Iterable[Cell], outcome_of: Callable[[Cell], Outcome]) -> Iterator[Outcome]:
    """Yield the outcome of each cell, in their order, with the wall clock that it took.

    Parameters
    ----------
    cells
        Taken one at a time.
    outcome_of
        Trains and evaluates one cell. What it raises is the outcome of that cell, and the others go on.
    """
    for cell in cells:
        started = time.perf_counter()
        try:
            outcome = outcome_of(cell)
        except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
            outcome = failed(cell.key, error)
        yield replace(outcome, duration_seconds=time.perf_counter() - started)
