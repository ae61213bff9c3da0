"""The folder that all runs of a command share: what a run changes there, and which runs may be there side by side."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from filelock import FileLock

from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import cache_folder, private_folder

try:
    import fcntl
except ImportError:  # not on Windows: runs follow one another there
    fcntl = None  # type: ignore[assignment]

MOST_FILES: Final = 20_000
"""Files and folders that are looked at."""
_LEFT_OUT: Final = frozenset({".git", ".venv", "venv", "__pycache__", ".ipynb_checkpoints", ".pytest_cache"})
_OF_MLFLOW: Final = ("mlruns", "mlartifacts", "mlflow.db")  # how names begin: there are journals of the database
_CREATED_OR_MOVED_HERE: Final = 0x100 | 0x80

Stamps: TypeAlias = dict[str, tuple[int, ...]]
T = TypeVar("T")


def _is_left_out(name: str) -> bool:
    """Return whether a file or folder of this name belongs to git, Python or MLflow, not to a program."""
    return name in _LEFT_OUT or name.startswith(_OF_MLFLOW)


def walk(here: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of the files and folders in a folder, hidden ones too; those at the top come first.

    The name of a folder ends with a slash. Links are followed, and each folder comes once. What belongs to git, Python,
    MLflow and this package is left out.
    """
    cache = cache_folder().stat()
    folders, seen = ["./"], {(cache.st_dev, cache.st_ino)}
    while folders:
        folder = folders.pop(0)
        with suppress(OSError):  # it is gone, or may not be read
            status = (here / folder).stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            entries = [entry for entry in os.scandir(here / folder) if not _is_left_out(entry.name)]
            if any(entry.name == "pyvenv.cfg" for entry in entries):
                continue
            yield folder, status
            above = folder.removeprefix("./")
            folders += [f"{above}{entry.name}/" for entry in entries if entry.is_dir()]
            for entry in entries:
                if not entry.is_dir() and (of_file := _status(entry)):
                    yield f"{above}{entry.name}", of_file


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of a file, to which links are followed; None if it is gone."""
    try:
        return entry.stat()
    except OSError:
        return None


@dataclass
class Visit:
    """A run in a folder, from its start to its end.

    Attributes
    ----------
    here, outside
        The folder, and what is looked at in addition.
    watch
        A descriptor that shows names that appear at the top of the folder; -1 if there is none.
    before
        Name -> what changes whenever a file is written, or a folder gets or loses a name.
    changed
        Names of what changed since, as far as was looked.
    alone
        Whether no other run may be there.
    is_as_left
        Whether the folder is as the last run left it that was alone there.
    """

    here: Path
    outside: Collection[Path]
    watch: int
    alone: bool
    changed: list[str] = field(default_factory=list)
    before: Stamps = field(init=False)
    after: Stamps = field(init=False)
    is_as_left: bool = False

    def __post_init__(self) -> None:
        self.before = self.after = self._stamps()

    def run(self, program: Callable[[], T]) -> T | None:
        """Return what a program gives that runs now, and look what it changed.

        If others may be there, and the folder is not the same all the while, which of them changed it cannot be known:
        there is nothing to return, and the run must be repeated alone.

        Raises
        ------
        L3DError
            If the program raises it.
        """
        if not self.alone and not self.is_as_left:
            return None
        try:
            returned = program()
        except L3DError:
            if self.alone or not self.look():
                raise
            return None
        return None if self.look() and not self.alone else returned

    def look(self) -> list[str]:
        """Return the names of what changed in the folder since the start, files first."""
        self.after = self._stamps()
        names = {name for name in {*self.before, *self.after} if self.before.get(name) != self.after.get(name)}
        names |= {*_appeared(self.watch), *self.changed}
        self.changed = sorted(names, key=lambda name: (name.endswith("/"), name))
        return self.changed

    def reason(self, what: str, *, can_be_trusted: bool) -> str:
        """Return why runs of a program must follow one another; empty if they need not.

        Parameters
        ----------
        what
            The program.
        can_be_trusted
            Whether it has another folder to write to, and so may be in one that is too large to be looked at.
        """
        if self.changed:
            where = "" if Path(self.changed[0]).is_absolute() else " into its folder"
            return f"{what} writes {self.changed[0]}{where}"
        if len(self.after) >= MOST_FILES and not can_be_trusted:
            return f"its folder has more than {MOST_FILES:,} files, too many to see what it writes there"
        return ""

    def _stamps(self) -> Stamps:
        ours = {(each.st_dev, each.st_ino) for each in map(os.fstat, (1, 2))}  # nohup.out, > log.txt
        stamps: Stamps = {
            name: (status.st_mtime_ns,)
            if name.endswith("/")
            else (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
            for name, status in chain(islice(walk(self.here), MOST_FILES), _status_of(self.outside))
            if (status.st_dev, status.st_ino) not in ours
        }
        if self.watch >= 0:
            stamps["./"] = ()  # its time changes with each transaction of MLflow's database
        return stamps


def _status_of(paths: Iterable[Path]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of files, and of those in folders, but not in folders of these."""
    for path in paths:
        with suppress(OSError):
            for each in islice(path.iterdir(), MOST_FILES) if path.is_dir() else [path]:
                if each.is_file():
                    yield str(each), each.stat()


@contextmanager
def visit(here: Path, outside: Collection[Path], *, alone: bool) -> Iterator[Visit]:
    """Wait until a run may start in a folder: if it is to be alone, until none is there, else until none is alone.

    Parameters
    ----------
    here
        The folder.
    outside
        What is looked at in addition: files, and folders without those in them.
    alone
        Whether no other run may be there.
    """
    path = cache_folder() / "commands" / f"{sha256(os.fsencode(here.resolve())).hexdigest()}.lock"
    private_folder(path.parent)
    with path.open("a+", encoding="ascii") as file, FileLock(path.with_suffix(".gate")) as gate:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            gate.release()  # was held while waiting, so that those that come later do not get in first
        status = here.stat()
        watch = _watch(here, status.st_dev, status.st_ino, threading.get_ident())
        deque(_appeared(watch), maxlen=0)
        visited = Visit(here, outside, watch, alone)
        file.seek(0)
        visited.is_as_left = file.read() == _digest(visited.before)
        try:
            yield visited
            if alone:
                file.truncate(0)
                file.write(_digest(visited.after))
                file.flush()
        finally:
            if fcntl is not None:  # processes that a function forked have the file open, too
                fcntl.flock(file, fcntl.LOCK_UN)


def _digest(stamps: Stamps) -> str:
    return sha256(repr(sorted(stamps.items())).encode("utf-8", "surrogateescape")).hexdigest()


@cache
def _watch(folder: Path, *_: int) -> int:
    """Return a descriptor that shows what appears in a folder, be it for a moment; -1 if there is none but on Linux.

    It stays open, since the kernel takes milliseconds to close it.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if descriptor < 0 or library.inotify_add_watch(descriptor, os.fsencode(folder), _CREATED_OR_MOVED_HERE) >= 0:
            return descriptor
        os.close(descriptor)
    return -1


def _appeared(watch: int) -> Iterator[str]:
    """Yield the names that appeared in the folder of a descriptor; ``./`` if they were too many."""
    with suppress(BlockingIOError):
        while watch >= 0:
            events, start = os.read(watch, 1 << 16), 0
            while start < len(events):
                (size,) = struct.unpack_from("I", events, start + 12)
                name = os.fsdecode(events[start + 16 : start + 16 + size].rstrip(b"\0"))
                start += 16 + size
                if not _is_left_out(name):
                    yield name or "./"
