"""What runs in a task of a batch scheduler: one worker, which talks to its dispatcher through files.

A file is written whole under a name that begins with a dot, and then renamed. Folders are listed, rather than asked for
a name: network file systems remember for a while that a file was not there.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import forget_project_run, refuse_interrupts
from mlflow_l3d.execution.worker import LOST_DEVICE, checked, serve_calls, unpickled
from mlflow_l3d.execution.workers import Ended, Message
from mlflow_l3d.paths import cache_folder, private_folder

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission


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
        for name in sorted(name for name in os.listdir(self._folder) if not name.startswith(".")):  # noqa: PTH208
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
        What it does; an error of the file system is not a reason to stop.
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


class RunFolder:
    """A new folder for one run, on a file system that all machines share.

    Attributes
    ----------
    path
        The folder, below that of the options.
    job, said, calls, alive, stops
        In it: the job, what workers say, their calls, a file that changes as long as the dispatcher lives, and the
        seats that must stop at once.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        parent = Path(options["folder"]).expanduser().absolute() if options["folder"] else cache_folder() / "submitit"
        private_folder(parent, ours=not options["folder"])
        self.path = parent / uuid.uuid4().hex
        self.path.mkdir(mode=0o700)
        self.job, self.alive = self.path / "job", self.path / "alive"
        self.said, self.calls, self.stops = (self.path / name for name in ("said", "calls", "stops"))
        for folder in (self.said, self.calls, self.stops):
            folder.mkdir()


BEATS: Final = 4
"""Signs of life in the time after which a lack of them means an end."""
LOOK_SECONDS: Final = 0.2
"""Between two looks whether a worker must stop."""
LOCAL_REQUEUE_RETURN_CODE: Final = 144
"""By which the local executor of submitit knows a task that is to run again."""


class Seat:
    """One task: a place for a worker. The scheduler may run it again, on another machine: that is another worker.

    Parameters
    ----------
    folder
        That of the run.
    number
        Of this seat.
    patience
        After so many seconds without a sign of life the dispatcher is taken to be gone.
    """

    def __init__(self, folder: RunFolder, number: int, patience: float) -> None:
        self.folder, self.number, self.patience = folder, number, patience
        self._outbox: Outbox | None = None
        self._leaves = False
        self._seen, self._changed = "", 0.0

    def __call__(self) -> None:
        """Be a worker until there are no more calls."""
        refuse_interrupts()
        forget_project_run()
        name = f"{self.number}-{uuid.uuid4().hex}"
        calls = self.folder.calls / name
        calls.mkdir()
        self._outbox = outbox = Outbox(self.folder.said, name)
        self._seen, self._changed = "", time.monotonic()
        Pulse(lambda: outbox.put(None), self.patience / BEATS)  # a sign of life
        Pulse(self._stop_where_told, min(LOOK_SECONDS, self.patience / BEATS))
        inbox = Inbox(calls)
        waiting: deque[list[Cell] | None] = deque()

        def arrived() -> bool:
            waiting.extend(message for _, message in inbox.take())
            return bool(waiting)

        def receive() -> list[Cell] | None:
            looked_for(arrived)
            return waiting.popleft()

        def load() -> Job:
            return checked(unpickled(self.folder.job.read_bytes()))

        if not serve_calls(load, receive, self._send):
            os._exit(LOST_DEVICE)
        outbox.put(Ended("worker ended"))
        os._exit(0)  # threads of libraries must not keep the task

    def checkpoint(self) -> DelayedSubmission:
        """Say that the scheduler wants the machine; return the same seat, which it runs again later."""
        from submitit.helpers import DelayedSubmission

        if self._outbox is not None:
            self._leaves = True
            self._outbox.put(Ended("worker had to give its machine back", blameless=True))
        return DelayedSubmission(Seat(self.folder, self.number, self.patience))

    def _send(self, message: Message) -> None:
        assert self._outbox is not None
        if self._leaves:
            # submitit asked this process to exit, and the approach made an error of a cell of that.
            os._exit(LOCAL_REQUEUE_RETURN_CODE)
        self._outbox.put(message)

    def _stop_where_told(self) -> None:
        """End this process if the dispatcher wants that, or is gone."""
        try:
            is_told = (self.folder.stops / str(self.number)).exists()
            seen = self.folder.alive.read_text(encoding="ascii")
        except FileNotFoundError:
            is_told, seen = not self.folder.path.exists(), self._seen
        if seen != self._seen:
            self._seen, self._changed = seen, time.monotonic()
        if is_told or time.monotonic() - self._changed > self.patience:
            os._exit(0)
