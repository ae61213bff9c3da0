"""Cells in worker processes that stay warm: the model is loaded once a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from mlflow_l3d.approaches.progress import tell
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.calls import Call, Queue, share
from mlflow_l3d.execution.environment import default_workers, places
from mlflow_l3d.execution.pool import Pool, Worker
from mlflow_l3d.execution.worker import Busy, Lost, Ready
from mlflow_l3d.plan.cells import Cell, Outcome

ATTEMPTS: Final = 2
"""How often a cell is tried whose worker dies."""
PREFETCH_BELOW_SECONDS: Final = 5.0
"""Shorter cells wait in the worker's pipe while the one before runs, so that a worker never waits for the parent. A
longer one would rather be free for whoever is done first."""


class ProcessExecutor:
    """Runs cells in processes of this machine.

    A worker that dies costs nothing but its current cell, which is tried once more in a fresh worker. Where sessions
    take many cells at once, it costs those of its current call that had no outcome; they are tried again in calls of
    half as many, so that a cell which ends its worker is in the end alone, and only that one fails. Workers are fresh
    interpreters which do not run the script that starts them; functions and classes that it defines come with the job.

    Parameters
    ----------
    job
        What the cells share; it is pickled, by value what the user's script or notebook defines.
    workers
        Number of processes, at most one a cell; None is one a core on the CPU, else one a GPU.

    Raises
    ------
    ParameterError
        If `workers` is not positive.
    """

    def __init__(self, *, job: Job, workers: int | None = None) -> None:
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ParameterError("workers", workers, "must be a positive number, or auto")
        self._job = job
        self._workers = workers

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Run the cells, and yield outcomes as they come in.

        Raises
        ------
        L3DError
            If the approach cannot be prepared or does not survive pickling.
        """
        queue = Queue(cells)
        most = self._workers or default_workers(self._job.device)
        count = queue.look_ahead(most)
        if not count:
            return
        pool = Pool(self._job, places(self._job.device))
        at_once = True
        try:
            for _ in range(count):
                pool.start()
            yield from _Dispatch(pool, queue).outcomes()
            at_once = False
        finally:
            pool.stop(at_once=at_once)


class _Dispatch:
    """Calls go out, outcomes come in.

    A session that takes one cell a call may have a second one in its pipe, and each outcome is passed on before the
    next is looked at. One that takes many is sent its next call as soon as it is done with one, before the caller has
    seen all outcomes of it: they wait in `_arrived`.
    """

    def __init__(self, pool: Pool, queue: Queue) -> None:
        self._pool = pool
        self._queue = queue
        self._depth = 1
        self._seconds = 0.0
        self._arrived: deque[Outcome] = deque()

    def outcomes(self) -> Iterator[Outcome]:
        """Yield one outcome for each cell of the queue."""
        pool = self._pool
        while True:
            for worker in pool.workers:
                self._fill(worker)
            busy = self._arrived or any(worker.in_flight or worker.reserved for worker in pool.workers)
            if not busy and not self._queue.look_ahead(1):
                return
            for worker, alive, message in pool.events(wait=not self._arrived):
                outcome = self._take_in(worker, alive, message)
                if worker.ready:
                    self._fill(worker)
                if outcome is not None and worker.cells_at_once > 1:
                    self._arrived.append(outcome)
                elif outcome is not None:
                    yield outcome
            if self._arrived:
                yield self._arrived.popleft()

    def _take_in(self, worker: Worker, alive: bool, message: object) -> Outcome | None:
        """Note what happened to a worker; return the outcome that it sent, or that its end is."""
        if isinstance(message, Outcome):
            worker.received(message.key)
            self._seconds = message.duration_seconds
            self._depth = 2 if self._seconds < PREFETCH_BELOW_SECONDS else 1
            return message
        if isinstance(message, Ready):
            worker.ready, worker.cells_at_once = True, message.cells_at_once
        elif isinstance(message, Busy):
            tell(message.state)
        elif isinstance(message, Lost):
            worker.lost = message.why
        elif isinstance(message, L3DError):
            raise message
        elif not alive:
            return self._replace(worker)
        return None

    def _fill(self, worker: Worker) -> None:
        """Give a ready worker what it may have."""
        depth = self._depth if worker.cells_at_once == 1 else 1
        while worker.ready and len(worker.in_flight) < depth:
            call, worker.reserved = worker.reserved or self._next(worker), None
            if call is None:
                return
            if len(call.cells) > worker.cells_at_once:
                call, *others = call.split(worker.cells_at_once)
                self._queue.put_back(others)
            worker.send(call)

    def _next(self, worker: Worker) -> Call | None:
        most, workers = worker.cells_at_once, self._pool.workers
        if most == 1:
            return self._queue.take(1)
        if len(self._arrived) > most * len(workers):
            # The caller is slower than the workers: memory must not grow.
            return None
        loads = [other.load(self._seconds) for other in workers if other is not worker]
        return self._queue.take(share(self._queue.expected(most * len(workers)), loads, most))

    def _replace(self, worker: Worker) -> Outcome | None:
        """Start another worker for one that died; return the outcome of a cell that must not be tried again."""
        pool, queue = self._pool, self._queue
        how = pool.bury(worker)
        current = worker.in_flight.popleft() if worker.in_flight else None
        queue.put_back([*([worker.reserved] if worker.reserved else []), *worker.in_flight])
        worker.in_flight.clear()
        was_ready, worker.ready, worker.reserved = worker.ready, False, None
        if current is not None and (len(current.cells) > 1 or current.attempt < ATTEMPTS):
            first, *others = current.again()
            queue.put_back(others)
            pool.start(first)
            return None
        free = sum(not other.in_flight and other.reserved is None for other in pool.workers)
        if was_ready and queue.look_ahead(free + 1) > free:
            pool.start()
        if current is None:
            return None
        error = f"{how}; the cell was tried {current.attempt} times"
        return Outcome(current.cells[0].key, duration_seconds=worker.current_seconds(), error=error)
