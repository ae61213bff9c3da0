"""The work of a sweep: what there is to do, and one run of one executor for the cells of all points."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pandas as pd

from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import ParameterError, logger
from mlflow_l3d.execution.environment import default_workers, deferred_interrupts
from mlflow_l3d.execution.sessions import NOT_PREPARED, JointApproach
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.base import executor_of, job_of
from mlflow_l3d.studies.dry_run import Budget, StudyPlan, plan_cells
from mlflow_l3d.studies.loop import OPEN, CellLoop, State
from mlflow_l3d.studies.shown import progress_bar, restart_clock
from mlflow_l3d.studies.sweep.point import FIRST_STEPS, PointStudy
from mlflow_l3d.studies.sweep.request import SweepRequest
from mlflow_l3d.tracking.connection import Client, error_line
from mlflow_l3d.tracking.opening import BusyError

CALL_SECONDS: Final = 10.0
"""About as long is a worker busy with one call: longer ones leave workers idle at the end, and overrun a budget."""


@dataclass(frozen=True, repr=False)
class SweepPlan(StudyPlan):
    """What there is to do.

    Attributes
    ----------
    title, parts, workers, notes
        One row per point, with its choices.
    request
        The sweep.
    """

    request: SweepRequest = field(kw_only=True)

    @property
    def exit_status(self) -> int:
        """1 if a point failed."""
        return int(bool(self.request.failed))

    def check(self) -> None:
        """Raise ParameterError if the budget is known to be enough for no point."""
        budget = self.request.budget
        designs = [point.design() for point in self.request.points]
        first = [sum(map(each.step_size, range(min(FIRST_STEPS, each.steps)))) for each in designs]
        if budget.cells is not None and budget.cells < min(first) and not self.parts["done"].any():
            fix = "A point is scored from two rows on. Use a larger one."
            raise ParameterError("budget", budget, "is enough for no point", fix)

    def line(self) -> str:
        """Return what there is to do, in one line."""
        budget = f"; the budget of {self.request.budget} may end it earlier" if self.request.budget else ""
        return f"{counted(len(self.parts), 'point')}, {super().line()}{budget}"


def make_plan(request: SweepRequest, client: Client) -> SweepPlan:
    """Count what there is to do, and look up how long earlier cells took."""
    plan = plan_cells(client, request.title, {str(number): each for number, each in enumerate(request.points)})
    choices = pd.DataFrame([point.choices for point in request.points])
    parts = pd.concat([choices, plan.parts.drop(columns="part")], axis=1)
    return SweepPlan(request.title, parts, plan.workers, request=request, requests=plan.requests)


def turns(steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (point, step): in each round all points in their order, up to twice as many steps as in the round before.

    The rounds end at 2, 4, 8, 16, ... steps (rows, as a rule). A point that would have a quarter more at most goes to
    its end at once: so are points of 5, 10 or 20 rows whole one after the other in the last round, and not all at the
    very end. Wherever work ends, no point has more than 2.5 times the steps of one that is not whole, but for the first
    round.

    Parameters
    ----------
    steps
        How many steps each point has.
    """
    done, until = [0] * len(steps), FIRST_STEPS
    while any(reached < whole for reached, whole in zip(done, steps, strict=True)):
        for point, whole in enumerate(steps):
            end = whole if whole <= 1.25 * until else until
            yield from ((point, step) for step in range(done[point], end))
            done[point] = end
        until *= 2


class Engine:
    """Hands out the cells of the points, breadth first, and gives each outcome to its point.

    A cell that several points have is trained for the first of them, and lent to the others. One that another process
    of this machine trains comes last: it is waited for, as is a point of which another process holds the lock, once
    the locks of all others are given back, so that no two sweeps wait for each other. A point is scored as soon
    as it has all of its cells; points that may lend each other cells wait for one another. What goes wrong at one point
    ends that point alone.

    Parameters
    ----------
    points
        The points, those that are adopted included.
    budget
        The most that is computed. A step (a row, as a rule) is begun only if all of its cells fit; if they do
        not, the point has no further one.
    progress
        Whether to show a progress bar on stderr.

    Attributes
    ----------
    computed
        Cells that came back, with or without a score.
    """

    def __init__(self, points: Sequence[PointStudy], budget: Budget, *, progress: bool) -> None:
        self.points = points
        self.computed = 0
        self._budget = budget
        self._progress = progress
        self._scoring = ThreadPoolExecutor(1, "l3d-scoring")
        self._unscored = list(points)
        setup = points[0].request.setup
        self._workers = setup.how.workers or default_workers(setup.device)
        job = JointApproach([job_of(point.request.setup) for point in points]).job()
        self._loop: CellLoop[PointStudy] = CellLoop(
            lambda: executor_of(setup, job), self._remaining, lambda: self._score_ready(points)
        )
        self._trained: dict[str, PointStudy] = {}
        self._now = points[0]
        self._deadline = 0.0

    def run(self) -> None:
        """Train, and score each point.

        Whatever happens, no parent stays open.
        """
        with self._scoring:
            try:
                self._train()
                while busy := {point: point.busy for point in self.points if point.busy}:
                    logger.warning("Waiting for another process to train %s.", counted(len(busy), "point"))
                    for point, lock in busy.items():
                        with lock:
                            point.busy = None
                    # One thread scores in turn. When it is done with the others, their runs hold what they can lend.
                    self._scoring.submit(lambda: None).result()
                    self._unscored += busy
                    self._train()
                self._scoring.shutdown()
            except BaseException as error:
                with deferred_interrupts():
                    self._scoring.shutdown(cancel_futures=True)
                    for point in self.points:
                        if not isinstance(error, KeyboardInterrupt):
                            point.end("FAILED", error_line(error))
                        elif point.state in OPEN:
                            point.interrupt()
                raise

    def _train(self) -> None:
        if self._budget.seconds is not None and not self._deadline:
            self._deadline = time.monotonic() + self._budget.seconds
        bar_shown = progress_bar("sweep", "run", total=self._cells_ahead, shown=self._progress, state="starting")
        with bar_shown as bar, closing(self._loop.outcomes(self._cells())) as outcomes:
            for outcome, waiting in outcomes:
                restart_clock(bar)
                self._take(outcome, waiting)
                if not bar.disable:
                    bar.total = self.computed + self._cells_ahead
                bar.update()
        for group in self._groups():
            self._score(group)

    @property
    def is_spent(self) -> bool:
        """Whether the budget ended the work."""
        unfinished = (point for point in self.points if point.state not in (State.COMPLETE, State.FAILED))
        return bool(self._budget) and any(point.cells_lacking > 0 for point in unfinished)

    @property
    def _cells_ahead(self) -> int:
        """How many cells are neither done nor trained and are to be, as far as that is known."""
        return sum(point.cells_lacking for point in self.points if not point.is_over and point.state is not State.CUT)

    def _cells(self) -> Iterator[tuple[PointStudy, Cell]]:
        """Yield the cells that must be trained, breadth first, while the budget lasts."""
        for number, _ in turns([point.steps for point in self.points]):
            point = self.points[number]
            is_begun = point.state is not State.PLANNED or point.done
            if point.is_handed_out or not (is_begun or self._fits(point, point.first_cells)):
                continue
            self._now = point
            cells = self._next(point)
            point.under_way += len(cells)  # all at once: else the first to come back would be taken for the last
            for at, cell in enumerate(cells):
                if point.is_over or point.stopped:
                    point.under_way -= len(cells) - at
                    break
                yield point, cell

    def _next(self, point: PointStudy) -> list[Cell]:
        """Return the cells of the next step of a point that nobody trains or has trained."""
        try:
            missing = point.next_step()
        except BusyError as error:
            point.busy = error.lock
            return []
        except Exception as error:  # noqa: BLE001 - the other points go on
            point.fail(error_line(error))
            return []
        new: list[Cell] = []
        for cell in missing:
            if cell.key in self._loop.under_way:
                self._loop.under_way[cell.key].append((point, cell))
                point.under_way += 1
            elif cell.key not in self._trained or not self._trained[cell.key].lend(cell, point):
                new.append(cell)
        if not new or self._fits(point, len(new)):
            return new
        point.state = State.CUT
        return []

    def _fits(self, point: PointStudy, cells: int) -> bool:
        """Return whether so many cells more are within the budget."""
        waiting = len(self._loop.under_way) + cells
        if self._budget.cells is not None:
            return self.computed + waiting <= self._budget.cells
        if self._budget.seconds is None:
            return True
        return time.monotonic() + waiting * self._seconds(point) / self._workers <= self._deadline

    def _seconds(self, point: PointStudy) -> float:
        """Return how long a cell of a point takes: as those before it, or of all points; 0 before the first."""
        if point.computed:
            return point.seconds / point.computed
        return sum(each.seconds for each in self.points) / max(1, self.computed)

    def _remaining(self) -> int:
        """Return how many cells may be handed out soon: so many that no call lasts much longer than CALL_SECONDS."""
        seconds = self._seconds(self._now)
        soon = max(self._workers, int(CALL_SECONDS * self._workers / seconds) if seconds else 0)
        cells = min(self._cells_ahead - len(self._loop.under_way), soon)
        return min(cells, self._now.most_ahead) if self._now.state in OPEN else cells

    def _take(self, outcome: Outcome, waiting: Sequence[tuple[PointStudy, Cell]]) -> None:
        """Give an outcome to the points that wait for it, and score those that then have all of their cells."""
        self.computed += 1
        first, failure = waiting[0][0], outcome.error or ""
        for point, cell in waiting:
            point.under_way -= 1
            if point.is_over:
                continue
            if failure.startswith(NOT_PREPARED):
                point.fail(failure.removeprefix(NOT_PREPARED))
            elif point is first or first.is_over or not first.lend(cell, point):
                point.take(cell, outcome)
                if point.hopeless:
                    point.fail(point.hopeless)
        if outcome.error is None and not first.is_over:
            self._trained[outcome.key] = first
        self._score_ready([point for point, _ in waiting])

    def _score_ready(self, changed: Sequence[PointStudy]) -> None:
        """Score the groups that have all of their cells, if one of the points that changed has."""
        if any(point.has_all for point in changed):
            for group in self._groups():
                if all(point.has_all for point in group):
                    self._score(group)

    def _groups(self) -> list[list[PointStudy]]:
        """Return the points that are not being scored, those together that may lend each other cells."""
        groups: dict[str, list[PointStudy]] = {}
        for point in self._unscored:
            groups.setdefault(point.request.context_key, []).append(point)
        return list(groups.values())

    def _score(self, group: Sequence[PointStudy]) -> None:
        """Let some points be scored during the training."""
        self._unscored = [point for point in self._unscored if point not in group]
        self._scoring.submit(_finish, group)


def _finish(group: Sequence[PointStudy]) -> None:
    """Score some points; their uploads are waited for first, so that each knows the runs of the others' cells."""
    for step in (PointStudy.wait, PointStudy.take_run_ids, PointStudy.finish):
        for point in group:
            try:
                step(point)
            except Exception as error:  # noqa: BLE001 - the other points go on
                point.fail(error_line(error))
