"""Worker processes as the parent sees them."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import connection as pipes
from multiprocessing import get_context
from typing import Any, Final

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.calls import Call
from mlflow_l3d.execution.environment import starting_worker
from mlflow_l3d.execution.worker import serve
from mlflow_l3d.plan.cells import Cell

LOOK_SECONDS: Final = 1.0
"""How often dead workers are looked for where their pipe says nothing, e.g. because a process of theirs holds it."""
FAREWELL_SECONDS: Final = 5.0
"""How long workers may take to close their sessions."""

_logger = logging.getLogger(__name__)


class Worker:
    """One worker process and the calls that it has: the first is being run, a second one waits in its pipe."""

    def __init__(self, pickled_job: bytes, device: str, reserved: Call | None) -> None:
        self.device = device
        self.ready = False
        self.cells_at_once = 1
        self.reserved = reserved
        self.in_flight: deque[Call] = deque()
        self.current_since = time.perf_counter()
        self.lost = ""
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        main = threading.current_thread() is threading.main_thread()
        # Daemonic, so that an iterator that nobody closes does not keep the interpreter from ending.
        self.process = context.Process(target=serve, args=(theirs, device, os.getpid(), main), daemon=True)
        try:
            with starting_worker():
                self.process.start()
        except BaseException:
            # Ctrl-C: nobody else knows of this process yet.
            if self.process.pid is not None:
                self.process.kill()
                self.process.join()
            self._connection.close()
            raise
        finally:
            theirs.close()
        # A job larger than the pipe's buffer is taken only when the new interpreter is up; others start meanwhile.
        self._sender = threading.Thread(target=self._send_job, args=(pickled_job,), name="l3d-job", daemon=True)
        self._sender.start()

    def _send_job(self, pickled_job: bytes) -> None:
        with suppress(OSError):  # the worker died; that shows at the other side of the pipe
            self._connection.send_bytes(pickled_job)

    def send(self, call: Call) -> None:
        """Give the worker a call."""
        if not self.in_flight:
            self.current_since = time.perf_counter()
        self.in_flight.append(call)
        self.tell(call.cells)

    def received(self, key: str) -> None:
        """Note that a cell of the current call is done; after the last one the next call has begun."""
        self.in_flight[0].received(key)
        if not self.in_flight[0].cells:
            self.in_flight.popleft()
            self.current_since = time.perf_counter()

    def current_seconds(self) -> float:
        """Return how long the current call has been running."""
        return time.perf_counter() - self.current_since

    def load(self, seconds: float) -> float:
        """Return how much is left to do, in cells, where a cell takes `seconds` (0: not known)."""
        waiting = [*self.in_flight, *([self.reserved] if self.reserved else [])]
        left = float(sum(call.size for call in waiting))
        if self.in_flight:
            # A session may train all cells of a call side by side, and give no outcome before the end.
            current = self.in_flight[0]
            progress = self.current_seconds() / seconds if seconds > 0 else 0.0
            left -= max(current.size - len(current.cells), min(progress, current.size))
        return left

    def tell(self, cells: list[Cell] | None) -> None:
        """Send cells to the worker, or None: there are no more."""
        with suppress(OSError):  # the worker died; that shows when it is looked at next
            self._connection.send(cells)

    def look(self) -> tuple[bool, Any]:
        """Return whether the worker lives or has left something to read, and what it sent, if anything."""
        alive = self.process.is_alive()
        try:
            if self._connection.poll():
                return True, self._connection.recv()
        except (EOFError, OSError):
            return False, None
        return alive, None

    @property
    def waitables(self) -> tuple[pipes.Connection[Any, Any] | int, ...]:
        """What becomes ready when there is something to look at."""
        return self._connection, self.process.sentinel

    def ended(self) -> str:
        """Release a worker that ended, and return how it did."""
        self.process.join(LOOK_SECONDS)
        self.kill()
        code = self.process.exitcode
        self.release()
        if self.lost:
            return f"worker lost its device ({self.lost})"
        if code is None or code >= 0:
            return f"worker ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
        hint = ", often a lack of memory" if name == "SIGKILL" else ""
        return f"worker ended with signal {-code} ({name}{hint})"

    def kill(self) -> None:
        """Stop the process at once, whatever it does."""
        if self.process.is_alive():
            self.process.kill()

    def release(self, deadline: float | None = None) -> None:
        """Wait for the process until `deadline` (of :func:`time.monotonic`), kill it then, and close the pipe."""
        if deadline is not None:
            self.process.join(max(0.0, deadline - time.monotonic()))
        self.kill()
        self.process.join()
        self._sender.join()
        self._connection.close()
        self.process.close()


class Pool:
    """The worker processes of one job.

    Parameters
    ----------
    job
        What the cells share; pickled once for all workers.
    devices
        Given to workers in turn, the least used first.

    Raises
    ------
    ParameterError
        If the job does not survive pickling.
    """

    def __init__(self, job: Job, devices: list[str]) -> None:
        import cloudpickle

        try:
            # By value what the user's script or notebook defines: workers do not run it.
            self._pickled = cloudpickle.dumps(job)
        except Exception as error:
            allowed = f"must survive pickling with executor=processes ({type(error).__name__}: {error})"
            fix = "Open files, locks and connections where cells run, or use executor=inline."
            raise ParameterError("approach", job.approach.name, allowed, fix) from error
        self._name = job.approach.name
        self._devices = devices
        self.workers: list[Worker] = []

    def start(self, reserved: Call | None = None) -> None:
        """Start a worker; `reserved` is a call that nobody else may have."""
        used = [worker.device for worker in self.workers]
        self.workers.append(Worker(self._pickled, min(self._devices, key=used.count), reserved))

    def events(self, *, wait: bool = True) -> Iterator[tuple[Worker, bool, Any]]:
        """Wait until something happens; yield every worker that sent something or ended, as :meth:`Worker.look`.

        A worker that takes many cells at once may come several times: what it sent is taken out of its pipe, so that
        it need not wait with the next outcome.
        """
        pipes.wait([part for worker in self.workers for part in worker.waitables], LOOK_SECONDS if wait else 0)
        for worker in tuple(self.workers):
            for _ in range(worker.cells_at_once):
                alive, message = worker.look()
                if message is None and alive:
                    break
                yield worker, alive, message
                if not alive:
                    break

    def bury(self, worker: Worker) -> str:
        """Take a worker that ended out of the pool, and return how it ended.

        Raises
        ------
        L3DError
            If it was not ready yet and no other worker is left: there is no reason to hope for the next one.
        """
        self.workers.remove(worker)
        how = worker.ended()
        if not worker.ready:
            if not self.workers:
                raise L3DError(
                    f"approach {self._name}: {how} before it was ready; its own output says why. Fewer workers need "
                    "less memory."
                )
            _logger.warning("%s before it was ready; %d are left", how, len(self.workers))
        return how

    def stop(self, *, at_once: bool) -> None:
        """End all workers: kill them, or let those that are ready close their sessions first."""
        for worker in self.workers:
            if worker.ready and not at_once:
                worker.tell(None)
            else:
                worker.kill()
        deadline = time.monotonic() + FAREWELL_SECONDS
        for worker in self.workers:
            worker.release(deadline)
        self.workers.clear()
