"""What is left of a cell that raised: an outcome that says why."""

from __future__ import annotations

import traceback
from typing import Final

from mlflow_l3d.errors import L3DError
from mlflow_l3d.plan.cells import Outcome

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
