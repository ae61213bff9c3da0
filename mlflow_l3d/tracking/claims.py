"""Which cells other processes of this machine are training, so that none is trained twice.

One file for all cells of a context on one server. A claimed cell is a byte of it that its process has locked, so that
claims end with their process, however it ends. What the server holds of a cell that was claimed is a line.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from mlflow_l3d.paths import private_folder

try:
    import fcntl
except ImportError:  # Windows: cells may be trained twice there
    fcntl = None  # type: ignore[assignment]

_PRESENT: Final = 1 << 62
"""The byte that everybody holds who has the file open."""
_SHARED: Final[dict[Path, list[int]]] = {}
"""Path -> handle, and how many recorders of this process use it."""
_SHARING: Final = threading.Lock()


class Claims:
    """The claims of one recorder. Threads may share it.

    Other recorders of a process are refused only if they ask to be alone.

    Parameters
    ----------
    path
        The file; its folder is made. It goes with the last process that has it open.
    """

    _here: ClassVar[set[tuple[int, str]]] = set()
    """The file and key of what this process has claimed."""
    _one_by_one = threading.Lock()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done: set[str] = set()
        self._held: set[str] = set()
        self._guard = threading.Lock()
        self._read, self._rest = 0, b""
        self._file = -1
        with suppress(OSError):  # without a file that can be locked everything is free
            self._file = _share(path)

    def take(self, key: str, *, alone: bool = False) -> bool:
        """Claim a cell; return whether nobody else trains it, and nobody has since this was opened."""
        if not self.lock(key, alone=alone):
            return False
        if self._file < 0:
            return True
        with self._guard:
            while new := os.pread(self._file, 1 << 16, self._read):
                self._read += len(new)
                *lines, self._rest = (self._rest + new).split(b"\n")
                self._done.update(line.decode("ascii", "replace") for line in lines)
        if key in self._done:
            self.release(key)
            return False
        return True

    def take_soon(self, key: str) -> bool:
        """Claim a cell alone, as :meth:`take`, but wait while others upload it; after a minute they are ignored."""
        for _ in range(600):
            if self.lock(key, alone=True):
                return self.take(key)
            time.sleep(0.1)
        return True

    def lock(self, key: str, *, alone: bool = False) -> bool:
        """Claim a cell, whether or not it was done; return False if another process has claimed it.

        With `alone` also if another recorder of this process, which may run in another thread, has claimed it.
        """
        with self._one_by_one:
            here = alone and (self._file, key) in self._here
            if self._file >= 0 and (here or not _locked(self._file, _byte(key))):
                return False
            self._held.add(key)
            self._here.add((self._file, key))
        return True

    def release(self, key: str, *, done: bool = False) -> None:
        """Give a claim back; `done` if the server holds the cell, finished."""
        with self._one_by_one:
            with suppress(OSError):  # the disk may be full
                if done and self._file >= 0:
                    os.write(self._file, f"{key}\n".encode("ascii"))
            with suppress(OSError):
                if key in self._held and self._file >= 0:
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(key))
            self._held.discard(key)
            self._here.discard((self._file, key))

    def __contains__(self, key: object) -> bool:
        """Return whether this recorder has claimed a cell."""
        return key in self._held

    def close(self) -> None:
        """Give all claims back."""
        for key in tuple(self._held):
            self.release(key)
        file, self._file = self._file, -1
        if file >= 0:
            _give_up(self._path, file)


def _share(path: Path) -> int:
    """Return the handle of a file, which is open once a process: its locks go when any of its handles is closed."""
    if fcntl is None:
        return -1
    with _SHARING:
        if path not in _SHARED:
            private_folder(path.parent, ours=True)
            _SHARED[path] = [_opened(path), 0]
        _SHARED[path][1] += 1
        return _SHARED[path][0]


def _give_up(path: Path, file: int) -> None:
    """Close a shared file if no other recorder uses it."""
    with _SHARING, suppress(OSError):
        _SHARED[path][1] -= 1
        if not _SHARED[path][1]:
            del _SHARED[path]
            if _locked(file, _PRESENT):  # nobody else is there
                path.unlink(missing_ok=True)
            os.close(file)


def _opened(path: Path) -> int:
    """Open the file, so that it is the one that others find, and empty if nobody else has it open."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if _locked(file, _PRESENT):
                os.ftruncate(file, 0)
            fcntl.lockf(file, fcntl.LOCK_SH, 1, _PRESENT)
            if path.exists() and os.fstat(file).st_ino == path.stat().st_ino:
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _locked(file: int, byte: int) -> bool:
    """Lock a byte for this process alone, and return whether that was possible."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _byte(key: str) -> int:
    """Return the byte of a cell: 61 bits of its key, which is a hash."""
    # Bytes of cells lie behind all lines.
    return (1 << 40) + int(key[:15], 16)
