"""Messages as files: what a dispatcher and workers that share no more than a file system tell each other.

A file is written whole under a name that begins with a dot, and then renamed. Folders are listed, rather than asked for
a name: network file systems remember for a while that a file was not there.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.paths import cache_folder, private_folder

SHORTEST_LOOK: Final = 0.01
"""Seconds between two looks if something has just come; they double up to :data:`LONGEST_LOOK`."""
LONGEST_LOOK: Final = 0.2


class Outbox:
    """Writes numbered messages into a folder.

    Parameters
    ----------
    folder
        It exists.
    sender
        How the names of the messages begin; no two senders of a folder have the same.
    """

    def __init__(self, folder: Path, sender: str) -> None:
        self._folder, self._sender, self._number = folder, sender, 0
        # The handler of a signal may write while the thread that it interrupts does.
        self._lock = threading.RLock()

    def put(self, message: object) -> None:
        """Write a message."""
        with self._lock:
            name = f"{self._sender}.{self._number:09d}"
            hidden = self._folder / f".{name}"
            hidden.write_bytes(pickle.dumps(message))
            hidden.rename(self._folder / name)
            self._number += 1


class Inbox:
    """Reads the messages of a folder, those of each sender in their order, and removes them.

    Parameters
    ----------
    folder
        It exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next: dict[str, int] = {}

    def take(self) -> Iterator[tuple[str, Any]]:
        """Yield (sender, message) of all that is there."""
        names = sorted(name for name in os.listdir(self._folder) if not name.startswith("."))  # noqa: PTH208
        for name in names:
            sender, _, number = name.rpartition(".")
            if int(number) != self._next.get(sender, 0):  # the one before was not listed yet
                continue
            path = self._folder / name
            message = pickle.loads(path.read_bytes())  # noqa: S301 - of our own folder, which nobody else can write to
            path.unlink()
            self._next[sender] = int(number) + 1
            yield sender, message


def looked_for(look: Callable[[], bool], seconds: float = float("inf")) -> bool:
    """Call `look` until it is true, more and more seldom, `seconds` at most; return whether it was."""
    end, pause = time.monotonic() + seconds, SHORTEST_LOOK
    while not look():
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_LOOK)
    return True


class Pulse:
    """A thread that does something again and again, until it is stopped or the process ends.

    Parameters
    ----------
    beat
        What it does; an error of the file system is no reason to stop.
    seconds
        Between two times.
    """

    def __init__(self, beat: Callable[[], object], seconds: float) -> None:
        self._beat, self._seconds, self._stopped = beat, seconds, threading.Event()
        self._thread = threading.Thread(target=self._run, name="l3d-pulse", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with suppress(OSError):
                self._beat()
            self._stopped.wait(self._seconds)

    def stop(self) -> None:
        """Stop, and return when it is over."""
        self._stopped.set()
        self._thread.join()


def run_folder(options: Mapping[str, Any]) -> Path:
    """Return a new folder for one run, on a file system that all machines share."""
    parent = Path(options["folder"]).expanduser().absolute() if options["folder"] else cache_folder() / "submitit"
    private_folder(parent, ours=not options["folder"])
    folder = parent / uuid.uuid4().hex
    folder.mkdir(mode=0o700)
    return folder
