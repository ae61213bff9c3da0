"""A journal file for Optuna whose small entries do not wait for the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


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
    lock
        The lock of the file, the same kind in all processes.
    path
        The file; it exists.
    """

    def __init__(self, backend: Any, lock: Any, path: Path) -> None:
        self._backend, self._lock, self._path = backend, lock, path

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """Yield the entries from a number on, as Optuna does."""
        entries: Iterable[dict[str, Any]] = self._backend.read_logs(log_number_from)
        return entries

    def append_logs(self, logs: Sequence[dict[str, Any]]) -> None:
        """Add entries, one a line, in one piece."""
        lines = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in logs)
        self._lock.acquire()
        try:
            with self._path.open("ab") as file:
                file.write(lines.encode("utf-8"))
                file.flush()
                if any("state" in entry for entry in logs):
                    os.fsync(file.fileno())
        finally:
            self._lock.release()
