"""The lock of a journal: one that the operating system takes back from a process that is killed."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any


class KernelLock:
    """Lock a file through the kernel; the lock of Optuna's journals, as their ``lock_obj``.

    Optuna's own locks are files: whoever is killed while it writes leaves one, and all others wait for 30 seconds
    before they break it. A search that is killed, or that stops its workers, is killed while it writes quite often.

    Parameters
    ----------
    path
        The journal, which is locked itself: no other file is left.
    """

    def __init__(self, path: Path) -> None:
        self._fcntl: Any = importlib.import_module("fcntl")
        self._path = path
        self._held: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock; threads of one process wait for each other, too."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._fcntl.flock(descriptor, self._fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        self._held = descriptor
        return True

    def release(self) -> None:
        """Give the lock back; only whoever holds it calls this."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)


def journal_lock(optuna: Any, path: Path) -> Any:
    """Return the lock for a journal: the kernel's, or Optuna's own where the system or the file system has none."""
    try:
        lock = KernelLock(path)
        lock.acquire()
        lock.release()
    except (ModuleNotFoundError, OSError):
        return optuna.storages.journal.JournalFileOpenLock(str(path))
    return lock
