"""The dispatcher: calls go out to the workers of a pool, outcomes come in, and what goes wrong is tried again."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from statistics import median
from typing import Final, Generic

from mlflow_l3d.approaches.failures import LAST_SECONDS
from mlflow_l3d.approaches.progress import tell
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import L3DError, logger
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.sessions import NoFurtherCellError, job_of
from mlflow_l3d.execution.workers import Busy, Call, Ended, Message, Pool, Queue, Ready, W, share

ATTEMPTS: Final = 2
"""How often a cell is tried whose worker dies."""
PREFETCH_BELOW_SECONDS: Final = 5.0
"""Shorter cells wait with the worker while the one before runs, so that it never waits for the dispatcher. A longer one
would rather be free for whoever is done first."""
LOOK_SECONDS: Final = 1.0
"""How often workers are looked for that hang, or that end without a word."""
MOST_BLAMELESS: Final = 20
"""So many workers in a row whose machines went away before there was an outcome are not a coincidence."""


def dispatch(open_pool: Callable[[], Pool[W]], cells: Iterable[Cell], job: Job) -> Generator[Outcome, None, None]:
    """Run cells in the workers of a pool: what the `run` of an executor is.

    Each cell gives one outcome. One whose worker dies is tried once more, in a fresh worker. If sessions take many
    cells in a call, those of it that have no outcome are tried again in calls of half as many, until the one that ends
    its worker is alone; only that one fails. So it is with a worker that hangs (``job.cell_timeout``), but that a cell
    which hung alone is not tried again.

    Parameters
    ----------
    open_pool
        Returns the pool, which has no workers yet; not called if there is no cell.
    cells
        Taken as they are needed.
    job
        What the cells share.

    Raises
    ------
    L3DError
        That of the preparation; or if no worker gets as far as that.
    """
    queue = Queue(cells)
    if not queue.look_ahead(1):
        return
    pool = open_pool()
    at_once = True
    try:
        yield from Dispatcher(pool, queue, job).outcomes()
        at_once = False
    except NoFurtherCellError:
        at_once = False
        _wait_for_last_words(pool)
        raise
    finally:
        try:
            pool.end(tuple(pool.workers), at_once=at_once)
        finally:
            pool.workers.clear()
            pool.close()


def _wait_for_last_words(pool: Pool[W]) -> None:
    """Wait until workers that have a call say why it ended, too: what they paid for is kept by then."""
    until = time.monotonic() + LAST_SECONDS
    busy = [worker for worker in pool.workers if worker.in_flight]
    while busy and time.monotonic() < until:
        for worker, message in pool.events(LOOK_SECONDS):
            if worker in busy and isinstance(message, L3DError | Ended):
                busy.remove(worker)


class Dispatcher(Generic[W]):
    """The state of :func:`dispatch`.

    A session that takes one cell a call may have a second one waiting, and each outcome is passed on before the next is
    looked at. One that takes many is sent its next call as soon as it is done with one, before the caller has seen all
    outcomes of it: they wait in `_arrived`.
    """

    def __init__(self, pool: Pool[W], queue: Queue, job: Job) -> None:
        self._pool = pool
        self._queue = queue
        self._job = job
        self._limits = Limits(job)
        self._depth = 1
        self._seconds = 0.0
        self._arrived: deque[Outcome] = deque()
        self._staffed = 0
        self._refused = 0
        self._blameless = 0
        self._looked = time.monotonic()

    def outcomes(self) -> Iterator[Outcome]:
        """Yield one outcome for each cell of the queue."""
        pool = self._pool
        while True:
            self._staff()
            for worker in pool.workers:
                self._fill(worker)
            busy = self._arrived or any(worker.in_flight or worker.reserved for worker in pool.workers)
            if not busy and not self._queue.look_ahead(1):
                return
            overdue = self._overdue()
            for worker, message in pool.events(0.0 if self._arrived else LOOK_SECONDS):
                overdue.pop(worker, None)
                outcome = self._take_in(worker, message)
                if worker.ready:
                    self._fill(worker)
                if outcome is not None and worker.cells_at_once > 1:
                    self._arrived.append(outcome)
                elif outcome is not None:
                    yield outcome
            for worker, limit in overdue.items():
                self._arrived.extend(self._hung(worker, limit))
            if self._arrived:
                yield self._arrived.popleft()

    def _staff(self) -> None:
        """Start workers if there may be more of them than there are, and cells that nobody is free for."""
        pool, most = self._pool, self._pool.most
        if most == self._staffed:
            return
        self._staffed = most
        free = sum(not worker.in_flight and worker.reserved is None for worker in pool.workers)
        while len(pool.workers) < most - self._refused and self._queue.look_ahead(free + 1) > free:
            pool.workers.append(pool.start())
            free += 1

    def _overdue(self) -> dict[W, float]:
        """Return worker -> limit of those whose call takes too long; what they say from here on saves them.

        Only the time in which somebody listened counts: the caller may be slow, and the machine may sleep.
        """
        now = time.monotonic()
        listened, self._looked = min(now - self._looked, 2 * LOOK_SECONDS), now
        limits = {}
        for worker in self._pool.workers:
            if worker.in_flight:
                worker.listen(listened)
                if limit := self._limits.exceeded(worker.in_flight[0].cells, worker.silent):
                    limits[worker] = limit
        return limits

    def _take_in(self, worker: W, message: Message) -> Outcome | None:
        """Note what a worker said; return the outcome that it sent, or that its end is."""
        if isinstance(message, Outcome):
            cell = worker.received(message.key)
            self._seconds = message.duration_seconds
            if message.error is None:
                self._limits.finished(cell, self._seconds)
            # Two short calls of one cell, if the pool lets one wait.
            self._depth = 2 if self._pool.lets_wait and self._seconds < PREFETCH_BELOW_SECONDS else 1
            self._blameless = 0
            return message
        if isinstance(message, Ready):
            worker.ready, worker.cells_at_once = True, message.cells_at_once
            return None
        if isinstance(message, Busy):
            worker.spoke()
            tell(message.state)
            return None
        if isinstance(message, L3DError):
            raise message
        return self._ended(worker, message)

    def _fill(self, worker: W) -> None:
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

    def _next(self, worker: W) -> Call | None:
        most, workers = worker.cells_at_once, self._pool.workers
        if most == 1:
            return self._queue.take(1)
        if len(self._arrived) > most * len(workers):
            # The caller is slower than the workers: memory must not grow.
            return None
        loads = [other.load(self._seconds) for other in workers if other is not worker]
        return self._queue.take(share(self._queue.expected(most * len(workers)), loads, most))

    def _ended(self, worker: W, message: Ended) -> Outcome | None:
        """Replace a worker that ended; return the outcome of a cell that must not be tried again."""
        was_ready, current = worker.ready, self._take_out(worker)
        if message.blameless and self._blameless < MOST_BLAMELESS:
            self._blameless += 1
            logger.warning("%s; its cells are given to others", message.how)
            self._queue.put_back([Call(current.cells, current.attempt)] if current else [])
            return None
        if not was_ready:
            how = message.how.rstrip(".") if message.refused else f"{message.how} before it was ready"
            if not self._pool.workers:
                fix = "" if message.refused else "; its own output says why. Fewer workers need less memory"
                raise L3DError(f"approach {self._job.approach.name}: {how}{fix}.")
            self._refused += 1
            logger.warning("%s; %d are left", how, len(self._pool.workers))
        if current is None or self._again(current, ATTEMPTS):
            return None
        error = f"{message.how}; the cell was tried {current.attempt} times"
        return Outcome(current.cells[0].key, duration_seconds=worker.current_seconds(), error=error)

    def _hung(self, worker: W, limit: float) -> Iterator[Outcome]:
        """Replace a worker that hangs; yield the outcome of a cell that hung alone."""
        current = self._take_out(worker)
        timeout_text = "auto" if self._job.cell_timeout is None else f"{self._job.cell_timeout:g}"
        error = f"no outcome within {limit:g} s (cell_timeout={timeout_text}), so its worker was stopped"
        if current is not None and not self._again(current, 1):
            yield Outcome(current.cells[0].key, duration_seconds=worker.current_seconds(), error=error)
        elif current is not None:
            logger.warning("a call of %d cells: %s; they are tried again in smaller calls", current.size, error)

    def _take_out(self, worker: W) -> Call | None:
        """Take a worker out of the pool; what it was not at is for others. Return what it was at."""
        self._pool.workers.remove(worker)
        self._pool.end((worker,), at_once=True)
        self._staffed = 0
        current = worker.in_flight.popleft() if worker.in_flight else None
        self._queue.put_back([*([worker.reserved] if worker.reserved else []), *worker.in_flight])
        worker.in_flight.clear()
        worker.ready, worker.reserved = False, None
        return current

    def _again(self, call: Call, attempts: int) -> bool:
        """Let the cells of a call be tried again in smaller calls, unless it is one that was tried often enough."""
        if len(call.cells) == 1 and call.attempt >= attempts:
            return False
        first, *others = call.again()
        self._queue.put_back(others)
        worker = self._pool.start()
        worker.reserved = first
        self._pool.workers.append(worker)
        return True


MEDIANS: Final = 20
"""``auto``: a cell may take so many times the median of the finished cells of its job."""
FLOOR_SECONDS: Final = 600.0
"""``auto``: no call is given up before that; the session of a point of a sweep is prepared inside a call."""
FIRST_SECONDS: Final = 86_400.0
"""``auto``: as long as no cell of its job is finished nobody knows what is long, and a day is."""
_REMEMBERED: Final = 99
"""Cells of a job, the last ones, whose median counts."""


class Limits:
    """The limits of the calls of one job: those of ``cell_timeout``.

    Parameters
    ----------
    job
        Its ``cell_timeout``: seconds a cell, infinite for no limit, None for ``auto``.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._seconds: dict[int, deque[float]] = {}

    def finished(self, cell: Cell, seconds: float) -> None:
        """Note that a cell took so long."""
        if self._job.cell_timeout is None:
            self._seconds.setdefault(id(job_of(cell, self._job)), deque(maxlen=_REMEMBERED)).append(seconds)

    def exceeded(self, cells: Iterable[Cell], silent: float) -> float:
        """Return the limit, in seconds, of a call that has these cells left; 0 if `silent` seconds are within it."""
        timeout = self._job.cell_timeout
        if silent <= (FLOOR_SECONDS if timeout is None else timeout):
            return 0.0
        limit = self._auto(cells) if timeout is None else timeout * sum(1 for _ in cells)
        return limit if silent > limit else 0.0

    def _auto(self, cells: Iterable[Cell]) -> float:
        counts = Counter(id(job_of(cell, self._job)) for cell in cells)
        return math.fsum(
            max(FLOOR_SECONDS, MEDIANS * median(self._seconds[job]) * count) if job in self._seconds else FIRST_SECONDS
            for job, count in counts.items()
        )
