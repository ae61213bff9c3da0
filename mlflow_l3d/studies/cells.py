"""A study of cells: those that are not done are trained, recorded and counted."""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

from mlflow_l3d.approaches.command.scores import ONE_UNIT
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import L3DError, ParameterError, logger
from mlflow_l3d.paths import keep_whole
from mlflow_l3d.report.source import About
from mlflow_l3d.studies.base import R, Study, entry_point, executor_of, specified, warn_of_unread
from mlflow_l3d.studies.files import LEFT_OUT
from mlflow_l3d.studies.loop import OPEN, OVER, CellLoop, CellOwner, State
from mlflow_l3d.studies.request import CellRequest
from mlflow_l3d.studies.self_test import SelfTest, self_test, tested
from mlflow_l3d.studies.shown import OnOneScreen, progress_bar, restart_clock, shows_progress, under_way
from mlflow_l3d.tracking.earlier.elsewhere import Elsewhere
from mlflow_l3d.tracking.opening import open_recorder
from mlflow_l3d.tracking.recorder import RunRecorder, Work
from mlflow_l3d.tracking.records import CellRecord

C = TypeVar("C", bound=CellRequest)


@dataclass(frozen=True, kw_only=True, repr=False)
class CellStudyResult(OnOneScreen, Generic[C]):
    """A finished study of cells.

    Attributes
    ----------
    run_id
        The parent run.
    about
        Its title, origin, notes and settings.
    computed, reused
        How many cells were trained now, and how many were taken from the tracking server or the spool.
    seconds
        Wall clock.
    request
        What was studied; None if it was loaded.
    """

    run_id: str
    about: About
    computed: int
    reused: int
    seconds: float
    request: C | None = field(default=None, metadata=LEFT_OUT)

    def of_cells(self, computed: str) -> str:
        """Return how many cells were computed and taken, and where the report is, for the terminal."""
        return (
            f"{self.about.title}: {computed}, {self.reused} taken from earlier runs, in {self.seconds:.0f} s; "
            f"report.html is among the artifacts of MLflow run {self.run_id}."
        )


class CellStudy(CellOwner, Study[C, CellRecord, R]):
    """A study whose results come from cells; see :class:`mlflow_l3d.studies.base.Study`.

    Attributes
    ----------
    unit
        What people call a cell.
    fewest
        How many cells must not fail, that there is a result.
    state
        Its progress.
    computed
        Cells that were trained.
    failures
        Name and error of those of them that failed.
    tested
        Keys of those that the self-test trained.
    conclude
        Scores the records, writes what the parent holds, and ends it; golden runs are only finished.
    """

    unit: ClassVar[str] = "run"
    fewest: ClassVar[int] = 1
    conclude: Callable[..., R]

    def __init__(self, request: C, *, progress: bool | None = False) -> None:
        super().__init__(request, progress=progress)
        self.state = State.PLANNED
        self.computed = 0
        self.failures: list[tuple[str, str]] = []
        self.tested: set[str] = set()

    @classmethod
    def conduct(cls, parameters: Mapping[str, object], **more: Any) -> R:
        """Specify and run a study."""
        if str(parameters.get("self_test")) == "only":
            fix = "Use --self-test only, or call mlflow_l3d.self_test or mlflow_l3d.self_test_seeds."
            raise ParameterError("self_test", "only", "trains nothing: it is an option of the command line", fix)
        return super().conduct(parameters, **more)

    @classmethod
    def try_seeds(cls, parameters: Mapping[str, object], **more: Any) -> SelfTest:
        """Return what each seed of a study does; its cells are not trained."""
        with entry_point():
            request = specified(cls.specify, more["approach"], more["task"], parameters)
            return self_test(request, progress=shows_progress(more["progress"]))

    @property
    def reused(self) -> int:
        """Cells that were done before."""
        return len(self.recorder.recovered.metrics)

    @property
    @abstractmethod
    def progress_title(self) -> str:
        """What stands before the progress bar."""

    def carry_out(self) -> R:
        """Train, and conclude."""
        self.train()
        with under_way("scoring", shown=self.progress):
            return self.conclude()

    @property
    def most_ahead(self) -> int:
        """How many cells may be under way at once; few if a stopping rule may end the study."""
        return sys.maxsize

    def open(
        self, project_run: str | None = None, beside: RunRecorder[CellRecord] | None = None, studies: int = 1
    ) -> RunRecorder[CellRecord]:
        """Open the parent, and find the cells that are done already.

        Parameters
        ----------
        project_run
            The run that `mlflow run` made, if there is one; it becomes the parent.
        beside
            A recorder that is open all the while, whose threads do the work of this one, too.
        studies
            How many studies look in turn what other processes finish.
        """
        request, key = self.request, self.request.context_key
        work = Work(request.card(), CellRecord, key, request.shared_params(), lambda: request.design().cells())
        self.recorder = open_recorder(work, project_run, beside=beside)
        keep_whole(key, request.given)
        self.elsewhere = Elsewhere(self.recorder, studies)
        if self.reused and (not_in_key := request.setup.approach.not_in_key):
            logger.warning("%d of %d %ss come from earlier runs. %s", self.reused, self.size, self.unit, not_in_key)
        self.state = State.TRAINING
        return self.recorder

    @property
    def failed(self) -> int:
        """How many cells failed."""
        return len(self.failures)

    def end(self, status: str, line: str) -> None:
        """End the parent, if it is open, before all is done."""
        if self.state in OPEN:
            super().end(status, line)
        if self.state not in OVER:
            self.state = State(status)

    def how_far(self) -> str:
        """Return how many cells are done."""
        done_keys = {*self.recorder.recovered.metrics, *self.recorder.spool}
        done = [cell.key in done_keys for cell in self.request.design().cells()]
        return f"with {sum(done)} of {len(done)} {self.unit}s done"

    def train(self) -> None:
        """Compute the cells that are not done, until the study is stopped, and wait until the server holds them.

        What seeds do is tried before, if it was not. Cells that are under way when it is stopped are recorded, too.

        Raises
        ------
        L3DError
            If the first cells failed alike, or in the end too many; it names the error of the first.
        """
        self.take_tested(tested(self.request, progress=self.progress) if self.left else {})
        loop: CellLoop[CellStudy[C, R]] = CellLoop(
            lambda: executor_of(self.request.setup), lambda: min(self.left - len(loop.under_way), self.most_ahead)
        )
        cells = ((self, cell) for cell in self.missing(self.request.design().cells()))
        counts = {"total": self.size, "done": self.reused + self.computed}
        bar_shown = progress_bar(self.progress_title, self.unit, shown=self.progress, state="starting", **counts)
        with bar_shown as bar, closing(loop.outcomes(cells)) as outcomes:
            for outcome, [(_, cell)] in outcomes:
                restart_clock(bar)
                self.take(cell, outcome)
                bar.update()
                if self.hopeless:
                    raise L3DError(self.hopeless)
        with under_way("uploading", shown=self.progress, left=lambda: self.recorder.uploader.pending):
            self.settle()

    def take_tested(self, outcomes: Mapping[str, Outcome]) -> None:
        """Record those cells that the self-test trained, which are among the first, and nobody else has."""
        for cell in islice(self.request.design().cells(), len(outcomes)):
            if cell.key in outcomes and self.elsewhere.free(cell):
                self.tested.add(cell.key)
                self.take(cell, outcomes[cell.key])

    @property
    def left(self) -> int:
        """How many cells are neither done nor trained, those under way included."""
        return self.size - self.reused - self.computed

    @cached_property
    def size(self) -> int:
        """How many cells it has."""
        return len(self.request.design())

    def missing(self, cells: Iterable[Cell]) -> Iterator[Cell]:
        """Yield those of some cells that must be trained, until the study is stopped; take note of the others."""
        for cell in cells:
            if self.stopped:
                return
            if not self.take_known(cell) and cell.key not in self.tested:
                yield cell

    def take(self, cell: Cell, outcome: Outcome) -> None:
        """Record what came of a cell that was missing."""
        stored = outcome if self.request.setup.store_scores else replace(outcome, scores=None)
        record = self.recorder.add(CellRecord.of(cell, outcome), stored)
        if record.error:
            self.failures.append((self.cell_name(cell), record.error))
            logger.warning("%s failed: %s", self.cell_name(cell), record.error)
        self.computed += 1
        if self.computed - self.failed == 1:
            warn_of_unread(record.metrics)
        self.on_known(cell, {} if record.error else record.metrics)
        if ONE_UNIT in (record.error or ""):
            raise L3DError(f"{self.cell_name(cell)}: {record.error}. The scores of the others may be wrong, too.")

    @property
    def hopeless(self) -> str:
        """Why the others need not be tried: none was trained, and the first failed alike; else the empty text."""
        if not 3 <= self.computed == self.failed < self.size or self.reused:
            return ""
        errors = {error for _, error in self.failures}
        if len(errors) > 1:
            return ""
        what = f"The first {self.computed} {self.unit}s failed alike: {errors.pop().rstrip('.')}."
        return f"{what} Mend that, and give the same command again."

    @property
    def failure_notes(self) -> tuple[str, ...]:
        """Which cell failed first and why, and how many others failed; empty if none did."""
        others = f" {self.failed - 1} more failed." if self.failed > 1 else ""
        return tuple(f"{name} failed: {error.rstrip('.')}.{others}" for name, error in self.failures[:1])

    def cell_name(self, cell: Cell) -> str:
        """Return what messages call a cell."""
        return cell.name

    def settle(self) -> None:
        """Wait until the server holds every cell; raise the error of the first that failed if too many did."""
        if self.failed and self.size - self.failed < self.fewest:
            what = "Every cell" if self.fewest == 1 else f"{self.failed} of {self.size} {self.unit}s"
            raise L3DError(f"{what} failed; the first said: {self.failures[0][1]}")
        self.recorder.wait()

    def result(self) -> dict[str, Any]:
        """Return the attributes of :class:`CellStudyResult` but for the request, and the text about it."""
        place = {"run_id": self.recorder.parent.run_id, "seconds": time.monotonic() - self._started}
        return {"computed": self.computed, "reused": self.reused, **place}
