"""A journal file for Optuna whose small entries do not wait for the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tracking.spool import Spool

_PAUSE: Final = 0.002
"""Seconds between two looks whether the lock is free."""


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
