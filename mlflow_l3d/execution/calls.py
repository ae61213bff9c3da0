"""Calls: the cells that a session gets at once, how many each worker is given, and how long they may take."""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

import numpy as np

from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TEST_SAMPLE, stream
from mlflow_l3d.execution.base import CountedCells, Job
from mlflow_l3d.execution.sessions import job_of


def training(cell: Cell) -> tuple[tuple[str, int], ...]:
    """Return the seeds of what is trained: cells with the same ones differ in their test examples alone."""
    return tuple(sorted((name, seed) for name, seed in cell.seeds.items() if name != TEST_SAMPLE))


def trainings(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return cells in groups of which each is trained once; a cell on all test examples is a group of its own."""
    groups: dict[object, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(training(cell) if TEST_SAMPLE in cell.seeds else cell.key, []).append(cell)
    return list(groups.values())


def whole(cell: Cell) -> Cell:
    """Return a cell as it is evaluated on all test examples, under the same key."""
    return replace(cell, seeds={name: seed for name, seed in cell.seeds.items() if name != TEST_SAMPLE})


def half(outcome: Outcome, cell: Cell) -> Outcome:
    """Return the outcome of a cell on the half of the test examples that its seed draws, without replacement.

    Parameters
    ----------
    outcome
        Of the same training on all n test examples, n at least 2, and on the reference set, which stays whole.
    cell
        With a seed of ``test_sample``.

    Returns
    -------
    Outcome
        On n / 2 test examples, rounded down, in their order; its metrics are still those of all of them.

    Raises
    ------
    ValueError
        If there are no predictions, or of one example only.

    Notes
    -----
    Given the n examples, the mean of k drawn without replacement has the variance ``(1 - k / n) s2 / k`` with the
    sample variance s2 (ddof=1) of what is averaged; for k = n / 2 that is s2 / n, without bias the variance of the mean
    over n examples redrawn (McCarthy 1969, Pseudo-replication: half samples).
    """
    if outcome.predictions is None or outcome.labels is None or outcome.example_ids is None:
        raise ValueError("it has no predictions, of which test_sample could draw")
    reference = np.zeros(len(outcome.predictions), dtype=bool) if outcome.reference is None else outcome.reference
    tested = np.flatnonzero(~reference)
    count = len(tested)
    if count < 2:
        raise ValueError("it has one prediction, which has no half")
    halved = stream(cell.seeds[TEST_SAMPLE], "half").permutation(count)[: count // 2]
    drawn = np.sort(np.concatenate([tested[halved], np.flatnonzero(reference)]))
    return replace(
        outcome,
        key=cell.key,
        example_ids=outcome.example_ids[drawn],
        labels=outcome.labels[drawn],
        predictions=outcome.predictions[drawn],
        scores=None if outcome.scores is None else outcome.scores[drawn],
        reference=None if outcome.reference is None else reference[drawn],
    )


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
