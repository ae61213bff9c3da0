"""Cells in worker processes that stay warm: the model is loaded once a worker."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection as pipes
from multiprocessing import get_context
from typing import Any, ClassVar, Final

from mlflow_l3d.approaches.failures import LAST_SECONDS
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.dispatch import dispatch
from mlflow_l3d.execution.environment import default_workers, places, starting_worker
from mlflow_l3d.execution.worker import serve
from mlflow_l3d.execution.workers import Ended, Message, Pool, Worker

_END_SECONDS: Final = 1.0
"""How long a process may take to end whose pipe has ended."""


class ProcessWorker(Worker):
    """One worker process: its second call waits in its pipe."""

    def __init__(self, pickled_job: bytes, device: str, sharers: int) -> None:
        super().__init__()
        self.device = device
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        main = threading.current_thread() is threading.main_thread()
        # Daemonic, so that an iterator that nobody closes does not keep the interpreter from ending.
        self.process = context.Process(target=serve, args=(theirs, device, sharers, os.getpid(), main), daemon=True)
        try:
            with starting_worker():
                self.process.start()
        except BaseException:
            # Ctrl-C: nobody else knows of this process yet.
            if self.process.pid is not None:
                self.process.kill()
                self.process.join()
            self.connection.close()
            raise
        finally:
            theirs.close()
        # A job larger than the pipe's buffer is taken only when the new interpreter is up; others start meanwhile.
        self._sender = threading.Thread(target=self._send_job, args=(pickled_job,), name="l3d-job", daemon=True)
        self._sender.start()

    def _send_job(self, pickled_job: bytes) -> None:
        with suppress(OSError):  # the worker died; that shows at the other side of the pipe
            self.connection.send_bytes(pickled_job)

    def give(self, cells: list[Cell] | None) -> None:
        """Send cells to the worker, or None: there are no more."""
        with suppress(OSError):  # the worker died; that shows when it is looked at next
            self.connection.send(cells)

    def look(self) -> Message | None:
        """Return what the worker says, None if that is nothing; that it ended, once everything is read."""
        alive = self.process.is_alive()
        try:
            if self.connection.poll():
                message: Message = self.connection.recv()
                return message
        except (EOFError, OSError):
            alive = False
        return None if alive else Ended(self._how())

    def _how(self) -> str:
        """Return how the worker ended."""
        self.process.join(_END_SECONDS)
        self.process.kill()
        self.process.join()
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"worker ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
        hint = ", often a lack of memory" if name == "SIGKILL" else ""
        return f"worker ended with signal {-code} ({name}{hint})"

    def release(self, deadline: float) -> None:
        """Wait for the process until `deadline` (of :func:`time.monotonic`), kill it then, and close the pipe."""
        self.process.join(max(0.0, deadline - time.monotonic()))
        self.process.kill()
        self.process.join()
        self._sender.join()
        self.connection.close()
        self.process.close()


class ProcessPool(Pool[ProcessWorker]):
    """The worker processes of one job.

    Parameters
    ----------
    job
        What the cells share; pickled once for all workers. Its devices are given to workers in turn, the least used
        first.
    workers
        How many there may be; None for the usual number.

    Raises
    ------
    ParameterError
        If the job does not survive pickling.
    """

    def __init__(self, job: Job, workers: int | None, _options: Mapping[str, Value]) -> None:
        super().__init__(workers or default_workers(job.device))
        self._pickled = pickled(job, "processes")
        self._devices = places(job.device)

    def start(self) -> ProcessWorker:
        """Start a process."""
        device = min(self._devices, key=[worker.device for worker in self.workers].count)
        # The first devices get one more, if workers cannot be shared out evenly.
        sharers = math.ceil((self.most - self._devices.index(device)) / len(self._devices))
        return ProcessWorker(self._pickled, device, max(1, sharers))

    def events(self, seconds: float) -> Iterator[tuple[ProcessWorker, Message]]:
        """Wait for the pipes and the ends of the processes.

        What a worker that takes many cells at once sent is taken out of its pipe, so that it need not wait with the
        next outcome.
        """
        ready = [part for worker in self.workers for part in (worker.connection, worker.process.sentinel)]
        pipes.wait(ready, seconds)
        for worker in tuple(self.workers):
            for _ in range(worker.cells_at_once):
                message = worker.look()
                if message is None:
                    break
                yield worker, message
                if isinstance(message, Ended):
                    break

    def end(self, workers: Sequence[ProcessWorker], *, at_once: bool) -> None:
        """End processes: let those that are ready close their sessions, or at once, but for what a session pays for."""
        for worker in workers:
            if worker.ready and not at_once:
                worker.give(None)
            else:
                worker.process.terminate()
        deadline = time.monotonic() + LAST_SECONDS
        for worker in workers:
            worker.release(deadline)


def pickled(job: Job, executor: str) -> bytes:
    """Return a job as bytes: by value what the user's script or notebook defines, since workers do not run it.

    Raises
    ------
    ParameterError
        If it does not survive that.
    """
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        allowed = f"must survive pickling with executor={executor} ({type(error).__name__}: {error})"
        fix = "Open files, locks and connections where cells run, or use executor=inline."
        raise ParameterError("approach", job.approach.name, allowed, fix) from error


class PoolExecutor:
    """Runs cells in the workers of a `pool`, see :func:`mlflow_l3d.execution.dispatch.dispatch`.

    Parameters
    ----------
    job
        What the cells share; it is pickled.
    workers
        Number of workers, at most one per cell; None for the usual number.
    options
        Of those of the class, the given ones.

    Raises
    ------
    ParameterError
        If `workers` is not positive.
    """

    pool: ClassVar[Callable[..., Pool[Any]]]
    stops_cells: ClassVar = True
    options: ClassVar[Mapping[str, Hyperparameter]] = {}

    def __init__(self, *, job: Job, workers: int | None = None, options: Mapping[str, Value] | None = None) -> None:
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ParameterError("workers", workers, "must be a positive number, or auto")
        self._job = job
        self._workers = workers
        self._given = complete(self.options, options)

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome, None, None]:
        """Run the cells, and yield outcomes as they come in; errors as of every executor."""
        return dispatch(lambda: self.pool(self._job, self._workers, self._given), cells, self._job)


class ProcessExecutor(PoolExecutor):
    """Runs cells in processes of this machine.

    A worker that dies costs nothing but its current cell, see :func:`mlflow_l3d.execution.dispatch.dispatch`. Workers
    are fresh interpreters which do not run the script that starts them; functions and classes that it defines come with
    the job.
    The usual number of workers is one per core on the CPU, else one per GPU.
    """

    pool = ProcessPool


def complete(options: Mapping[str, Hyperparameter], given: Mapping[str, Value] | None) -> dict[str, Value]:
    """Return all options of an executor: the given ones, the others at their defaults."""
    return {**{name: option.default for name, option in options.items()}, **(given or {})}
