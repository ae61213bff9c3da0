"""The entry point `seeds`: one task, one model, S seeds, macro and micro effects (Zhou et al. 2025)."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.analysis.seeds.study import SeedsStudy, seeds_study
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Executor, Job
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.studies.interrupts import deferred_interrupts
from mlflow_l3d.studies.run_guard import UnderWay, carried_out, failing
from mlflow_l3d.studies.seeds.artifacts import write_study
from mlflow_l3d.studies.seeds.specification import SeedsSpecification, specify_seeds
from mlflow_l3d.tasks.glue import benchmark_of
from mlflow_l3d.tracking.connection import own_settings, scrub_environment
from mlflow_l3d.tracking.ledger import Ledger
from mlflow_l3d.tracking.searches import find

if TYPE_CHECKING:
    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.plan.cells import Cell
    from mlflow_l3d.tasks.base import Task

_logger = logging.getLogger("mlflow_l3d")


@dataclass(frozen=True)
class SeedsRun:
    """A finished study of seeds.

    Attributes
    ----------
    run_id
        The parent run.
    study
        Scores and agreement over seeds.
    specification
        What was studied.
    computed, reused
        How many seeds were trained now, and how many were found.
    seconds
        Wall clock.
    """

    run_id: str
    study: SeedsStudy
    specification: SeedsSpecification
    computed: int
    reused: int
    seconds: float

    def summary(self) -> str:
        """Return the text that the command line prints at the end."""
        from mlflow_l3d.report.seeds.text import study_text

        new = f"{self.computed} seed{'' if self.computed == 1 else 's'}"
        lines = [
            f"{new} trained, {self.reused} taken from earlier runs, in {self.seconds:.0f} s",
            f"MLflow run {self.run_id}; report.html is among its artifacts",
            *self.specification.setup.task.notes,
        ]
        return study_text(self.study, title=self.specification.title, lines=lines)


def seeds(
    *,
    approach: Approach | str | None = None,
    task: Task | str | None = None,
    progress: bool = False,
    **parameters: object,
) -> SeedsRun:
    """Train one task with S seeds, and say how much scores and single predictions depend on them.

    Parameters
    ----------
    approach, task
        A name, or an object of your own.
    progress
        Whether to show a progress bar on stderr.
    **parameters
        As on the command line, see :data:`mlflow_l3d.parameters.table.SEEDS`.

    Returns
    -------
    SeedsRun
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
            specification = specify_seeds(
                {**parameters, **named},
                approach=None if isinstance(approach, str) else approach,
                task=None if isinstance(task, str) else task,
                searches=find,
            )
        return run(specification, project_run=project_run, progress=progress)


def run(specification: SeedsSpecification, *, project_run: str | None = None, progress: bool = False) -> SeedsRun:
    """Carry out a specification; see :func:`seeds`."""
    started = time.monotonic()
    work: UnderWay[Ledger] = UnderWay()

    def how_far(ledger: Ledger) -> str:
        known = {*ledger.recovered.metrics, *ledger.spool}
        done = sum(cell.key in known for cell in specification.design().cells())
        return f"with {done} of {len(specification.seeds)} seeds done"

    for note in specification.setup.origin.notes:
        _logger.warning(note)
    with carried_out(work, project_run, how_far):
        with deferred_interrupts():
            ledger = work.ledger = Ledger.open(specification, specification.card(), project_run)
        computed = _train(specification, ledger, progress=progress)
        ledger.wait()
        study = _finalize(specification, ledger)
    return SeedsRun(
        run_id=ledger.parent.run_id,
        study=study,
        specification=specification,
        computed=computed,
        reused=len(ledger.recovered.metrics),
        seconds=time.monotonic() - started,
    )


def _train(specification: SeedsSpecification, ledger: Ledger, *, progress: bool) -> int:
    """Train the seeds that are not done; return how many."""
    from tqdm import tqdm

    setup, done = specification.setup, ledger.recovered.metrics
    missing = [cell for cell in specification.design().cells() if cell.key not in done]
    by_key: Mapping[str, Cell] = {cell.key: cell for cell in missing}
    executor_class = registry.load("executor", setup.executor)
    job = Job(setup.approach, setup.task, setup.hyperparameters, setup.model_reference, setup.device, cache_folder())
    executor: Executor = executor_class(job=job, workers=setup.workers)
    first_error, failed = "", 0
    interval = 0.5 if sys.stderr.isatty() else 10.0
    outcomes = cast("Any", executor.run(iter(missing)))
    with (
        tqdm(
            total=len(specification.seeds),
            initial=len(done),
            unit="seed",
            disable=not progress,
            file=sys.stderr,
            desc=setup.task.name,
            mininterval=interval,
        ) as bar,
        closing(outcomes),
    ):
        for step, outcome in enumerate(outcomes):
            cell = by_key[outcome.key]
            record = ledger.record(cell, outcome)
            if record.error:
                failed, first_error = failed + 1, first_error or record.error
                _logger.warning("seed %d failed: %s", cell.seeds["seed"], record.error)
            elif specification.metric in record.metrics:
                ledger.log_metrics({"score": record.metrics[specification.metric]}, len(done) + step)
            bar.update()
    if first_error and len(specification.seeds) - failed < 2:
        msg = f"{failed} of {len(specification.seeds)} seeds failed; the first said: {first_error}"
        raise L3DError(msg)
    return len(missing)


def _finalize(specification: SeedsSpecification, ledger: Ledger) -> SeedsStudy:
    """Score everything from what is recorded, write the parent's artifacts, and end the parent."""
    with deferred_interrupts():
        run_ids = ledger.run_ids()
    frame, predictions = _recorded(specification, ledger, run_ids)
    task = specification.setup.task
    finished = frame[frame["status"].eq("FINISHED")]
    study = seeds_study(
        finished.rename(columns={"seed.seed": "seed"}),
        predictions,
        metric=specification.metric,
        kind=task.kind,
        task=task.name,
        model=specification.setup.model,
        benchmark=benchmark_of(task.name),
        training_size=len(specification.split.train),
    )
    failed = len(frame) - len(finished)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_study(folder, specification, study, frame, predictions)
        metrics = {**study.metrics(), "cells_failed": float(failed)}
        ledger.log_metrics(metrics, len(specification.seeds))
        ledger.wait()
        from mlflow_l3d.report.seeds.words import study_answers

        description = "\n\n".join(
            f"**{answer.question}** {answer.short}. {' '.join(answer.sentences)}" for answer in study_answers(study)
        )
        ledger.finish(folder, complete=failed == 0, description=description)
    return study


def _recorded(
    specification: SeedsSpecification, ledger: Ledger, run_ids: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return one row a seed, and all predictions (None where there are none)."""
    rows, tables = [], []
    for cell, predictions in _spooled(specification, ledger):
        record = ledger.spool.record(cell.key)
        rows.append(
            {
                "phase": cell.phase,
                "index": cell.index,
                "seed.seed": cell.seeds["seed"],
                "run_id": run_ids.get(cell.key),
                "cell_key": cell.key,
                "status": record.status,
                **({} if record.error else dict(record.metrics)),
            }
        )
        if predictions is not None and not record.error:
            tables.append(predictions.assign(seed=cell.seeds["seed"], cell_key=cell.key))
    return pd.DataFrame(rows), pd.concat(tables, ignore_index=True) if tables else None


def _spooled(specification: SeedsSpecification, ledger: Ledger) -> Iterator[tuple[Cell, pd.DataFrame | None]]:
    for cell in specification.design().cells():
        path = ledger.spool.predictions(cell.key)
        table = None if path is None else pd.read_parquet(path)[["example_id", "label", "prediction"]]
        yield cell, table
