"""What runs in a task of a batch scheduler: one worker, which talks to its dispatcher through files."""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import forget_project_run, refuse_interrupts
from mlflow_l3d.execution.slurm.files import Inbox, Outbox, Pulse, looked_for
from mlflow_l3d.execution.worker import LOST_DEVICE, checked, serve_calls, unpickled
from mlflow_l3d.execution.workers import Ended, Message

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

JOB, SAID, CALLS, ALIVE, STOPS = "job", "said", "calls", "alive", "stops"
"""Names in the folder of a run: the job, what workers say, their calls, a file that changes as long as the dispatcher
lives, and the seats that must stop at once."""
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

    def __init__(self, folder: Path, number: int, patience: float) -> None:
        self.folder, self.number, self.patience = folder, number, patience
        self._outbox: Outbox | None = None
        self._leaves = False
        self._seen, self._changed = "", 0.0

    def __call__(self) -> None:
        """Be a worker until there are no more calls."""
        refuse_interrupts()
        forget_project_run()
        name = f"{self.number}-{uuid.uuid4().hex}"
        calls = self.folder / CALLS / name
        calls.mkdir()
        self._outbox = outbox = Outbox(self.folder / SAID, name)
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
            return checked(unpickled((self.folder / JOB).read_bytes()))

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
            is_told = (self.folder / STOPS / str(self.number)).exists()
            seen = (self.folder / ALIVE).read_text(encoding="ascii")
        except FileNotFoundError:
            is_told, seen = not self.folder.exists(), self._seen
        if seen != self._seen:
            self._seen, self._changed = seen, time.monotonic()
        if is_told or time.monotonic() - self._changed > self.patience:
            os._exit(0)
