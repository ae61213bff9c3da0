"""Golden runs alone: those that one side of a gate lacks are trained, some at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.execution.calls import Hinted
from mlflow_l3d.plan.cells import Cell, cell_key
from mlflow_l3d.plan.factors import GOLDEN_BASE, RADIAL_BASE, configuration_seed
from mlflow_l3d.studies.base import executor_of
from mlflow_l3d.studies.files import temporary_folder, write_json
from mlflow_l3d.studies.interrupts import deferred_interrupts
from mlflow_l3d.studies.progress import progress_bar
from mlflow_l3d.studies.request import CellRequest
from mlflow_l3d.studies.self_test import own_cells, tested
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import error_line
from mlflow_l3d.tracking.earlier.elsewhere import LOOK_SECONDS, Elsewhere
from mlflow_l3d.tracking.ledger import Ledger, Work
from mlflow_l3d.tracking.opening import open_ledger
from mlflow_l3d.tracking.parent import Card
from mlflow_l3d.tracking.records import CellRecord

if TYPE_CHECKING:
    from mlflow_l3d.plan.cells import Outcome

_logger = logging.getLogger("mlflow_l3d")


@dataclass(frozen=True, kw_only=True)
class GoldenRequest(CellRequest):
    """The golden runs of one system.

    Attributes
    ----------
    root_seed
        Where their seeds come from.
    phase
        ``base`` where they are base runs, so that they are those of a radial design.
    runs
        How many there are at most.
    side
        Which side of a gate they are.
    gate
        Run of the gate.
    """

    role = "golden_runs"
    root_seed: int
    phase: str = "golden"
    runs: int = 0
    side: str = "candidate"
    gate: str = ""

    @property
    def title(self) -> str:
        """Name of the parent as people read it."""
        return self.setup.title(f"{self.side}: golden runs")

    def __len__(self) -> int:
        """Return the number of cells."""
        return self.runs

    def design(self) -> GoldenRequest:
        """Return what holds the cells: itself."""
        return self

    @property
    def base(self) -> int:
        """The configuration of the first run."""
        return RADIAL_BASE if self.phase == "base" else GOLDEN_BASE

    def cells(self) -> Iterator[Cell]:
        """Yield the golden runs in their order, or the base runs in theirs: every factor is drawn anew."""
        for number in range(self.runs):
            configurations = dict.fromkeys(self.setup.all_factors, self.base + number)
            seeds = {name: configuration_seed(self.root_seed, name, at) for name, at in configurations.items()}
            row, index = (number, None) if self.phase == "base" else (None, number)
            key = cell_key(self.context_key, seeds)
            yield Cell(self.phase, None, row, None, index, configurations, seeds, key)

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent."""
        return {names.DESIGN: "golden", names.PARENT_RUN_ID: self.gate, **self.searched()}

    def card(self) -> Card:
        """Return what the parent says of itself."""
        card = super().card()
        return replace(card, tags={name: value for name, value in card.tags.items() if value})

    def content(self) -> dict[str, Any]:
        """Return what the document holds beside what that of every study has."""
        settings = self.setup.task.settings
        sizes = ("num_labelled", "test_size", "test_selection")
        return {
            "task": self.of_task({name: getattr(settings, name) for name in sizes}),
            "design": {"name": "golden", "golden_runs": self.runs, "root_seed": self.root_seed, "phase": self.phase},
        }


class GoldenRuns:
    """The golden runs of one system under way; a context, which ends their parent in a true state.

    Workers stay between two calls of :meth:`advance`. While the last runs before a look are trained, workers that are
    free begin those after it, unless the other side of the gate trains next, for which they have to go. Runs that
    another process of this machine trains come last: they are waited for.

    Parameters
    ----------
    request
        Which runs there are at most.
    progress
        Whether to show a progress bar on stderr.
    takes_turns
        Whether the other side of the gate trains, too.

    Attributes
    ----------
    scores
        Shape (runs,): own metric of each run, nan where there is none, or none yet.
    computed, failed
        Runs that were trained, and those of them that failed.
    ahead
        Those of them that no look needed; known at the end.
    """

    def __init__(self, request: GoldenRequest, *, progress: bool = False, takes_turns: bool = False) -> None:
        self.request, self.progress, self.takes_turns = request, progress, takes_turns
        self.scores: FloatArray = np.full(request.runs, np.nan)
        self.computed = self.failed = self.ahead = 0
        self._cells = list(request.cells())
        self._left: set[int] = set()
        self._trained: list[int] = []
        self._running: dict[str, Cell] = {}
        self._later: list[Cell] = []
        self._outcomes: Generator[Outcome, None, None] | None = None
        self._until = 0

    def __enter__(self) -> GoldenRuns:
        """Open the parent, and find what is done."""
        asked, cells = self.request, self._cells
        work = Work(asked.card(), CellRecord, asked.context_key, asked.shared_params(), lambda: cells)
        opened: Ledger[CellRecord] | None = None
        try:
            with deferred_interrupts():
                self.ledger = opened = open_ledger(work)
            self._elsewhere = Elsewhere(opened)
            self._left = set(range(len(cells)))
            self._take_known(cells)
        except BaseException as error:  # an interrupt waited until the parent was there: nobody else would end it
            if opened is not None:
                self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the parent, where :meth:`finish` did not."""
        self.pause()
        if isinstance(error, KeyboardInterrupt):
            self.ledger.end("KILLED", "Interrupted. The same command continues where it stopped.")
        elif error is not None:
            self.ledger.end("FAILED", error_line(error))

    @property
    def run_id(self) -> str:
        """The parent."""
        return self.ledger.parent.run_id

    def advance(self, runs: int) -> None:
        """Train what is missing of the first `runs` runs."""
        if self.missing(runs) and not self.computed:
            trained = tested(self.request, progress=self.progress)
            for cell, done in own_cells(self._cells, trained, self._elsewhere):
                self._running[cell.key] = cell
                self._take(done)
        self._until, left = runs, self.missing(runs)
        shown = self.progress and left > 0
        with progress_bar(self.request.side, "run", total=runs, shown=shown, done=runs - left) as bar:
            while left := self.missing(runs):
                if self._outcomes is None:
                    self._later.clear()
                outcomes: Iterator[Outcome] = self._outcomes or self._train(self._free())
                if (outcome := next(outcomes, None)) is not None:
                    self._take(outcome)
                    self._elsewhere.look()
                    self._take_known(self._later)
                else:
                    self.pause()
                    self._wait([cell for cell in self._later if self._number(cell) < runs])
                bar.update(left - self.missing(runs))

    def missing(self, runs: int) -> int:
        """Return how many of the first `runs` runs were not tried."""
        return sum(number < runs for number in self._left)

    def pause(self) -> None:
        """Let the workers go; what they are at is not recorded."""
        if self._outcomes is not None:
            self._outcomes.close()
            self._outcomes = None
        for key in self._running:
            self.ledger.claims.release(key)
        self._running.clear()

    def predictions(self, runs: int) -> Iterator[pd.DataFrame | None]:
        """Yield the predictions of the first `runs` runs; None of those that have none."""
        self.ledger.wait()  # what earlier commands trained is copied to the spool meanwhile
        for cell in self._cells[:runs]:
            path = self.ledger.spool.predictions(cell.key) if self.ledger.spool.has(cell.key) else None
            yield None if path is None else pd.read_parquet(path)

    def finish(self, runs: int) -> None:
        """Write what a parent holds, and end it; the first `runs` runs were needed."""
        self.pause()
        self.ahead = sum(number >= runs for number in self._trained)
        self.ledger.wait()
        frame = self._frame()
        scores = self.scores[:runs][np.isfinite(self.scores[:runs])]
        with temporary_folder() as folder:
            frame.to_parquet(folder / names.CELLS, index=False)
            document = replace(self.request, runs=len(frame)).document()
            write_json(folder / names.INVESTIGATION, document, indent=2)
            found = {"score_mean": scores.mean(), "golden_std": scores.std()} if len(scores) else {}
            self.ledger.log_metrics({**found, "cells_failed": float(self.failed)}, runs)
            self.ledger.finish(folder, complete=not self.failed, description=self.request.title)

    def _frame(self) -> pd.DataFrame:
        spool, run_ids, rows = self.ledger.spool, self.ledger.run_ids(), []
        for cell in self._cells:
            if spool.has(cell.key):
                record = spool.record(cell.key)
                row = {name: getattr(cell, name) for name in names.COORDINATES}
                row |= {"run_id": run_ids.get(cell.key), "cell_key": cell.key, "status": record.status}
                row |= {f"seed.{factor}": seed for factor, seed in cell.seeds.items()}
                rows.append({**row, **({} if record.error else record.metrics)})
        return pd.DataFrame(rows).astype(dict.fromkeys(("row", "column", "index"), "Int64"))

    def _train(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Begin to train some runs."""

        def noted() -> Iterator[Cell]:
            for cell in cells:
                self._running[cell.key] = cell
                yield cell

        executor = executor_of(self.request.setup)
        hinted = Hinted(noted(), lambda: self.missing(self._until) - len(self._running))
        self._outcomes = outcomes = executor.run(hinted)  # type: ignore[assignment]
        return outcomes

    def _free(self) -> Iterator[Cell]:
        """Yield the runs that are left and that no other process trains; the others are for later."""
        for number in sorted(self._left):
            if self.takes_turns and number >= self._until:
                return
            if self._elsewhere.free(self._cells[number]):
                yield self._cells[number]
            else:
                self._later.append(self._cells[number])

    def _wait(self, later: list[Cell]) -> None:
        """Wait until other processes have finished some runs, and train those that they gave back."""
        if later:
            _logger.warning("%s: %d runs are trained by another process.", self.request.side, len(later))
        while later:
            known, free = self._elsewhere.settled(later)
            self._take_known(known)
            if free:
                self._train(free)
                return
            later = [cell for cell in later if self._number(cell) in self._left]
            time.sleep(LOOK_SECONDS if later else 0.0)

    def _take_known(self, cells: Iterable[Cell]) -> None:
        """Take note of those runs that are done by now."""
        done = self.ledger.recovered.metrics
        for cell in cells:
            if cell.key in done and (number := self._number(cell)) in self._left:
                self._left.discard(number)
                self.scores[number] = done[cell.key].get(self.request.metric.name, np.nan)

    def _number(self, cell: Cell) -> int:
        return next(iter(cell.configurations.values())) - self.request.base

    def _take(self, outcome: Outcome) -> None:
        cell = self._running.pop(outcome.key)
        record = self.ledger.add(CellRecord.of(cell, outcome), outcome)
        number = self._number(cell)
        self._left.discard(number)
        self.computed += 1
        self._trained.append(number)
        if record.error:
            self.failed += 1
            _logger.warning("%s: %s failed: %s", self.request.side, cell.name, record.error)
        else:
            self.scores[number] = record.metrics.get(self.request.metric.name, np.nan)
