"""One point of a sweep under way: an investigation whose cells are trained among those of others."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from itertools import groupby
from typing import TYPE_CHECKING

from mlflow_l3d.studies.interrupts import deferred_interrupts
from mlflow_l3d.studies.investigation.run import InvestigationStudy
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.order import FIRST_STEPS
from mlflow_l3d.tracking.earlier.elsewhere import Elsewhere
from mlflow_l3d.tracking.ledger import patience_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlflow_l3d.analysis.results import Analysis
    from mlflow_l3d.plan.cells import Cell, Outcome
    from mlflow_l3d.studies.sweep.points import PointRequest
    from mlflow_l3d.tracking.ledger import Ledger
    from mlflow_l3d.tracking.records import CellRecord

_logger = logging.getLogger("mlflow_l3d")


class PointStudy(InvestigationStudy):
    """One point: which of its cells are handed out, under way and done, and how it ended.

    Parameters
    ----------
    request
        The point, with the run of its sweep.
    beside
        The ledger of the sweep.
    known
        How many cells are known to be done before the parent is opened.
    points
        How many points the sweep has.

    Attributes
    ----------
    cut
        Whether the budget is not enough for its next step.
    run_id, analysis, error
        Its parent, what it says, and why it failed; empty before.
    complete
        Whether every cell has a score.
    under_way
        Cells that are being trained.
    scored
        Whether it is being scored, or was.
    ended
        Whether its parent is closed, or it has none that it writes to.
    seconds
        Wall clock of all cells that were trained.
    trials
        What its self-test trained, by key.
    elsewhere
        What other processes finish of its cells; there once the parent is open.
    """

    request: PointRequest
    elsewhere: Elsewhere

    def __init__(self, request: PointRequest, beside: Ledger[CellRecord], known: int = 0, points: int = 1) -> None:
        super().__init__(request)
        self.run_id = self.error = ""
        self.analysis: Analysis | None = None
        self.known = known
        self.cut = self.complete = self.scored = self.ended = self.opened = False
        self.under_way = self._step = 0
        self.seconds = 0.0
        self._beside, self._points = beside, points
        self.borrowed: dict[str, PointStudy] = {}
        self.trials: Mapping[str, Outcome] = {}
        design = request.design()
        self.steps, self.first_cells = design.steps, design.step_size(0)
        self._cells = (tuple(cells) for _, cells in groupby(design.cells(), key=design.step_of))

    def adopt(self, run_id: str, analysis: Analysis) -> None:
        """Take a complete parent, of an earlier run of the same sweep, as it is."""
        self.run_id, self.analysis = run_id, analysis
        self.complete = self.ended = True

    @property
    def handed_out(self) -> bool:
        """Whether no further cell of it is to be trained."""
        return self.ended or self.cut or self.stopped or self._step == self.steps

    @property
    def waits(self) -> int:
        """How many cells are neither done nor trained, as far as that is known."""
        return 0 if self.ended or self.cut else self._lacking

    @property
    def short(self) -> bool:
        """Whether it lacks cells, and not because it failed."""
        return not self.complete and not self.error and self._lacking > 0

    @property
    def _lacking(self) -> int:
        return 0 if self.stopped else self.left if self.opened else self.size

    def next_step(self) -> list[Cell]:
        """Return the cells of the next step that must be trained; the parent is opened with the first."""
        if not self.opened:
            with deferred_interrupts():
                self.ledger = self.open(None, self._beside)
            self.opened, self.run_id = True, self.ledger.parent.run_id
            self.elsewhere = Elsewhere(self.ledger, self._points)
            self.take_tested(self.trials, self.elsewhere)
            self.under_way += len(self.tested)  # none of them was handed out
        self._step += 1
        return list(self.missing(next(self._cells)))

    def wait(self) -> None:
        """Wait until the server holds what was recorded so far, or is away for too long."""
        if self.opened and not self.ended:
            self.ledger.uploader.wait(patience=patience_seconds())

    def take(self, cell: Cell, outcome: Outcome) -> None:
        """Record what came of a cell."""
        self.under_way -= 1
        self.seconds += outcome.duration_seconds
        super().take(cell, outcome)

    def take_known(self, cell: Cell) -> bool:
        """Take note of a cell that was under way where another process has it done by now; return whether it has."""
        if (metrics := self.ledger.recovered.metrics.get(cell.key)) is None:
            return False
        self.under_way -= 1
        self.on_known(cell, metrics)
        return True

    def lend(self, cell: Cell, borrower: PointStudy) -> bool:
        """Give a cell that was trained here to another point of the same context; not one that failed.

        Parameters
        ----------
        cell
            The cell as the borrower has it.
        borrower
            The other point.
        """
        record = self.ledger.spool.record(cell.key)
        if record.error:
            return False
        own = replace(record, **asdict(cell), name=cell.name)
        borrower.ledger.spool.add(own, predictions=self.ledger.spool.predictions(cell.key))
        borrower.ledger.recovered.metrics[cell.key] = own.metrics
        borrower.borrowed[cell.key] = self
        borrower.on_known(cell, own.metrics)
        return True

    def cell_name(self, cell: Cell) -> str:
        """Return what messages call a cell."""
        return f"{self.request.name}: {cell.name}"

    def finish(self) -> None:
        """Score what is there and end the parent; complete where no cell is missing.

        Where its stopping rule has not said stop and rows are missing, those that are complete are scored.
        """
        if self.ended or not self.opened:
            return
        whole = self.stopped or self.left == 0
        self.settle()
        if not whole and self.steps_done < FIRST_STEPS:
            self.end("KILLED", f"The budget of the sweep was spent {self.how_far()}: too few to score.")
            return
        result = self.conclude(self.request.plan.mitigation_runs if whole else self.steps_done)
        self.analysis = result.analysis
        self.complete = whole and result.analysis.cells_failed == 0
        self.ended = True

    def fail(self, line: str) -> None:
        """End the parent as failed; the other points go on."""
        self.error = line
        _logger.error("The point %s failed: %s", self.request.name, line)
        self.end("FAILED", line)

    def interrupt(self) -> None:
        """End the parent, where it is open, as interrupted."""
        if self.opened and not self.ended:
            self.end("KILLED", f"Interrupted {self.how_far()}. The same command continues where it stopped.")

    def end(self, status: str, line: str) -> None:
        """End the parent, where it is open, before all is done."""
        if self.opened and not self.ended:
            self.ledger.end(status, line)
        self.ended = True

    def swept(self) -> SweptPoint:
        """Return how it ended."""
        asked = self.request
        why = "" if self.analysis else self.error or "the budget was spent before two of its rows were complete"
        return SweptPoint(self.run_id, asked.choices, asked.setup.task.name, self.analysis, why)

    def take_run_ids(self) -> None:
        """Learn the runs of cells that other points trained; those that have none become children of this point."""
        for key, lender in () if self.ended else self.borrowed.items():
            run_id = lender.ledger.spool.run_id(key)
            if run_id is None:
                self.ledger.submit(key)
            else:
                self.ledger.spool.set_run_id(key, run_id)
                self.ledger.recovered.holders[key] = lender.ledger.parent.experiment_id, lender.run_id
