"""Calls: the cells that a session gets at once, and how many each worker is given."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import TEST_SAMPLE
from mlflow_l3d.execution.base import CountedCells
from mlflow_l3d.execution.samples import training


@dataclass(slots=True)
class Call:
    """Cells that a session gets in one call.

    Attributes
    ----------
    cells
        Those without an outcome so far.
    attempt
        How often these cells are tried, this call included.
    alone
        Whether no other call may be with its worker meanwhile.
    size
        How many cells the call began with.
    """

    cells: list[Cell]
    attempt: int = 1
    alone: bool = False
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
        return [Call(part, self.attempt + 1, self.alone) for part in halves(self.cells)]


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
        missing = max(0, count - self._here())
        self._waiting.extend(itertools.islice(self._cells, missing))
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
        What is left to do for each of the other workers, in cells.
    most
        The most that the worker takes in one call.
    """
    heaviest_first = sorted([0.0, *loads], reverse=True)
    while True:
        level = (waiting + sum(heaviest_first)) / len(heaviest_first)
        if level >= heaviest_first[0]:
            return max(1, min(most, math.ceil(level)))
        del heaviest_first[0]
