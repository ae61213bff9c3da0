"""The outcome of a cell that raised, which says why; and errors after which no other cell can follow."""

from __future__ import annotations

import traceback
from typing import Final

from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.privacy import public_text

LONGEST_ERROR: Final = 500
"""Characters of an error; libraries put whole inputs into theirs, and those are not to be logged."""
LAST_SECONDS: Final = 60.0
"""For how long a session that ends may keep what is under way, such as paid answers; then its worker is killed."""
_SPENT: Final = ("out of memory", "not enough memory", "can't allocate memory", "alloc_failed")
_NO_REPEAT: Final = " does not have a deterministic implementation"
_LOST: Final = ("cuda error:", "cuda driver error:", "hip error:")


class LostDeviceError(BaseException):
    """The accelerator takes no more work from this process: whatever is tried there next fails as well.

    It is no `Exception`, so that code that continues after the error of a cell does not continue after this one.
    Executors end the process, or turn it into an :class:`~mlflow_l3d.errors.L3DError`.
    """


class StudyEndedError(BaseException):
    """No further cell can be run, in whichever process: a server is gone, or a budget spent.

    Its text is a line for users. Cells that are done stay.
    """


def check_device(error: BaseException) -> None:
    """Raise :class:`LostDeviceError` if an error, or one behind it, says that the context of the device is dead.

    Such are illegal memory accesses and failed assertions on the device. Memory that is spent is no such error.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, RuntimeError) and str(link).lower().startswith(_LOST) and not is_out_of_memory(link):
            raise LostDeviceError(str(link).splitlines()[0]) from error
        link = link.__cause__ or link.__context__


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is spent, on any device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SPENT)


def one_line(error: BaseException) -> str:
    """Return type (if not ours) and message of an exception as one line of at most :data:`LONGEST_ERROR` characters."""
    message = public_text(" ".join(str(error).split()))
    if _NO_REPEAT in message:
        return f"{message.partition(_NO_REPEAT)[0]} computes other results each time on a GPU. Use deterministic=false."
    if is_out_of_memory(error):  # torch goes on with what every process holds
        message = message.partition(" GPU ")[0]
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

    Raises
    ------
    LostDeviceError
        See :func:`check_device`.
    """
    check_device(error)
    return Outcome(
        key=key,
        duration_seconds=duration_seconds,
        error=one_line(error),
        traceback=public_text("".join(traceback.format_exception(error))),
    )
