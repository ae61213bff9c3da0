"""Cells in worker processes that stay warm: the model is loaded once a worker."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import default_workers, places
from mlflow_l3d.execution.pool import Assignment, Pool, Worker
from mlflow_l3d.execution.worker import Ready, Unprepared
from mlflow_l3d.plan.cells import Cell, Outcome

ATTEMPTS: Final = 2
"""How often a cell is tried whose worker dies."""
PREFETCH_BELOW_SECONDS: Final = 5.0
"""Shorter cells wait in the worker's pipe while the one before runs, so that a worker never waits for the parent. A
longer one would rather be free for whoever is done first."""


class ProcessExecutor:
    """Runs cells in processes of this machine.

    A worker that dies costs nothing but its current cell, which is tried once more in a fresh worker. Workers are
    started by the spawn method: a script that uses this executor needs ``if __name__ == "__main__":``.

    Parameters
    ----------
    job
        What the cells share; it is pickled.
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
        queue = _Queue(cells)
        most = self._workers or default_workers(self._job.device)
        count = queue.look_ahead(most)
        if not count:
            return
        pool = Pool(self._job, places(self._job.device))
        at_once = True
        try:
            for _ in range(count):
                pool.start()
            yield from _dispatch(pool, queue)
            at_once = False
        finally:
            pool.stop(at_once=at_once)


class _Queue:
    """Cells that wait: those that came back first, then the caller's, taken one by one."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._waiting: deque[Assignment] = deque()
        self._cells = iter(cells)

    def look_ahead(self, count: int) -> int:
        """Return how many cells there are, counting up to `count`."""
        missing = max(0, count - len(self._waiting))
        self._waiting.extend(Assignment(cell) for cell in itertools.islice(self._cells, missing))
        return min(count, len(self._waiting))

    def take(self) -> Assignment | None:
        """Return the next cell, None where there is none."""
        return self._waiting.popleft() if self.look_ahead(1) else None

    def put_back(self, assignments: Iterable[Assignment]) -> None:
        """Let cells that were not started be the next ones."""
        self._waiting.extendleft(reversed(tuple(assignments)))


def _dispatch(pool: Pool, queue: _Queue) -> Iterator[Outcome]:
    depth = 1
    while True:
        for worker in pool.workers:
            _fill(worker, queue, depth)
        if not any(worker.in_flight or worker.reserved for worker in pool.workers) and not queue.look_ahead(1):
            return
        for worker, alive, message in pool.events():
            outcome: Outcome | None = None
            if isinstance(message, Outcome):
                outcome = message
                worker.received()
                depth = 2 if outcome.duration_seconds < PREFETCH_BELOW_SECONDS else 1
            elif isinstance(message, Ready):
                worker.ready = True
            elif isinstance(message, Unprepared):
                raise _with_notes(message)
            elif not alive:
                outcome = _replace(worker, pool, queue)
            if worker.ready:
                _fill(worker, queue, depth)
            if outcome is not None:
                yield outcome


def _fill(worker: Worker, queue: _Queue, depth: int) -> None:
    """Give a ready worker what it may have."""
    while worker.ready and len(worker.in_flight) < depth:
        assignment, worker.reserved = worker.reserved or queue.take(), None
        if assignment is None:
            return
        worker.send(assignment)


def _replace(worker: Worker, pool: Pool, queue: _Queue) -> Outcome | None:
    """Start another worker for one that died; return the outcome of a cell that must not be tried again."""
    how = pool.bury(worker)
    current = worker.in_flight.popleft() if worker.in_flight else None
    returned = [*([worker.reserved] if worker.reserved else []), *worker.in_flight]
    queue.put_back(returned)
    worker.in_flight.clear()
    was_ready, worker.ready, worker.reserved = worker.ready, False, None
    if current is not None and current.attempt < ATTEMPTS:
        pool.start(Assignment(current.cell, current.attempt + 1))
        return None
    free = sum(not other.in_flight and other.reserved is None for other in pool.workers)
    if was_ready and queue.look_ahead(free + 1) > free:
        pool.start()
    if current is None:
        return None
    return Outcome(
        key=current.cell.key,
        duration_seconds=worker.current_seconds(),
        error=f"{how}; the cell was tried {current.attempt} times",
    )


def _with_notes(message: Unprepared) -> L3DError:
    for note in message.notes:
        if note not in getattr(message.error, "__notes__", ()):
            message.error.add_note(note)
    return message.error
