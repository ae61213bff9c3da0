"""Where Optuna keeps the trials of a search, so that a killed search resumes and workers can report."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from filelock import FileLock

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.studies.search.optional import need_optuna
from mlflow_l3d.tracking.spool import Spool

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

AUTO: Final = "auto"
_FORMS: Final = "must be auto, a path that ends in .log, or the URL of a database such as sqlite:///trials.db"
_logger = logging.getLogger("mlflow_l3d")
_PAUSE: Final = 0.002
"""Seconds between two looks whether the lock is free."""


def storage_place(text: str, folder: Path) -> str:
    """Return a storage as workers of this machine can open it: an absolute path, or the URL of a database.

    Parameters
    ----------
    text
        ``auto`` is a journal in `folder`; else a path that ends in ``.log``, or a URL that SQLAlchemy knows.
    folder
        Of this search; made where it is missing and the journal goes there.

    Raises
    ------
    ParameterError
        If it is none of these.
    """
    given = text.strip()
    if given == AUTO:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ParameterError("storage", AUTO, f"cannot be reached ({error.strerror})", "Name another.") from error
        return str((folder / "optuna.log").absolute())
    if "://" in given:
        if given.startswith("sqlite:///") and not given.startswith("sqlite:////") and given != "sqlite:///:memory:":
            return f"sqlite:///{Path(given.removeprefix('sqlite:///')).absolute()}"
        return given
    if given.endswith(".log"):
        return str(Path(given).expanduser().absolute())
    raise ParameterError("storage", public_storage(given), _FORMS)


def storage_of(text: str, folder: Path, *, mend: bool = False) -> BaseStorage:
    """Open the storage that :func:`storage_place` names; a journal or tables that are missing are made.

    With `mend` a journal of ``auto`` that is damaged is set aside, and a new one begun: the ledger has its trials, too.

    Raises
    ------
    ParameterError
        If it cannot be reached or holds something else; neither user nor password is shown.
    L3DError
        If Optuna is not installed.
    """
    optuna = need_optuna()
    place = storage_place(text, folder)
    if place in {"sqlite://", "sqlite:///:memory:"}:
        raise ParameterError("storage", place, "lives in one process only", "Use auto.")
    try:
        storage = _database(optuna, place) if "://" in place else _journal(optuna, place)
    except ParameterError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a driver raises; its text may hold the password
        if mend and text.strip() == AUTO and Path(place).is_file():
            _logger.warning("The journal of this search is damaged: set aside, and a new one is begun.")
            Path(place).replace(f"{place}.broken")
            return storage_of(text, folder)
        fix = "Mend that, or use storage=auto."
        raise ParameterError("storage", public_storage(place), f"cannot be reached ({_reason(error)})", fix) from None
    return storage


def public_storage(text: str) -> str:
    """Return a storage as it may be shown and logged: no user, no password, no options, no private folder."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Path(text).name
    rest = rest.partition("?")[0].rpartition("@")[2]
    return f"{scheme}:///{Path(rest).name}" if scheme.startswith("sqlite") else f"{scheme}://{rest}"


def _journal(optuna: Any, place: str) -> BaseStorage:
    path = Path(place)
    if not path.parent.is_dir():
        raise FileNotFoundError("its folder does not exist")
    backend = optuna.storages.journal.JournalFileBackend(place)
    storage: BaseStorage = optuna.storages.JournalStorage(QuickJournal(backend, path))
    return storage


def _database(optuna: Any, place: str) -> BaseStorage:
    import sqlalchemy

    arguments: dict[str, Any] = {}
    if place.startswith("sqlite"):
        arguments = {"timeout": 60}  # workers wait for each other
    elif place.startswith(("postgresql", "mysql")):
        # How long a database server may take to answer the first call.
        arguments = {"connect_timeout": 15}
    options = {"connect_args": arguments, "pool_pre_ping": True}
    engine = sqlalchemy.create_engine(place, **options)
    try:
        tables = set(sqlalchemy.inspect(engine).get_table_names())
    finally:
        engine.dispose()
    if "alembic_version" in tables and "studies" not in tables:
        # Optuna would add its own tables to those of MLflow, say, and then refuse their version.
        allowed = "is the database of another program"
        raise ParameterError("storage", public_storage(place), allowed, "Name another one, or use storage=auto.")
    storage: BaseStorage = optuna.storages.RDBStorage(place, engine_kwargs=options)
    return storage


def _reason(error: Exception) -> str:
    """Return the first line of what went wrong: the driver's own words, without whom it was said to."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, ModuleNotFoundError):
        return f"the driver is not installed: Python module {cause.name}"
    if type(cause).__name__ == "NoSuchModuleError":
        return "SQLAlchemy knows no such kind of database"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    line = next(iter(str(cause).strip().splitlines()), "") or type(cause).__name__
    if re.search(r"user|role|password|://", line, re.IGNORECASE):
        return f"{type(cause).__name__}: the server refused the login, or the URL is not understood"
    return line.rstrip(".")


class QuickJournal:
    """Optuna's journal file, forced to the disk only where a trial begins or ends.

    Optuna waits for the disk after each entry, which is most of what a trial costs beside its training: an entry for
    each parameter, attribute and reported epoch. Here an entry without a state of a trial is handed to the system
    only. That outlives any process, however it ends; a loss of power may cost entries of trials that had not ended,
    and those are repeated.

    Parameters
    ----------
    backend
        Optuna's ``JournalFileBackend`` for the same file, for reading.
    path
        The file.
    """

    def __init__(self, backend: Any, path: Path) -> None:
        self._backend, self._path, self._lock = backend, path, journal_lock(path)
        self._drop_torn_line()

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """Yield the entries from a number on, as Optuna does."""
        entries: Iterable[dict[str, Any]] = self._backend.read_logs(log_number_from)
        return entries

    def append_logs(self, logs: Sequence[dict[str, Any]]) -> None:
        """Add entries, one a line, in one piece."""
        lines = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in logs)
        with self._lock.acquire(poll_interval=_PAUSE), self._path.open("ab") as file:
            file.write(lines.encode("utf-8"))
            file.flush()
            if any("state" in entry for entry in logs):
                os.fsync(file.fileno())

    def _drop_torn_line(self) -> None:
        """Cut off what a process wrote that was killed while it wrote: the next line would be unreadable with it."""
        if self._ends_whole():
            return
        # A writer that is alive has ended its line once the lock is free.
        with self._lock.acquire(poll_interval=_PAUSE):
            if not self._ends_whole():
                with self._path.open("rb+") as file:
                    file.truncate(file.read().rfind(b"\n") + 1)

    def _ends_whole(self) -> bool:
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            return size == 0 or (file.seek(size - 1) >= 0 and file.read(1) == b"\n")


def journal_folder(spool: Spool[Any]) -> Path:
    """Return where the journal of a search lies: one folder a search, experiment and tracking server."""
    return cache_folder() / "searches" / spool.folder.name


def journal_lock(path: Path) -> FileLock:
    """Return the lock of a journal, which the operating system takes back from a process that is killed.

    Optuna's own locks are files: whoever is killed while it writes leaves one, and all others wait for 30 seconds
    before they break it. A search that is killed, or that stops its workers, is killed while it writes quite often.
    Their name is not used: this lock leaves its file behind, and Optuna would take it for one of its own.
    """
    return FileLock(f"{path}.flock")
