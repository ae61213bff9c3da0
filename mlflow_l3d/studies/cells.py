"""A study of cells: those that are not done are trained, recorded and counted."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.calls import Hinted
from mlflow_l3d.studies.base import R, Study, entry_point, executor_of, specified
from mlflow_l3d.studies.progress import progress_bar, restart_clock, shows_progress, under_way
from mlflow_l3d.studies.request import CellRequest
from mlflow_l3d.studies.self_test import own_cells, self_test, tested
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking.earlier.elsewhere import LOOK_SECONDS, Elsewhere
from mlflow_l3d.tracking.ledger import Ledger, Work
from mlflow_l3d.tracking.opening import open_ledger
from mlflow_l3d.tracking.records import CellRecord

if TYPE_CHECKING:
    from tqdm import tqdm

    from mlflow_l3d.plan.cells import Cell, Outcome

_logger = logging.getLogger("mlflow_l3d")

C = TypeVar("C", bound=CellRequest)


@dataclass(frozen=True, kw_only=True, repr=False)
class CellStudyResult(OnOneScreen, Generic[C]):
    """A finished study of cells.

    Attributes
    ----------
    run_id
        The parent run.
    request
        What was studied.
    computed, reused
        How many cells were trained now, and how many were taken from the tracking server or the spool.
    seconds
        Wall clock.
    """

    run_id: str
    request: C
    computed: int
    reused: int
    seconds: float


class CellStudy(Study[C, CellRecord, R]):
    """A study whose results are those of cells; see :class:`mlflow_l3d.studies.base.Study`.

    Attributes
    ----------
    unit
        What people call a cell.
    fewest
        How many cells must not fail, that there is a result.
    computed, failed
        Cells that were trained, and those of them that failed.
    tested
        Keys of those that the self-test trained.
    """

    unit: ClassVar[str] = "cell"
    fewest: ClassVar[int] = 1

    def __init__(self, request: C, *, progress: bool | None = False) -> None:
        super().__init__(request, progress=progress)
        self.computed = self.failed = 0
        self.tested: set[str] = set()
        self._first_error, self._waited = "", False
        self._errors: set[str | None] = set()
        self._started = time.monotonic()

    @classmethod
    def conduct(cls, parameters: Mapping[str, object], **more: Any) -> R:
        """Specify and run a study; with ``self_test=only``, say what each seed does."""
        if str(parameters.get("self_test")) != "only":
            return super().conduct(parameters, **more)
        with entry_point():
            request = specified(cls.specify, more["approach"], more["task"], parameters)
            # Whoever asks for it knows what comes back.
            return self_test(request, progress=shows_progress(more["progress"]))  # type: ignore[return-value]

    @property
    def reused(self) -> int:
        """Cells that were done before."""
        return len(self.ledger.recovered.metrics)

    @property
    @abstractmethod
    def progress_title(self) -> str:
        """What stands before the progress bar."""

    @property
    def stopped(self) -> bool:
        """Whether no further cell is to be trained."""
        return False

    @property
    def most_ahead(self) -> int | None:
        """How many cells may be under way at once where it may be stopped; None for any number."""
        return None

    def on_known(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Take note of a cell that was done before."""

    def on_record(self, cell: Cell, record: CellRecord) -> None:
        """Take note of a cell that was trained now."""

    def open(self, project_run: str | None, beside: Ledger[CellRecord] | None = None) -> Ledger[CellRecord]:
        """Open the parent, `beside` another ledger where that is open, and find the cells that are done already."""
        asked = self.request
        work = Work(asked.card(), CellRecord, asked.context_key, asked.shared_params(), lambda: asked.design().cells())
        return open_ledger(work, project_run, beside=beside)

    def how_far(self) -> str:
        """Return how many cells are done."""
        known = {*self.ledger.recovered.metrics, *self.ledger.spool}
        done = [cell.key in known for cell in self.request.design().cells()]
        return f"with {sum(done)} of {len(done)} {self.unit}s done"

    def train(self) -> None:
        """Compute the cells that are not done, until the study is stopped, and wait until the server holds them.

        What seeds do is tried before, where it was not. Cells that are under way when it is stopped are recorded, too.

        Raises
        ------
        L3DError
            If the first cells failed alike, or in the end too many; it names the error of the first.
        """
        elsewhere = Elsewhere(self.ledger)
        self.take_tested(tested(self.request, progress=self.progress) if self.left else {}, elsewhere)
        title, known = self.progress_title, {"total": self.size, "done": self.reused + self.computed}
        later: list[Cell] = []
        with progress_bar(title, self.unit, shown=self.progress, state="loading and encoding", **known) as bar:
            self._train(self._free(self.missing(self.request.design().cells()), elsewhere, later), bar)
            while later and not self.stopped:
                self._train(self._given_back(elsewhere, later), bar)
        with under_way("uploading", shown=self.progress, left=lambda: self.ledger.uploader.pending):
            self.settle()

    def take_tested(self, outcomes: Mapping[str, Outcome], elsewhere: Elsewhere) -> None:
        """Record those cells that the self-test trained."""
        for cell, outcome in own_cells(self.request.design().cells(), outcomes, elsewhere):
            self.tested.add(cell.key)
            self.take(cell, outcome)

    def _train(self, cells: Iterable[Cell], bar: tqdm[Any]) -> None:
        """Train some cells, and record them as they come."""
        running: dict[str, Cell] = {}

        def noted() -> Iterator[Cell]:
            for cell in cells:
                running[cell.key] = cell
                yield cell

        def hint() -> int:
            left, most = self.left - len(running), self.most_ahead
            return left if most is None else min(left, most)

        executor = executor_of(self.request.setup)
        with closing(executor.run(Hinted(noted(), hint))) as outcomes:  # type: ignore[type-var]
            for outcome in outcomes:
                if self.computed == 0:
                    restart_clock(bar)
                self.take(running.pop(outcome.key), outcome)
                bar.update()
                if self.hopeless:
                    raise L3DError(self.hopeless)

    def _free(self, cells: Iterable[Cell], elsewhere: Elsewhere, later: list[Cell]) -> Iterator[Cell]:
        """Yield those of some cells that no other process trains or has trained meanwhile; the others are for `later`.

        What other processes have finished by now is taken note of.
        """
        done = self.ledger.recovered.metrics
        for cell in cells:
            if elsewhere.free(cell):
                yield cell
            elif cell.key in done:
                self.on_known(cell, done[cell.key])
            else:
                later.append(cell)

    def _given_back(self, elsewhere: Elsewhere, later: list[Cell]) -> list[Cell]:
        """Wait until other processes have finished some cells, and return those that they gave back untrained."""
        done = self.ledger.recovered.metrics
        if not self._waited:
            self._waited = True
            _logger.warning("%d %ss are trained by another process, which is waited for.", len(later), self.unit)
        while later:
            known, free = elsewhere.settled(later)
            for cell in known:
                self.on_known(cell, done[cell.key])
            settled = {cell.key for cell in (*known, *free)}
            later[:] = [cell for cell in later if cell.key not in settled]
            if free:
                return free
            time.sleep(LOOK_SECONDS if later else 0.0)
        return []

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
        done = self.ledger.recovered.metrics
        for cell in cells:
            if self.stopped:
                return
            if cell.key in done:
                self.on_known(cell, done[cell.key])
            elif cell.key not in self.tested:
                yield cell

    def take(self, cell: Cell, outcome: Outcome) -> None:
        """Record what came of a cell that was missing."""
        record = self.ledger.add(CellRecord.of(cell, outcome), outcome)
        if record.error:
            self.failed += 1
            self._first_error = self._first_error or record.error
            _logger.warning("%s failed: %s", self.cell_name(cell), record.error)
        self.computed += 1
        self.on_record(cell, record)
        self._errors.add(record.error)

    @property
    def hopeless(self) -> str:
        """Why the others need not be tried: none was trained, and the first failed alike; else the empty text."""
        if self.computed < 3 or self.computed >= self.size or self.reused or len(self._errors) > 1:
            return ""
        what = f"The first {self.computed} {self.unit}s failed alike: {self._first_error.rstrip('.')}."
        return f"{what} Mend that, and give the same command again." if self._first_error else ""

    def cell_name(self, cell: Cell) -> str:
        """Return what messages call a cell."""
        return cell.name

    def settle(self) -> None:
        """Wait until the server holds every cell.

        Raises
        ------
        L3DError
            If too many cells failed; it names the error of the first.
        """
        if self.failed and self.size - self.failed < self.fewest:
            what = "Every cell" if self.fewest == 1 else f"{self.failed} of {self.size} {self.unit}s"
            raise L3DError(f"{what} failed; the first said: {self._first_error}")
        self.ledger.wait()

    def result(self) -> dict[str, Any]:
        """Return the attributes of :class:`CellStudyResult` but for the request."""
        return {
            "run_id": self.ledger.parent.run_id,
            "computed": self.computed,
            "reused": self.reused,
            "seconds": time.monotonic() - self._started,
        }
