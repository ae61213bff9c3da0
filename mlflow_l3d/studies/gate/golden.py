"""Golden runs alone: those that one side of a gate lacks are trained, some at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.cells.cell import Cell, Outcome, cell_key, content_key
from mlflow_l3d.cells.factors import GOLDEN_BASE, RADIAL_BASE, configuration_seed
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.setup import headline_metric, read_parameters, set_up
from mlflow_l3d.parameters.sources import PUBLISHED, as_published
from mlflow_l3d.studies.base import executor_of
from mlflow_l3d.studies.cells import CellStudy
from mlflow_l3d.studies.files import temporary_folder, write_json
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.results import cells_frame
from mlflow_l3d.studies.investigation.run_plan import CHEAPER
from mlflow_l3d.studies.loop import CellLoop, State
from mlflow_l3d.studies.request import CellRequest, context_of
from mlflow_l3d.studies.self_test import tested
from mlflow_l3d.studies.shown import progress_bar
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier import find_search
from mlflow_l3d.tracking.earlier.predictions import read_rows
from mlflow_l3d.tracking.recorder import RunRecorder
from mlflow_l3d.tracking.records import CellRecord

OF_A_PLAN: Final = (
    *("factor", "design", "investigation_runs", "mitigation_runs", "golden_runs", "joint", "mitigation"),
    *("stop", "half_width", "epsilon", "missing"),
)
"""Parameters of `main` that say nothing of a golden run."""


@dataclass(frozen=True, kw_only=True)
class GoldenRequest(CellRequest):
    """The golden runs of one system.

    Attributes
    ----------
    root_seed
        Where their seeds come from.
    phase
        ``base`` if they are base runs, as in a radial design.
    runs
        How many there are at most.
    side
        Which side of a gate they are.
    gate
        Run of the gate, or of the session of a referee.
    first
        Number of the first.
    """

    role = "golden_runs"
    root_seed: int
    phase: str = "golden"
    runs: int = 0
    side: str = "candidate"
    gate: str = ""
    first: int = 0

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
        """Yield the golden runs in their order, or the base runs in theirs: every factor is redrawn."""
        for number in range(self.first, self.first + self.runs):
            configurations = dict.fromkeys(self.setup.all_factors, self.base + number)
            seeds = {name: configuration_seed(self.root_seed, name, at) for name, at in configurations.items()}
            row, index = (number, None) if self.phase == "base" else (None, number)
            key = cell_key(self.context_key, seeds)
            yield Cell(self.phase, None, row, None, index, configurations, seeds, key)

    def tags(self) -> dict[str, str]:
        """Return the tags of the parent."""
        of_gate = {names.PARENT_RUN_ID: self.gate} if self.gate else {}
        return {names.DESIGN: "golden", **of_gate, **self.searched()}

    def content(self) -> dict[str, Any]:
        """Return what the document holds in addition to the document of every study."""
        sizes = ("num_labelled", "test_size", "test_selection", "reference_size")
        return {
            "task": self.of_task({name: getattr(self.setup.task.settings, name) for name in sizes}),
            "design": {"name": "golden", "golden_runs": self.runs, "root_seed": self.root_seed, "phase": self.phase},
        }


def specify_golden(name: str, parameters: Mapping[str, object], *, phase: str, **machine: str) -> GoldenRequest:
    """Return golden runs by parameters of `investigate`; those of its plan have no effect.

    Raises
    ------
    ParameterError
        For the first that is not allowed.
    """
    chosen = {key: value for key, value in parameters.items() if key not in OF_A_PLAN}
    kept = {"deterministic": "true"}  # results that had not to repeat are continued by such
    chosen |= {key: value for key, value in machine.items() if value not in ("auto", kept.get(key))}
    chosen["design"] = CHEAPER if phase == "base" else PUBLISHED
    typed, approach = read_parameters(chosen, MAIN, None, None)
    resolved, _ = as_published(typed, approach)
    root_seed = typed["root_seed"]
    setup = set_up(resolved, approach, None, root_seed=root_seed, searches=find_search)
    if not setup.all_factors:
        fixed = "; ".join(f"{name}: {reason}" for name, reason in setup.fixed_factors.items())
        raise ParameterError("factors", fixed, "must have one with an effect: without it all runs are equal")
    metric = headline_metric(setup)
    context = context_of(setup)
    return GoldenRequest(
        given=typed.texts,
        setup=setup,
        metric=metric,
        context_key=context,
        key=content_key({"context": context, "root_seed": root_seed, "metric": metric.name, "golden_runs": phase}),
        root_seed=root_seed,
        phase=phase,
        side=name,
    )


def numbered_scores(cells: pd.DataFrame, metric: str, runs: int) -> FloatArray:
    """Return the scores of golden runs by their number, the index of `cells`, nan if one has none; shape (runs,)."""
    return cells.get(metric, pd.Series(dtype=float)).reindex(range(runs)).to_numpy(dtype=np.float64)


class GoldenRuns(CellStudy[GoldenRequest, None]):
    """The golden runs of one system, trained as they are needed.

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
    left_out
        Numbers of the runs that are not trained.

    Attributes
    ----------
    scores
        Own metric of each run by its number, nan if it has none, or none yet; shape (first + runs,).
    """

    unit = "run"

    def __init__(
        self,
        request: GoldenRequest,
        *,
        progress: bool = False,
        takes_turns: bool = False,
        left_out: Iterable[int] = (),
    ) -> None:
        super().__init__(request, progress=progress)
        self._takes_turns = takes_turns
        self._cells = {self._number(cell): cell for cell in request.cells()}
        self.scores: FloatArray = np.full(request.first + request.runs, np.nan)
        self._untried = set(self._cells) - {*left_out}
        self._needed = 0
        self._loop: CellLoop[GoldenRuns] = CellLoop(
            lambda: executor_of(request.setup), lambda: self.missing_runs(self._needed) - len(self._loop.under_way)
        )
        self._outcomes: Generator[tuple[Outcome, list[tuple[GoldenRuns, Cell]]], None, None] | None = None

    @property
    def progress_title(self) -> str:
        """What stands before the progress bar."""
        return self.request.side

    def open(self, *arguments: Any) -> RunRecorder[CellRecord]:
        """Open the parent, and take note of what is done."""
        recorder = super().open(*arguments)
        for cell in self._cells.values():
            self.take_known(cell)
        return recorder

    def end(self, status: str, line: str) -> None:
        """Let the workers go, and end the parent before all is done."""
        self.pause()
        super().end(status, line)

    def how_far(self) -> str:
        """Return nothing: how many runs there will be is not known."""
        return ""

    def advance(self, runs: int) -> None:
        """Train the missing ones of the runs whose numbers are below `runs`."""
        if self.missing_runs(runs) and not self.computed:
            self.take_tested(tested(self.request, progress=self.progress))
        self._needed, missing = runs, self.missing_runs(runs)
        shown = self.progress and missing > 0
        with progress_bar(self.progress_title, self.unit, total=runs, shown=shown, done=runs - missing) as bar:
            while missing := self.missing_runs(runs):
                if self._outcomes is None:
                    self._outcomes = self._loop.outcomes(self._next_cells())
                if (trained := next(self._outcomes, None)) is None:
                    self.pause()
                else:
                    outcome, [(_, cell)] = trained
                    self.take(cell, outcome)
                    self.elsewhere.look()
                    self._loop.take_finished()
                bar.update(missing - self.missing_runs(runs))

    def missing_runs(self, runs: int) -> int:
        """Return how many of the runs whose numbers are below `runs` were not tried."""
        return sum(number < runs for number in self._untried)

    def pause(self) -> None:
        """Let the workers go; what they are at is not recorded."""
        if self._outcomes is not None:
            self._outcomes.close()
            self._outcomes = None
        self._loop.abandon()

    def needs(self, cell: Cell) -> bool:
        """Return whether a run that another process trains is waited for."""
        return self._number(cell) < self._needed

    def on_known(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Take note of a run that is done."""
        number = self._number(cell)
        self._untried.discard(number)
        self.scores[number] = metrics.get(self.request.metric.name, np.nan)

    def cell_name(self, cell: Cell) -> str:
        """Return what messages call a run."""
        return f"{self.request.side}: {cell.name}"

    def predictions(self, runs: int) -> Iterator[pd.DataFrame | None]:
        """Yield the predictions of the first `runs` runs; None of those that have none."""
        return (self.prediction(number) for number in self._cells if number < runs)

    def prediction(self, number: int) -> pd.DataFrame | None:
        """Return the predictions of a run; None if it has none."""
        self.recorder.wait()  # what earlier commands trained is copied to the spool meanwhile
        spool, key = self.recorder.spool, self._cells[number].key
        path = spool.predictions(key) if spool.has(key) else None
        return None if path is None else read_rows(path).to_pandas()

    def finish(self, runs: int) -> None:
        """Write what a parent holds, and end it; the first `runs` runs were needed."""
        self.pause()
        self.recorder.wait()
        spool, run_ids = self.recorder.spool, self.recorder.run_ids()
        done = (cell for cell in self._cells.values() if spool.has(cell.key))
        frame = cells_frame(done, self.request.metric, spool, run_ids)
        scores = self.scores[:runs][np.isfinite(self.scores[:runs])]
        with temporary_folder() as folder:
            frame.to_parquet(folder / names.CELLS, index=False)
            document = replace(self.request, runs=len(frame)).document()
            write_json(folder / names.INVESTIGATION, document, indent=2)
            summary = {"score_mean": scores.mean(), "golden_std": scores.std()} if len(scores) else {}
            self.recorder.log_metrics({**summary, "cells_failed": float(self.failed)}, runs)
            self.recorder.finish(folder, complete=not self.failed, description=self.request.title)
        self.state = State.INCOMPLETE if self.failed else State.COMPLETE

    def _next_cells(self) -> Iterator[tuple[GoldenRuns, Cell]]:
        """Yield the runs that were not tried: those that are needed, and if workers may stay those after them."""
        for number in sorted(self._untried):
            if self._takes_turns and number >= self._needed:
                return
            yield self, self._cells[number]

    def _number(self, cell: Cell) -> int:
        return next(iter(cell.configurations.values())) - self.request.base
