"""One point of a sweep under way: an investigation whose cells are trained among those of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import logger
from mlflow_l3d.execution.environment import deferred_interrupts
from mlflow_l3d.execution.sessions import JointCell
from mlflow_l3d.studies.investigation.run import InvestigationStudy
from mlflow_l3d.studies.loop import OPEN, OVER, State
from mlflow_l3d.studies.sweep.numbers import without_votes
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.request import PointRequest
from mlflow_l3d.tracking.recorder import RunRecorder, patience_seconds
from mlflow_l3d.tracking.records import CellRecord

if TYPE_CHECKING:
    from filelock import BaseFileLock

FIRST_STEPS: Final = 2
"""Steps of every point in the first round: a spread of row means needs two rows."""


class PointStudy(InvestigationStudy):
    """One point: which of its cells are handed out, under way and done, and how it ended.

    Parameters
    ----------
    request
        The point, with the run of its sweep.
    number
        Its place among the points.
    beside
        The recorder of the sweep.
    done
        How many of its cells the plan found done.
    points
        How many points the sweep has.

    Attributes
    ----------
    run_id, analysis, error
        Its parent, what it says, and why it failed; empty before.
    under_way
        Cells of the steps that were begun which have no outcome.
    seconds
        Wall clock of all cells that were trained.
    trials
        What its self-test trained, by key.
    borrowed
        Key -> the point that trained a cell of this one.
    busy
        The lock that another process at the same point holds; None if there is none.
    """

    request: PointRequest

    def __init__(
        self, request: PointRequest, number: int, beside: RunRecorder[CellRecord], done: int = 0, points: int = 1
    ) -> None:
        super().__init__(request)
        self.number, self.done = number, done
        self.run_id = self.error = ""
        self.analysis: Analysis | None = None
        self.under_way = self._step = 0
        self.seconds = 0.0
        self._beside, self._points = beside, points
        self.borrowed: dict[str, PointStudy] = {}
        self.busy: BaseFileLock | None = None
        self.trials: Mapping[str, Outcome] = {}
        design = request.design()
        self.steps, self.first_cells = design.steps, design.step_size(0)
        self._cells = (tuple(cells) for _, cells in groupby(design.cells(), key=design.step_of))

    def adopt(self, run_id: str, analysis: Analysis) -> None:
        """Take a complete parent, of an earlier run of the same sweep, as it is."""
        self.run_id, self.analysis = run_id, analysis
        self.state = State.COMPLETE

    @property
    def is_over(self) -> bool:
        """Whether its parent is closed, or it has none that it writes to."""
        return self.state in OVER

    @property
    def is_handed_out(self) -> bool:
        """Whether no further cell of it is to be trained."""
        is_cut = self.state is State.CUT or self.busy is not None
        return self.is_over or is_cut or self.stopped or self._step == self.steps

    @property
    def has_all(self) -> bool:
        """Whether every cell that was handed out came back, and no further one is to be trained."""
        return self.is_handed_out and not self.under_way

    @property
    def cells_lacking(self) -> int:
        """How many cells are neither done nor trained, as far as that is known."""
        return 0 if self.stopped or self.busy else self.size if self.state is State.PLANNED else self.left

    def next_step(self) -> list[Cell]:
        """Return the cells of the next step that must be trained; the parent is opened with the first."""
        if self.state is State.PLANNED:
            with deferred_interrupts():
                self.run_id = self.open(None, self._beside, self._points).parent.run_id
            self.take_tested(self.trials)
        self._step += 1
        return list(self.missing(next(self._cells)))

    def wait(self) -> None:
        """Wait until the server holds what was recorded so far, or is away for too long."""
        if self.state in OPEN:
            self.recorder.uploader.wait(patience=patience_seconds())

    def take(self, cell: Cell, outcome: Outcome) -> None:
        """Record what came of a cell."""
        self.seconds += outcome.duration_seconds
        super().take(cell, outcome)

    def needs(self, cell: Cell) -> bool:
        """Return whether a cell that another process trains is waited for."""
        return not self.is_over and super().needs(cell)

    def stop_waiting(self, cell: Cell) -> None:  # noqa: ARG002
        """Take note that a cell is not waited for any more, without an outcome."""
        self.under_way -= 1

    def as_handed_out(self, cell: Cell) -> Cell:
        """Return a cell that says to which job it belongs."""
        return JointCell.of(cell, self.number)

    def lend(self, cell: Cell, borrower: PointStudy) -> bool:
        """Give a cell that was trained here to another point of the same context; not one that failed.

        Parameters
        ----------
        cell
            The cell as the borrower has it.
        borrower
            The other point.
        """
        record = self.recorder.spool.record(cell.key)
        if record.error:
            return False
        lent = replace(record, **asdict(cell), name=cell.name)
        borrower.recorder.spool.add(lent, predictions=self.recorder.spool.predictions(cell.key))
        borrower.recorder.recovered.metrics[cell.key] = lent.metrics
        borrower.borrowed[cell.key] = self
        borrower.on_known(cell, lent.metrics)
        return True

    def cell_name(self, cell: Cell) -> str:
        """Return what messages call a cell."""
        return f"{self.request.name}: {cell.name}"

    def finish(self) -> None:
        """Score the finished cells and end the parent; complete if no cell is missing.

        If its stopping rule has not said stop and rows are missing, those that are complete are scored.
        """
        if self.state not in OPEN:
            return
        whole = self.stopped or self.left == 0
        self.settle()
        if not whole and self.monitor.steps_done < FIRST_STEPS:
            self.end("KILLED", f"The budget of the sweep was spent {self.how_far()}: too few to score.")
            return
        result = self.conclude(None if whole else self.monitor.steps_done)
        self.analysis = without_votes(result.analysis)
        self.state = State.COMPLETE if whole and result.analysis.cells_failed == 0 else State.INCOMPLETE

    def fail(self, line: str) -> None:
        """End the parent as failed; the other points continue."""
        self.error = line
        logger.error("The point %s failed: %s", self.request.name, line)
        self.end("FAILED", line)

    def swept(self) -> SweptPoint:
        """Return how it ended."""
        request = self.request
        why = "" if self.analysis else self.error or "the budget was spent before two of its rows were complete"
        return SweptPoint(self.run_id, request.choices, request.setup.task.name, self.analysis, why)

    def take_run_ids(self) -> None:
        """Learn the runs of cells that other points trained; those that have none become children of this point."""
        for key, lender in () if self.is_over else self.borrowed.items():
            run_id = lender.recorder.spool.run_id(key)
            if run_id is None:
                self.recorder.submit(key)
            else:
                self.recorder.spool.set_run_id(key, run_id)
                self.recorder.recovered.holders[key] = lender.recorder.parent.experiment_id, lender.run_id
