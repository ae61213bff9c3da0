"""The loop over cells: those that nobody has are trained, and those that another process trains are waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from enum import Enum
from typing import Final, Generic, TypeVar

from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import logger
from mlflow_l3d.execution.base import CountedCells, Executor
from mlflow_l3d.tracking.earlier.elsewhere import LOOK_SECONDS, Elsewhere
from mlflow_l3d.tracking.recorder import RunRecorder
from mlflow_l3d.tracking.records import CellRecord


class CellOwner:
    """A study whose cells the loop trains.

    Attributes
    ----------
    recorder
        What is done.
    elsewhere
        What other processes finish of its cells; there once the parent is open.
    """

    recorder: RunRecorder[CellRecord]
    elsewhere: Elsewhere

    @property
    def stopped(self) -> bool:
        """Whether no further cell is to be trained."""
        return False

    def on_known(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Take note of a cell that was done before, or is done now; one that failed has no metrics."""

    def needs(self, cell: Cell) -> bool:  # noqa: ARG002
        """Return whether a cell that another process trains is waited for."""
        return not self.stopped

    def take_known(self, cell: Cell) -> bool:
        """Take note of a cell if it is done by now; return whether it is."""
        if (metrics := self.recorder.recovered.metrics.get(cell.key)) is not None:
            self.on_known(cell, metrics)
        return metrics is not None

    def stop_waiting(self, cell: Cell) -> None:
        """Take note that a cell is not waited for any more, without an outcome."""

    def as_handed_out(self, cell: Cell) -> Cell:
        """Return a cell as executors get it."""
        return cell


S = TypeVar("S", bound=CellOwner)


class CellLoop(Generic[S]):
    """The cells of one study, or of several, that are being trained.

    A cell that another process of this machine trains comes last: it is waited for.

    Parameters
    ----------
    executor
        Returns a new executor. One trains the cells that are free, others those that other processes give back.
    remaining
        Returns how many cells may still be handed out; a guess is enough.
    after_look
        Called after each look at what became of the cells of other processes.

    Attributes
    ----------
    under_way
        Key -> the studies that wait for a cell; the first of them has claimed it.
    elsewhere
        Those of the keys whose cells other processes train.
    """

    def __init__(
        self,
        executor: Callable[[], Executor],
        remaining: Callable[[], int],
        after_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._executor, self._remaining, self._after_look = executor, remaining, after_look
        self._has_waited = False
        self.under_way: dict[str, list[tuple[S, Cell]]] = {}
        self.elsewhere: set[str] = set()

    def outcomes(self, cells: Iterable[tuple[S, Cell]]) -> Generator[tuple[Outcome, list[tuple[S, Cell]]], None, None]:
        """Train some cells; yield each outcome with the studies that wait for it. Closing it stops the workers."""
        yield from self._train(CountedCells(self._free(cells), self._remaining))
        awaited = {cell.key for study, cell in self._cells_elsewhere() if study.needs(cell)}
        if awaited and not self._has_waited:
            self._has_waited = True
            logger.warning("Waiting for another process to train %d cells.", len(awaited))
        while self.elsewhere:
            began, given_back = time.monotonic(), self._look()
            self._after_look()
            if given_back:
                yield from self._train(iter(given_back))
            elif self.elsewhere:
                time.sleep(max(LOOK_SECONDS, time.monotonic() - began))

    def take_finished(self) -> None:
        """Take note of those cells of other processes that are known to be done by now."""
        for study, cell in self._cells_elsewhere():
            if study.take_known(cell):
                self._leave(study, cell)

    def abandon(self) -> None:
        """Give back the claims on all cells that are under way."""
        for studies in self.under_way.values():
            for study, cell in studies:
                study.recorder.claims.release(cell.key)
        self.under_way.clear()
        self.elsewhere.clear()

    def _train(self, cells: Iterator[Cell]) -> Iterator[tuple[Outcome, list[tuple[S, Cell]]]]:
        with closing(self._executor().run(cells)) as outcomes:
            for outcome in outcomes:
                yield outcome, self.under_way.pop(outcome.key)

    def _free(self, cells: Iterable[tuple[S, Cell]]) -> Iterator[Cell]:
        """Yield those of some cells that nobody trains or has trained, and note which other processes train."""
        for study, cell in cells:
            is_free = study.elsewhere.free(cell)
            if not is_free and study.take_known(cell):
                study.stop_waiting(cell)
                continue
            self.under_way[cell.key] = [(study, cell)]
            if is_free:
                yield study.as_handed_out(cell)
            else:
                self.elsewhere.add(cell.key)

    def _look(self) -> list[Cell]:
        """Look what became of the cells of other processes; return those that were given back, which are claimed."""
        given_back: dict[str, Cell] = {}
        waiting = self._cells_elsewhere()
        for study in dict.fromkeys(study for study, _ in waiting):
            needed: list[Cell] = []
            for cell in (cell for each, cell in waiting if each is study):
                if study.needs(cell):
                    needed.append(cell)
                else:
                    self._leave(study, cell)
            done, free = study.elsewhere.settled(needed) if needed else ([], [])
            for cell in done:
                study.take_known(cell)
                self._leave(study, cell)
            for cell in free:
                given_back.setdefault(cell.key, study.as_handed_out(cell))
        self.elsewhere -= given_back.keys()
        return list(given_back.values())

    def _cells_elsewhere(self) -> list[tuple[S, Cell]]:
        return [entry for key, entries in self.under_way.items() if key in self.elsewhere for entry in entries]

    def _leave(self, study: S, cell: Cell) -> None:
        """Let a study no longer wait for a cell."""
        study.stop_waiting(cell)
        self.under_way[cell.key].remove((study, cell))
        if not self.under_way[cell.key]:
            del self.under_way[cell.key]
            self.elsewhere.discard(cell.key)


class State(Enum):
    """The progress of a study of cells.

    ``CUT``, ``COMPLETE`` and ``INCOMPLETE`` are states of studies that share a loop, as the points of a sweep do.
    """

    PLANNED = "PLANNED"
    """Its parent is not open."""
    TRAINING = "TRAINING"
    CUT = "CUT"
    """The budget is not enough for its next cells: what is under way is recorded."""
    COMPLETE = "COMPLETE"
    INCOMPLETE = "INCOMPLETE"
    """What there is was scored, and cells are missing or failed."""
    KILLED = "KILLED"
    FAILED = "FAILED"


OPEN: Final = frozenset({State.TRAINING, State.CUT})
"""States in which the parent is open."""
OVER: Final = frozenset({State.COMPLETE, State.INCOMPLETE, State.KILLED, State.FAILED})
