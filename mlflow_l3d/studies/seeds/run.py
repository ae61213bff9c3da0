"""The entry point `seeds`: one task, one model, S seeds, macro and micro effects (Zhou et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import pandas as pd

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.icl.approach import InContextLearning
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.environment import deferred_interrupts
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.base import entry_point, specified
from mlflow_l3d.studies.cells import CellStudy, CellStudyResult
from mlflow_l3d.studies.dry_run import StudyPlan, plan_cells, record_plan
from mlflow_l3d.studies.seeds.numbers import SeedsStudy
from mlflow_l3d.studies.seeds.parameters import RepeatsOptions, SeedsOptions
from mlflow_l3d.studies.seeds.report import seed_frame, seeds_document
from mlflow_l3d.studies.seeds.report.words import citation
from mlflow_l3d.studies.seeds.request import RepeatsRequest, SeedsRequest, specify_seeds
from mlflow_l3d.studies.seeds.results import finishing, recorded_study, write_scores
from mlflow_l3d.studies.self_test import SelfTest
from mlflow_l3d.studies.shown import built_once
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier.predictions import read_rows
from mlflow_l3d.tracking.recorder import RunRecorder


@dataclass(frozen=True, kw_only=True, repr=False)
class SeedsRun(CellStudyResult[SeedsRequest]):
    """A finished seeds study: ``summary()`` is its text, ``to_frame()`` has one row per seed.

    It is a :class:`mlflow_l3d.studies.cells.CellStudyResult`.

    Attributes
    ----------
    study
        Scores and agreement over seeds.
    runs, failed
        The run of each seed of the study, and how many seeds failed, which are not in it.
    """

    study: SeedsStudy
    runs: tuple[str, ...]
    failed: int

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per seed in the units of the report; `full` returns all, with scores as fractions."""
        return seed_frame(self.study, full=full)

    def cited(self) -> str:
        """Return what a paper says of it: a sentence, a LaTeX table and the literature."""
        return "\n\n".join(text for _, text in citation(self.study, self.about.source))

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        verb = "trained" if self.study.changes is None else "asked for"
        failed = f" ({self.failed} failed)" if self.failed else ""
        lines = [self.of_cells(f"{counted(self.computed, self.study.unit)} {verb}{failed}")]
        return seeds_document(self.study, **vars(self.about), runs=self.runs, failed=self.failed, lines=lines)


@with_signature(SeedsOptions)
def seeds(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: Unpack[SeedsOptions],
) -> SeedsRun:
    """Train one task with several seeds, and measure how much scores and single predictions depend on the seed.

    Parameters
    ----------
    task
        A function of a seed that returns a score, a mapping of scores, ``(labels, predictions)`` of the test examples,
        a `transformers.Trainer` or a Lightning trainer. Or data: a file, a name, a pandas data frame, a data set of
        the library `datasets`, or a :class:`~mlflow_l3d.tasks.base.Task`.
    approach
        The name of an approach, or an object: a :class:`~mlflow_l3d.approaches.base.Approach`.
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **parameters
        As on the command line: ``mlflow-l3d seeds --help-all`` explains all of them.

    Returns
    -------
    SeedsRun
        The result: ``summary()``, ``to_frame()``, ``cited()``. Its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> run = mlflow_l3d.seeds("synthetic", approach="synthetic", seeds=[1, 2, 3], executor="inline")
    >>> run.study.to_frame()[["seed", "accuracy", "consistency"]].round(3)
       seed  accuracy  consistency
    0     1     0.162        0.935
    1     2     0.265        0.911
    2     3     0.190        0.949
    """
    return SeedsStudyRun.conduct(parameters, approach=approach, task=task, progress=progress)


@with_signature(SeedsOptions)
def plan_seeds(
    task: TaskLike = None, *, approach: Approach | str | None = None, **parameters: Unpack[SeedsOptions]
) -> StudyPlan:
    """Return what a study of seeds would train, what of it is done, and how long the rest takes; no run starts.

    Parameters
    ----------
    task, approach, **parameters
        Those of :func:`seeds`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> plan = mlflow_l3d.plan_seeds("synthetic", approach="synthetic", seeds=30)
    >>> plan.to_frame()[["part", "cells"]]
        part  cells
    0  seeds     30
    """
    return SeedsStudyRun.plan(approach, task, parameters)


@with_signature(SeedsOptions)
def self_test_seeds(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: Unpack[SeedsOptions],
) -> SelfTest:
    """Return what a new seed changes in the results, from a few trial runs; nothing is logged.

    Parameters
    ----------
    task, approach, progress, **parameters
        Those of :func:`seeds`.

    Raises
    ------
    L3DError
        If a trial run fails.

    Examples
    --------
    >>> import mlflow_l3d
    >>> mlflow_l3d.self_test_seeds("synthetic", approach="synthetic", executor="inline")
    self-test: what a new seed changes
    seed       12 of 400 predictions
    replicate  nothing
    """
    return SeedsStudyRun.try_seeds(parameters, approach=approach, task=task, progress=progress)


@with_signature(RepeatsOptions)
def replicate(task: TaskLike = None, *, progress: bool | None = None, **parameters: Unpack[RepeatsOptions]) -> SeedsRun:
    """Send identical requests to a model behind an endpoint, and count the rows whose answer changes.

    Parameters
    ----------
    task, progress, **parameters
        As for :func:`seeds`, with those of :data:`mlflow_l3d.studies.seeds.parameters.REPEATS`.

    Returns
    -------
    SeedsRun
        The result, whose ``study.changes`` counts the rows.

    Examples
    --------
    >>> import mlflow_l3d
    >>> mlflow_l3d.replicate("synthetic")
    Traceback (most recent call last):
        ...
    mlflow_l3d.errors.ParameterError: model=auto: must be behind an endpoint, as openai:NAME. Others: factor=replicate.
    """
    return RepeatsStudyRun.conduct(parameters, approach=InContextLearning(), task=task, progress=progress)


@with_signature(RepeatsOptions)
def plan_replicate(task: TaskLike = None, **parameters: Unpack[RepeatsOptions]) -> StudyPlan:
    """Return how many requests :func:`replicate` would send, and how many answers are there; nothing is sent.

    Examples
    --------
    >>> import mlflow_l3d
    >>> mlflow_l3d.plan_replicate("synthetic")
    Traceback (most recent call last):
        ...
    mlflow_l3d.errors.ParameterError: model=auto: must be behind an endpoint, as openai:NAME. Others: factor=replicate.
    """
    return RepeatsStudyRun.plan(InContextLearning(), task, parameters)


class SeedsStudyRun(CellStudy[SeedsRequest, SeedsRun]):
    """One study of seeds under way."""

    unit = "seed"
    fewest = 2
    specify = staticmethod(specify_seeds)

    @classmethod
    def plan(cls, approach: Approach | str | None, task: TaskLike, parameters: Mapping[str, object]) -> StudyPlan:
        """Return what such a study would train, and log it to the run that `mlflow run` made."""
        with entry_point() as project_run:
            request: SeedsRequest = specified(cls.specify, approach, task, parameters)
            client = connect()
            plan = plan_cells(client, request.title, {f"{cls.unit}s": request})
            return record_plan(client, project_run.run_id, plan, request.title, request.given)

    @property
    def progress_title(self) -> str:
        """What stands before the progress bar."""
        return self.request.setup.task.name

    def on_known(self, cell: Cell, metrics: Mapping[str, float]) -> None:
        """Log the score, at the place of the seed: in whatever order seeds are done, the chart is the same."""
        if (score := metrics.get(self.request.metric.name)) is not None and math.isfinite(score):
            self.recorder.log_metrics({"score": score}, cell.index or 0)

    def conclude(self) -> SeedsRun:
        """Score everything from the records, write the parent's artifacts, and end the parent."""
        request, recorder, task = self.request, self.recorder, self.request.setup.task
        document = request.document()
        cells, predictions = recorded_cells(recorder, request.design().cells())
        finished = cells[cells["status"].eq("FINISHED")]
        study = recorded_study(document, finished, predictions, request.metric)
        failed = len(cells) - len(finished)
        settings = {"task": f"{task.name} ({task.kind.replace('_', ' ')})", "seeds": ", ".join(map(str, request.seeds))}
        about = request.about(recorder, settings, (*self.failure_notes, *request.notes(cells)))
        runs = tuple(finished["run_id"])
        result = SeedsRun(request=request, about=about, study=study, runs=runs, failed=failed, **self.result())
        with finishing(recorder, result, document, failed=failed) as folder:
            write_scores(folder, study, cells, predictions, result.report())
        return result


class RepeatsStudyRun(SeedsStudyRun):
    """One study of identical requests under way."""

    unit = "repeat"
    specify = staticmethod(partial(specify_seeds, kind=RepeatsRequest))


def recorded_cells(recorder: RunRecorder[Any], cells: Iterable[Cell]) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return one row per cell of the spool, and the predictions of those that did not fail (None if there are none)."""
    with deferred_interrupts():
        run_ids = recorder.run_ids()
    spool, rows, tables = recorder.spool, [], []
    for cell in cells:
        record = spool.record(cell.key)
        path = spool.predictions(cell.key)
        seed = cell.seeds["seed"]
        row = {"phase": cell.phase, "index": cell.index, "seed.seed": seed, "run_id": run_ids.get(cell.key)}
        row |= {"cell_key": cell.key, "status": record.status}
        rows.append({**row, **({} if record.error else record.metrics)})
        if path is not None and not record.error:
            tables.append(read_rows(path, reference=True).to_pandas().assign(seed=seed, cell_key=cell.key))
    return pd.DataFrame(rows), pd.concat(tables, ignore_index=True) if tables else None
