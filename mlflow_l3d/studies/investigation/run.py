"""The main job: specification -> plan of cells -> executor -> ledger -> analysis -> report."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Executor, Job
from mlflow_l3d.execution.calls import Hinted
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.studies.interrupts import deferred_interrupts
from mlflow_l3d.studies.investigation.finalize import finalize
from mlflow_l3d.studies.investigation.monitor import Monitor
from mlflow_l3d.studies.investigation.specification import Specification, specify
from mlflow_l3d.studies.investigation.stopping import Stopping
from mlflow_l3d.studies.run_guard import UnderWay, carried_out, failing
from mlflow_l3d.tracking.connection import own_settings, scrub_environment
from mlflow_l3d.tracking.ledger import Ledger
from mlflow_l3d.tracking.searches import find

if TYPE_CHECKING:
    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.plan.cells import Cell
    from mlflow_l3d.tasks.base import Task

_logger = logging.getLogger("mlflow_l3d")


@dataclass(frozen=True)
class Investigation:
    """A finished investigation.

    Attributes
    ----------
    run_id
        The parent run.
    analysis
        Importance, consistency and checks.
    specification
        What was investigated.
    cells
        One row a cell: coordinates, metrics, run id.
    computed, reused
        How many cells were trained now, and how many were taken from the tracking server or the spool.
    seconds
        Wall clock.
    """

    run_id: str
    analysis: Analysis
    specification: Specification
    cells: pd.DataFrame
    computed: int
    reused: int
    seconds: float

    def to_frame(self) -> pd.DataFrame:
        """Return one row a factor, most important first."""
        return self.analysis.to_frame()

    def summary(self) -> str:
        """Return the table and the sentences that the command line prints at the end."""
        from mlflow_l3d.report.investigation.terminal import summary

        lines = [
            f"{self.computed} cells computed, {self.reused} taken from earlier runs, in {self.seconds:.0f} s",
            f"MLflow run {self.run_id}; report.html is among its artifacts",
        ]
        return summary(self.analysis, title=self.specification.title, lines=lines)


def investigate(
    *,
    approach: Approach | str | None = None,
    task: Task | str | None = None,
    progress: bool = False,
    **parameters: object,
) -> Investigation:
    """Investigate how much of a score is luck, and which kind of luck.

    Parameters
    ----------
    approach, task
        A name, or an object of your own.
    progress
        Whether to show a progress bar on stderr.
    **parameters
        As on the command line, see :data:`mlflow_l3d.parameters.table.MAIN`: ``factor``, ``model``,
        ``investigation_runs``, ``mitigation_runs``, ``root_seed``, ...

    Returns
    -------
    Investigation
        Its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        With one line that says what to change.
    """
    named = {name: value for name, value in (("approach", approach), ("task", task)) if isinstance(value, str)}
    project_run = scrub_environment()
    with own_settings():
        with failing(project_run):
            specification = specify(
                {**parameters, **named},
                approach=None if isinstance(approach, str) else approach,
                task=None if isinstance(task, str) else task,
                searches=find,
            )
        for note in specification.setup.origin.notes:
            _logger.warning("%s", note)
        return run(specification, project_run=project_run, progress=progress)


def run(specification: Specification, *, project_run: str | None = None, progress: bool = False) -> Investigation:
    """Carry out a specification; see :func:`investigate`."""
    started = time.monotonic()
    work: UnderWay[Ledger] = UnderWay()

    def how_far(ledger: Ledger) -> str:
        cells = len(specification.design())
        return f"with {cells - _missing(specification, ledger)} of {cells} cells done"

    with carried_out(work, project_run, how_far):
        with deferred_interrupts():
            ledger = work.ledger = Ledger.open(specification, specification.card(), project_run)
        computed, monitor = _train(specification, ledger, progress=progress)
        ledger.wait()
        if specification.plan.stop != "none":
            specification = specification.truncate(monitor.stopped or specification.plan.mitigation_runs)
            ledger.log_params({f"resolved.{name}": value for name, value in specification.resolved_runs().items()})
        cells, scored = finalize(specification, ledger, monitor.interim_analyses)
    return Investigation(
        run_id=ledger.parent.run_id,
        analysis=scored.analysis,
        specification=specification,
        cells=cells,
        computed=computed,
        reused=len(ledger.recovered.metrics),
        seconds=time.monotonic() - started,
    )


def _train(specification: Specification, ledger: Ledger, *, progress: bool) -> tuple[int, Monitor]:
    """Compute the cells that are not done, until the stopping rule says stop; return how many, and the monitor.

    Cells that are under way when the rule says stop are recorded, too, but the rows they belong to are not scored.
    """
    from tqdm import tqdm

    monitor = _monitor(specification)
    done = ledger.recovered.metrics
    running: dict[str, Cell] = {}
    design = specification.design()
    computed = 0

    def log_steps() -> None:
        for step, metrics in monitor.new_steps():
            ledger.log_metrics(metrics, step)

    def missing() -> Iterator[Cell]:
        for cell in design.cells():
            if monitor.stopped is not None:
                return
            if cell.key in done:
                monitor.add(cell, done[cell.key])
                log_steps()
            else:
                running[cell.key] = cell
                yield cell

    def hint() -> int:
        """Return how many cells are still to start; under a stopping rule no more than a row, or than are done."""
        left = len(design) - len(done) - computed - len(running)
        return left if specification.plan.stop == "none" else min(left, max(design.step_size(0), len(done) + computed))

    executor_class = registry.load("executor", specification.setup.executor)
    job = Job(
        approach=specification.setup.approach,
        task=specification.setup.task,
        hyperparameters=specification.setup.hyperparameters,
        model=specification.setup.model_reference,
        device=specification.setup.device,
        cache=cache_folder(),
    )
    executor: Executor = executor_class(job=job, workers=specification.setup.workers)
    first_error = ""
    bar = tqdm(
        total=len(design),
        initial=len(done),
        unit="cell",
        disable=not progress,
        file=sys.stderr,
        desc=specification.factor_words,
        smoothing=0.1,
        mininterval=0.5 if sys.stderr.isatty() else 10.0,
        postfix="preparing",
    )
    with bar, closing(executor.run(Hinted(missing(), hint))) as outcomes:  # type: ignore[type-var]
        for outcome in outcomes:
            cell = running.pop(outcome.key)
            record = ledger.record(cell, outcome)
            if record.error:
                first_error = first_error or record.error
                _logger.warning("%s failed: %s", cell.name, record.error)
            monitor.add(cell, {} if record.error else record.metrics)
            if computed == 0 and not bar.disable:
                # Loading and encoding are over: the rate is that of the cells from here on.
                bar.set_postfix_str("", refresh=False)
                bar.unpause()
                bar.start_t = bar.last_print_t
            computed += 1
            bar.update()
            log_steps()
    log_steps()
    if computed and not done and monitor.failed == len(design):
        msg = f"Every cell failed; the first said: {first_error}"
        raise L3DError(msg)
    return computed, monitor


def _monitor(specification: Specification) -> Monitor:
    plan = specification.plan
    return Monitor(
        specification.design(),
        metric=specification.metric,
        classes=len(specification.setup.task.class_names),
        pooled=plan.golden_pooled,
        stopping=None if plan.stop == "none" else Stopping(plan, specification.factors),
    )


def _missing(specification: Specification, ledger: Ledger) -> int:
    done = {*ledger.recovered.metrics, *ledger.spool}
    return sum(cell.key not in done for cell in specification.design().cells())
