"""The errors a user sees: one line that names the parameter, the value, what is allowed, and the fix."""

from __future__ import annotations

import difflib
import errno
import logging
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.privacy import public_text

logger: Final = logging.getLogger("mlflow_l3d")
"""Lines for users, on stderr."""


class L3DError(Exception):
    """An error that a user can correct; its text is one line without credentials, shown without a traceback."""

    def __init__(self, message: str) -> None:
        super().__init__(public_text(" ".join(message.split())))


class ParameterError(L3DError, ValueError):
    """A parameter has a value that is not allowed.

    Parameters
    ----------
    name
        The parameter, under the name that the user typed.
    value
        The value.
    allowed
        The allowed values, or the problem.
    fix
        The action to take, if `allowed` does not name it.

    Attributes
    ----------
    name, value, allowed, fix
        The parameters of the constructor.
    """

    def __init__(self, name: str, value: object, allowed: str, fix: str = "") -> None:
        text = f"{name}={value!s}: {allowed.rstrip('.')}."
        super().__init__(f"{text} {fix}".rstrip())
        self.name = name
        self.value = value
        self.allowed = allowed
        self.fix = fix

    def __reduce__(self) -> tuple[type, tuple[str, object, str, str], dict[str, object]]:
        """Keep the parts, and notes, when the error crosses a process boundary."""
        return type(self), (self.name, self.value, self.allowed, self.fix), self.__dict__


@contextmanager
def renamed(name: str) -> Iterator[None]:
    """Let a ParameterError in the block name the parameter as the user knows it."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(name, error.value, error.allowed, error.fix) from None


def imported(module: str, what: str, extra: str) -> Any:
    """Return a module that comes with an extra of this package.

    Raises
    ------
    L3DError
        If it is not installed, or cannot be loaded: with `what` needs it, and the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        broken = "" if isinstance(error, ModuleNotFoundError) else f", which cannot be loaded ({error})"
        raise L3DError(f"{what} needs {module}{broken}. Run: pip install 'mlflow-l3d[{extra}]'") from error


def disk_line(error: BaseException | None) -> str:
    """Return what to do about a disk that is full, or that may not be written; the empty text for any other error."""
    while error is not None:
        number, place = getattr(error, "errno", None), getattr(error, "filename", None)
        if number == errno.ENOENT and not place and not _has_working_folder():
            return "The working folder was removed. Change to another one, then give the same command again."
        if number == errno.ENOENT and place and not Path(folder := tempfile.gettempdir()).is_dir():
            return f"The temporary folder {folder} was removed. Make it, then give the same command again."
        if number in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error):
            where = f" of {place}" if place else "" if number else " of the tracking database"
            return f"The disk{where} is full. Make room, then give the same command again."
        if "unable to open database file" in str(error):
            return "The tracking database cannot be opened. Make room for its files, and allow writing in its folder."
        if number in (errno.EROFS, errno.EACCES, errno.EPERM) and place:
            return f"{place} may not be written or read. Change its permissions, or name another place."
        if "readonly database" in str(error):
            return "The database is read-only. Copy it, and set MLFLOW_TRACKING_URI to the copy."
        error = error.__cause__
    return ""


def _has_working_folder() -> bool:
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False


def leave_out(what: str, label_column: str, classes: Iterable[str]) -> str:
    """Return how to leave out classes or merge them, with the line to type if the column of the labels is known."""
    line = f", in pandas: data = data[~data[{label_column!r}].astype(str).isin({[*classes]})]"
    return f"leave {what} out or merge it with another class{line if label_column else ''}"


def unknown_name(parameter: str, value: str, known: Iterable[str], what: str = "one of") -> ParameterError:
    """Return the error for a name that is not in a closed list; it proposes a similar name if there is one."""
    names = sorted(known)
    close = difflib.get_close_matches(value, names, n=1, cutoff=0.6)
    close += [name for name in names if not close and name.casefold() == value.strip().casefold()]
    fix = f"Did you mean {close[0]!r}?" if close else ""
    return ParameterError(parameter, repr(value), f"must be {what} {', '.join(names) or '(none)'}", fix)


def check_known(parameter: str, names: Iterable[str], known: Iterable[str], what: str = "one of") -> None:
    """Raise the error of :func:`unknown_name` if one of some names is not in a closed list."""
    for name in names:
        if name not in known:
            raise unknown_name(parameter, name, known, what)
