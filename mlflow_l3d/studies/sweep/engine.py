"""The work of a sweep: one run of one executor for the cells of all points."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.execution.calls import Hinted
from mlflow_l3d.execution.environment import default_workers
from mlflow_l3d.studies.base import executor_of, job_of
from mlflow_l3d.studies.interrupts import deferred_interrupts
from mlflow_l3d.studies.progress import progress_bar, restart_clock
from mlflow_l3d.studies.sweep.jobs import NOT_PREPARED, PointCell, SweepJob
from mlflow_l3d.studies.sweep.order import turns
from mlflow_l3d.studies.sweep.point import PointStudy
from mlflow_l3d.tracking.connection import error_line
from mlflow_l3d.tracking.earlier.elsewhere import LOOK_SECONDS

if TYPE_CHECKING:
    from tqdm import tqdm

    from mlflow_l3d.plan.cells import Cell, Outcome
    from mlflow_l3d.studies.budget import Budget

_logger = logging.getLogger("mlflow_l3d")
CALL_SECONDS: Final = 10.0
"""About as long is a worker busy with one call: longer ones leave workers idle at the end, and overrun a budget."""


class Engine:
    """Hands out the cells of the points, breadth first, and gives what comes back to its point.

    A cell that several points have is trained for the first of them, and lent to the others. One that another process
    of this machine trains comes last: it is waited for. A point is scored as soon
    as it has all of its cells; points that may lend each other cells wait for one another. What goes wrong at one point
    ends that point alone.

    Parameters
    ----------
    points
        The points, those that are adopted included.
    budget
        The most that is computed. A step (a row, as a rule) is begun only where all of its cells fit; where they do
        not, the point has no further one.
    progress
        Whether to show a progress bar on stderr.

    Attributes
    ----------
    computed
        Cells that were trained.
    """

    def __init__(self, points: Sequence[PointStudy], budget: Budget, *, progress: bool) -> None:
        self.points = points
        self.computed = 0
        self._budget = budget
        self._progress = progress
        self._setup = points[0].request.setup
        self._workers = self._setup.workers or default_workers(self._setup.device)
        self._under_way: dict[str, list[tuple[PointStudy, Cell]]] = {}
        self._trained: dict[str, PointStudy] = {}
        self._later: set[str] = set()
        self._given = 0
        self._now = points[0]
        self._deadline = 0.0

    def run(self) -> None:
        """Train, and score each point.

        Whatever happens, no parent stays open.
        """
        with ThreadPoolExecutor(1, "l3d-scoring") as scoring:
            try:
                self._train(scoring)
                self._score(scoring, self._groups())
                scoring.shutdown()
            except BaseException as error:
                with deferred_interrupts():
                    scoring.shutdown(cancel_futures=True)
                    for point in self.points:
                        if isinstance(error, KeyboardInterrupt):
                            point.interrupt()
                        else:
                            point.end("FAILED", error_line(error))
                raise

    def _train(self, scoring: ThreadPoolExecutor) -> None:
        if self._budget.seconds is not None:
            self._deadline = time.monotonic() + self._budget.seconds
        shown = progress_bar("sweep", "cell", total=self._waiting, shown=self._progress, state="loading and encoding")
        with shown as bar:
            self._train_cells(Hinted(self._cells(), self._hint), bar, scoring)
            if self._later:
                _logger.warning("%d cells are trained by another process, which is waited for.", len(self._later))
            while self._later:
                began, free = time.monotonic(), self._settled()
                self._score(scoring, self._ready(self.points))
                self._train_cells(iter(free), bar, scoring)
                if self._later:
                    time.sleep(max(LOOK_SECONDS, time.monotonic() - began))

    def _train_cells(self, cells: Iterator[Cell], bar: tqdm[Any], scoring: ThreadPoolExecutor) -> None:
        job = SweepJob.joined([job_of(each.request.setup) for each in self.points])
        with closing(executor_of(self._setup, job).run(cells)) as outcomes:  # type: ignore[type-var]
            for outcome in outcomes:
                if self.computed == 0:
                    restart_clock(bar)
                self._score(scoring, self._take(outcome))
                if not bar.disable:
                    bar.total = self.computed + self._waiting
                bar.update()

    @property
    def spent(self) -> bool:
        """Whether the budget ended the work."""
        return bool(self._budget) and any(point.short for point in self.points)

    @property
    def _waiting(self) -> int:
        """How many cells are neither done nor trained, as far as that is known."""
        return sum(point.waits for point in self.points)

    def _cells(self) -> Iterator[PointCell]:
        """Yield the cells that must be trained, breadth first, while the budget lasts."""
        for number, _ in turns([point.steps for point in self.points]):
            point = self.points[number]
            if point.handed_out or not (point.opened or point.known or self._fits(point, point.first_cells)):
                continue
            self._now = point
            cells = self._next(point)
            point.under_way += len(cells)  # all at once: else the first to come back would be taken for the last
            for at, cell in enumerate(cells):
                if point.ended or point.stopped:
                    point.under_way -= len(cells) - at
                    break
                free = point.elsewhere.free(cell)
                if not free and point.take_known(cell):
                    continue
                self._under_way[cell.key] = [(point, cell)]
                self._given += 1
                if free:
                    yield PointCell.of(cell, number)
                else:
                    self._later.add(cell.key)

    def _settled(self) -> list[PointCell]:
        """Look what became of cells that other processes train; return those that they gave back."""
        free: dict[str, PointCell] = {}
        for number, point in enumerate(self.points):
            own = {key: cell for key in self._later for each, cell in self._under_way[key] if each is point}
            if not own:
                continue
            gone = point.ended or point.stopped
            known, given = ([], []) if gone else point.elsewhere.settled(list(own.values()))
            for cell in own.values() if gone else known:
                self._under_way[cell.key].remove((point, own[cell.key]))
                if gone:
                    point.under_way -= 1
                else:
                    point.take_known(cell)
            free |= {cell.key: PointCell.of(cell, number) for cell in given if cell.key not in free}
        for key in tuple(self._later):
            if not self._under_way[key]:
                del self._under_way[key]
                self._later.remove(key)
                self._given -= 1
        self._later -= free.keys()
        return list(free.values())

    def _next(self, point: PointStudy) -> list[Cell]:
        """Return the cells of the next step of a point that nobody trains or has trained."""
        try:
            missing = point.next_step()
        except Exception as error:  # noqa: BLE001 - the other points go on
            point.fail(error_line(error))
            return []
        new: list[Cell] = []
        for cell in missing:
            if cell.key in self._under_way:
                self._under_way[cell.key].append((point, cell))
                point.under_way += 1
            elif (lender := self._trained.get(cell.key)) is None or not lender.lend(cell, point):
                new.append(cell)
        if new and not self._fits(point, len(new)):
            point.cut = True
            return []
        return new

    def _fits(self, point: PointStudy, cells: int) -> bool:
        """Return whether so many cells more are within the budget."""
        if self._budget.cells is not None:
            return self._given + cells <= self._budget.cells
        if self._budget.seconds is None:
            return True
        waiting = len(self._under_way) + cells
        return time.monotonic() + waiting * self._seconds(point) / self._workers <= self._deadline

    def _seconds(self, point: PointStudy) -> float:
        """Return how long a cell of a point takes: as those before it, or of all points; 0 before the first."""
        if point.computed:
            return point.seconds / point.computed
        return sum(each.seconds for each in self.points) / max(1, self.computed)

    def _hint(self) -> int:
        """Return how many cells may be handed out soon: so many that no call lasts much longer than CALL_SECONDS."""
        left = self._waiting - len(self._under_way)
        seconds = self._seconds(self._now)
        soon = int(CALL_SECONDS * self._workers / seconds) if seconds else self._workers
        most = self._now.most_ahead if self._now.opened else None
        return max(0, min(left, max(soon, self._workers), left if most is None else most))

    def _take(self, outcome: Outcome) -> list[list[PointStudy]]:
        """Give an outcome to the points that wait for it; return the groups that then have all of their cells."""
        self.computed += 1
        waiting = self._under_way.pop(outcome.key)
        first, _ = waiting[0]
        if outcome.error is not None and outcome.error.startswith(NOT_PREPARED):
            for point, _ in waiting:
                point.under_way -= 1
                if not point.ended:
                    point.fail(outcome.error.removeprefix(NOT_PREPARED))
            return []
        for point, cell in waiting:
            if point.ended:
                point.under_way -= 1
            elif point is first or first.ended or not first.lend(cell, point):
                point.take(cell, outcome)
                if point.hopeless:
                    point.fail(point.hopeless)
            else:
                point.under_way -= 1
        if outcome.error is None and not first.ended:
            self._trained[outcome.key] = first
        return self._ready([point for point, _ in waiting])

    def _ready(self, changed: Sequence[PointStudy]) -> list[list[PointStudy]]:
        """Return the groups that have all of their cells, where one of the points that changed has."""
        if all(point.under_way or not point.handed_out for point in changed):
            return []
        return [each for each in self._groups() if all(point.handed_out and not point.under_way for point in each)]

    def _groups(self) -> list[list[PointStudy]]:
        """Return the points that are not being scored, those together that may lend each other cells."""
        found: dict[str, list[PointStudy]] = {}
        for point in self.points:
            if not point.scored:
                found.setdefault(point.request.context_key, []).append(point)
        return list(found.values())

    def _score(self, scoring: ThreadPoolExecutor, groups: Sequence[Sequence[PointStudy]]) -> None:
        """Let groups of points be scored, beside the training."""
        for group in groups:
            for point in group:
                point.scored = True
            scoring.submit(_finish, group)


def _finish(group: Sequence[PointStudy]) -> None:
    """Score some points; their uploads are waited for first, so that each knows the runs of the others' cells."""
    for step in (PointStudy.wait, PointStudy.take_run_ids, PointStudy.finish):
        for point in group:
            try:
                step(point)
            except Exception as error:  # noqa: BLE001 - the other points go on
                point.fail(error_line(error))
