"""What a dispatcher knows of workers: the protocol of a pool and of a worker, what they say, and their calls."""

from __future__ import annotations

import itertools
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mlflow_l3d.cells.cell import Cell, Outcome, training
from mlflow_l3d.cells.factors import TEST_SAMPLE
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import CountedCells


@dataclass(frozen=True, slots=True)
class Ready:
    """The session is prepared, and takes so many cells in one call."""

    cells_at_once: int


@dataclass(frozen=True, slots=True)
class Busy:
    """The worker says what it does: see :func:`mlflow_l3d.approaches.progress.tell`."""

    state: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker is gone.

    Attributes
    ----------
    how
        Begins with ``worker``, and says how it ended.
    blameless
        Whether nothing that it ran can have ended it, as when its machine was taken away: its cells are tried again as
        if they had not been.
    refused
        Whether nothing of the job was tried; `how` then ends with what to do.
    """

    how: str
    blameless: bool = False
    refused: bool = False


Message = Ready | Busy | Outcome | Ended | L3DError
"""What a worker says; the error comes from the preparation, and ends everything."""


@dataclass(slots=True)
class Call:
    """Cells that a session gets in one call.

    Attributes
    ----------
    cells
        Those without an outcome so far.
    attempt
        How often these cells are tried, this call included.
    size
        How many cells the call began with.
    """

    cells: list[Cell]
    attempt: int = 1
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.cells)

    def received(self, key: str) -> Cell:
        """Note that there is an outcome for the cell with this key, and return the cell."""
        # Outcomes mostly come in the order of the cells, so that this is the first one.
        place = next(place for place, cell in enumerate(self.cells) if cell.key == key)
        return self.cells.pop(place)

    def split(self, most: int) -> list[Call]:
        """Return the call as calls of at most `most` cells; for one that came from a session that takes more."""
        return [Call(self.cells[start : start + most], self.attempt) for start in range(0, len(self.cells), most)]

    def again(self) -> list[Call]:
        """Return the calls in which the cells without an outcome are tried again: two halves, in the end one cell."""
        return [Call(part, self.attempt + 1) for part in halves(self.cells)]


def halves(cells: list[Cell]) -> list[list[Cell]]:
    """Return the first and the second half of some cells, without those that are empty."""
    middle = -(-len(cells) // 2)
    return [part for part in (cells[:middle], cells[middle:]) if part]


class Queue:
    """Cells that wait: calls that came back first, as they are, then the caller's cells.

    Parameters
    ----------
    cells
        Taken as they are needed.
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._returned: deque[Call] = deque()
        self._waiting: deque[Cell] = deque()
        self._cells = iter(cells)

    def look_ahead(self, count: int) -> int:
        """Return how many cells there are, counting up to `count`; so many are taken from the caller."""
        self._waiting.extend(itertools.islice(self._cells, max(0, count - self._here())))
        return min(count, self._here())

    def expected(self, count: int) -> int:
        """Return how many cells are expected, counting up to `count`.

        They are taken from the caller only if it does not say how many there are (:class:`CountedCells`).
        """
        if not isinstance(self._cells, CountedCells):
            return self.look_ahead(count)
        return min(count, self._here() + self._cells.remaining())

    def take(self, most: int) -> Call | None:
        """Return the next call, of at most `most` cells if they are new; None if there is none.

        Cells that differ from its last one in their test examples alone come along, since they are trained once.
        """
        if not self.look_ahead(1):
            return None
        if self._returned:
            return self._returned.popleft()
        self.look_ahead(most)
        cells = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        while (
            TEST_SAMPLE in cells[-1].seeds and self.look_ahead(1) and training(self._waiting[0]) == training(cells[-1])
        ):
            cells.append(self._waiting.popleft())
        return Call(cells)

    def put_back(self, calls: Iterable[Call]) -> None:
        """Let calls that were not started, or not finished, be the next ones."""
        self._returned.extendleft(reversed(tuple(calls)))

    def _here(self) -> int:
        return len(self._waiting) + sum(len(call.cells) for call in self._returned)


def share(waiting: int, loads: Sequence[float], most: int) -> int:
    """Return how many cells a free worker is given, so that all workers are done at about the same time.

    The cells that wait are thought poured onto the workers, the least loaded first, until all of those that got some
    have the same load.

    Parameters
    ----------
    waiting
        Cells that wait, counted as far as workers could take them at once.
    loads
        Work left for each of the other workers, in cells.
    most
        The most that the worker takes in one call.
    """
    heaviest_first = sorted([0.0, *loads], reverse=True)
    while True:
        level = (waiting + sum(heaviest_first)) / len(heaviest_first)
        if level >= heaviest_first[0]:
            return max(1, min(most, math.ceil(level)))
        del heaviest_first[0]


class Worker(ABC):
    """One worker and the calls that it has: the first is being run, a second one waits with it.

    A class of its own says how a call gets there (:meth:`give`).

    Attributes
    ----------
    ready, cells_at_once
        Whether its session is prepared, and how many cells that takes in one call.
    reserved
        A call that nobody else may have.
    in_flight
        The calls that it has.
    silent
        Seconds since the current call began, or gave its last outcome, as far as somebody listened.
    """

    def __init__(self) -> None:
        self.ready = False
        self.cells_at_once = 1
        self.reserved: Call | None = None
        self.in_flight: deque[Call] = deque()
        self.current_since = self._heard = time.monotonic()
        self.silent = 0.0

    @abstractmethod
    def give(self, cells: list[Cell] | None) -> None:
        """Send the worker the cells of a call, or None: there are no more. If it is gone, its pool reports that."""

    def send(self, call: Call) -> None:
        """Give the worker a call."""
        if not self.in_flight:
            self._begin()
        self.in_flight.append(call)
        self.give(call.cells)

    def received(self, key: str) -> Cell:
        """Note that a cell of the current call is done, and return it; after the last one the next call has begun."""
        self.spoke()
        cell = self.in_flight[0].received(key)
        if not self.in_flight[0].cells:
            self.in_flight.popleft()
            self._begin()
        return cell

    def _begin(self) -> None:
        self.spoke()
        self.current_since = self._heard

    def spoke(self) -> None:
        """Note that the worker said something just now."""
        self._heard, self.silent = time.monotonic(), 0.0

    def listen(self, seconds: float) -> None:
        """Note that somebody listened to the worker for the last `seconds`, and it said nothing."""
        self.silent += min(seconds, time.monotonic() - self._heard)

    def current_seconds(self) -> float:
        """Return how long the current call has been running."""
        return time.monotonic() - self.current_since

    def load(self, seconds: float) -> float:
        """Return how much is left to do, in cells, if a cell takes `seconds` (0: not known)."""
        waiting = [*self.in_flight, *([self.reserved] if self.reserved else [])]
        cells = float(sum(call.size for call in waiting))
        if self.in_flight:
            # A session may train all cells of a call side by side, and give no outcome before the end.
            current = self.in_flight[0]
            progress = self.current_seconds() / seconds if seconds > 0 else 0.0
            cells -= max(current.size - len(current.cells), min(progress, current.size))
        return cells


W = TypeVar("W", bound=Worker)


class Pool(ABC, Generic[W]):
    """The workers of one job.

    Parameters
    ----------
    most
        How many workers there may be.

    Attributes
    ----------
    workers
        Those that were started and have not ended; the dispatcher writes it.
    lets_wait
        Whether a second call may wait with a worker. Not if outcomes may be lost with the worker that has given them:
        which of its calls ended it would not be known.
    """

    lets_wait: bool = True

    def __init__(self, most: int) -> None:
        self.workers: list[W] = []
        self._most = most

    @property
    def most(self) -> int:
        """How many workers there may be; asked again and again, so that it may change."""
        return self._most

    @abstractmethod
    def start(self) -> W:
        """Return a new worker, which prepares its session by itself."""

    @abstractmethod
    def events(self, seconds: float) -> Iterator[tuple[W, Message]]:
        """Wait until a worker says something, `seconds` at most, and yield whatever each has said by then.

        A worker that takes many cells at once may come several times. Each is looked at after the call, so that none is
        thought silent whose words lie there. The last that a worker says is that it :class:`Ended`.
        """

    @abstractmethod
    def end(self, workers: Sequence[W], *, at_once: bool) -> None:
        """End workers and return when they are gone: stop them, or let those that are ready close their sessions first.

        Those that ended by themselves come here, too.
        """

    def close(self) -> None:
        """Give back what the pool itself holds; its workers are gone."""
