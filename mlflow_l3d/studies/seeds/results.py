"""What seeds studies say: read from runs and written to them, also again by `evaluate`, which compares tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import About, Source, heading
from mlflow_l3d.studies.files import (
    read_result,
    save_report,
    save_result,
    temporary_folder,
    write_json,
    write_result,
    write_runs,
    write_tables,
)
from mlflow_l3d.studies.investigation.evaluate import recorded_about, rewritten
from mlflow_l3d.studies.seeds.numbers import SeedsStudy, seeds_study
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks, over_tasks
from mlflow_l3d.studies.seeds.parameters import SEEDS
from mlflow_l3d.studies.seeds.report import seed_frame, seeds_document
from mlflow_l3d.studies.seeds.report.over_tasks import over_tasks_document, tasks_frame
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import Client, Run, connect
from mlflow_l3d.tracking.earlier import own_parameter
from mlflow_l3d.tracking.earlier.predictions import warn_of_missing, with_whole_averages
from mlflow_l3d.tracking.earlier.reader import known_document, read_investigation, read_predictions
from mlflow_l3d.tracking.parent import log_metrics, set_tags
from mlflow_l3d.tracking.recorder import RunRecorder


@dataclass(frozen=True, repr=False)
class SeedsEvaluation(OnOneScreen):
    """The seeds studies that were scored again.

    Attributes
    ----------
    run_ids
        The parent runs.
    studies
        One per parent run, in their order.
    over_tasks
        One record per model, if there are several parent runs.
    run_id
        The run of the comparison; the empty text with one parent run.
    abouts, runs, failed
        Title, origin, notes and settings of each study, the runs of its seeds, and how many seeds failed.
    source
        The origin of the comparison.
    """

    run_ids: tuple[str, ...]
    studies: tuple[SeedsStudy, ...]
    over_tasks: tuple[ModelOverTasks, ...] = ()
    run_id: str = ""
    abouts: tuple[About, ...] = ()
    runs: tuple[tuple[str, ...], ...] = ()
    failed: tuple[int, ...] = ()
    source: Source = field(default_factory=Source)

    @property
    def title(self) -> str:
        """What was compared."""
        return f"seeds over {len({study.task for study in self.studies})} tasks"

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per task, or per seed of one study, in the units of the report; `full` returns fractions."""
        return tasks_frame(self.over_tasks, full=full) if self.over_tasks else seed_frame(self.studies[0], full=full)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        if not self.over_tasks:
            lines = [f"Evaluation of run {self.run_ids[0]}"]
            (study,), (about,), (runs,), (failed,) = self.studies, self.abouts, self.runs, self.failed
            return seeds_document(study, **vars(about), runs=runs, failed=failed, lines=lines)
        return over_tasks_document(
            self.over_tasks,
            title=self.title,
            source=self.source,
            sources={(one.model, one.task): at.source for one, at in zip(self.studies, self.abouts, strict=True)},
            lines=[f"Seeds over tasks (MLflow run {self.run_id})"],
        )


def evaluate_seeds(
    *run_ids: str, metric: str = "auto", project_run: str | None = None, log: bool = True
) -> SeedsEvaluation:
    """Score seeds studies again from their runs.

    Parameters
    ----------
    *run_ids
        One parent run, whose metrics and tables are then replaced; or several, which are compared over tasks in a run
        of their own.
    metric
        The metric in the headline; ``auto`` is the metric of each parent run.
    project_run
        The run that `mlflow run` opened, for the comparison.
    log
        Whether to write metrics and artifacts.

    Raises
    ------
    L3DError
        With one line that names the missing data.
    """
    client = connect()
    reads, studies, abouts, written = zip(*(_study(client, run_id, metric) for run_id in run_ids), strict=True)
    done = tuple(tuple(read.done["run_id"]) for read in reads)
    failed = tuple(len(read.cells) - len(read.done) for read in reads)
    result = SeedsEvaluation(run_ids, studies, abouts=abouts, runs=done, failed=failed)
    if len(run_ids) == 1:
        if log:
            _rescore(client, reads[0], result, written[0])
        return result
    models = over_tasks(studies)
    result = replace(result, over_tasks=models)
    if not log:
        return result
    title, typed = result.title, {"source": ",".join(run_ids)}
    with auxiliary_run(client, project_run, role="seeds_over_tasks", title=title, parameters=typed) as run:
        result = replace(result, run_id=run.run_id, source=Source(run_id=run.run_id, date=heading("")["date"][:10]))
        rows = pd.concat([model.rows for model in models], ignore_index=True)
        rows.to_csv(run.folder / "tasks.csv", index=False)
        for number, model in enumerate(models):
            model.matrix.to_csv(run.folder / f"seed_by_task{f'-{number}' if models[1:] else ''}.csv")
        save_result(run.folder, result)
        metrics = {f"{k}/{one.model}" if models[1:] else k: v for one in models for k, v in one.metrics().items()}
        tags = {names.INVESTIGATIONS: typed["source"], names.NOTE: result.report().description()}
        run.finish(metrics=metrics, tags=tags, tables=write_tables(run.folder, {"tasks.json": rows}))
    return result


@dataclass(frozen=True)
class ReadParent:
    """A parent run as it is read again: its document, all cells in their order, and predictions of those that ended."""

    parent: Run
    document: Mapping[str, Any]
    cells: pd.DataFrame
    predictions: pd.DataFrame | None

    @property
    def done(self) -> pd.DataFrame:
        """The cells that did not fail."""
        return self.cells[self.cells["status"].eq("FINISHED")]


def read_parent(client: Client, run_id: str) -> ReadParent:
    """Read one parent run whose child runs have the tag ``l3d.role`` = cell and the parameter seed.seed."""
    recorded = read_investigation(run_id, client, parameter="source")
    if "seed.seed" not in recorded.cells:
        raise ParameterError("source", run_id, "is not a seeds study: its cells have no parameter seed.seed")
    document = known_document(client, run_id, names.INVESTIGATION)
    cells = _ordered(recorded.cells, document)
    finished = cells[cells["status"].eq("FINISHED")]
    read = [*read_predictions(client, finished, reference=True)]
    warn_of_missing({run_id: table is not None for run_id, table in read})
    tables = [
        table.to_pandas().assign(seed=int(seed), cell_key=key)
        for (_, table), seed, key in zip(read, finished["seed.seed"], finished["cell_key"], strict=True)
        if table is not None
    ]
    answers = pd.concat(tables, ignore_index=True) if tables else None
    cells = with_whole_averages(run_id, document, cells, answers)
    return ReadParent(recorded.parent, document, cells, answers)


def _study(client: Client, run_id: str, metric: str) -> tuple[ReadParent, SeedsStudy, About, Any]:
    """Return a parent run, its study, what its report says, and the result that it holds, if that is of one study."""
    read = read_parent(client, run_id)
    parent, document, predictions = read.parent, read.document, read.predictions
    if document.get("groups"):
        allowed = f"has {len(document['groups'])} groups of runs, and only seeds studies are compared over tasks"
        raise ParameterError("source", run_id, allowed, "Read the files of one group alone: --only NAME=VALUE.")
    numeric = predictions is not None and predictions["prediction"].dtype.kind == "f"
    task = {
        "kind": "regression" if numeric else "classification",
        "name": own_parameter(parent, "task") or parent.info.run_name or run_id,
        **document.get("task", {}),
    }
    described = {"model": {"name": own_parameter(parent, "model") or ""}, **document, "task": task}
    recorded_metric = own_parameter(parent, "metric") if metric == "auto" else metric
    study = recorded_study(described, read.done, predictions, None if recorded_metric == "auto" else recorded_metric)
    written = read_result(client, run_id)
    if written is None or isinstance(written, SeedsEvaluation):
        return read, study, recorded_about(client, parent, SEEDS), None
    return read, study, rewritten(written.about, study.metric), written


def _ordered(cells: pd.DataFrame, document: Mapping[str, Any]) -> pd.DataFrame:
    """Return the cells in the order of the study and numbered so; of other code by their numbers, else by seeds."""
    if "seeds" not in document:
        return cells.sort_values("index" if cells["index"].notna().all() else "seed.seed", kind="stable")
    keys = [run["cell_key"] for run in document.get("runs", ())]
    column, order = ("cell_key", keys) if keys else ("seed.seed", document["seeds"])
    cells = cells.assign(index=cells[column].map({value: at for at, value in enumerate(order)}).astype("Int64"))
    return cells.dropna(subset="index").sort_values("index", kind="stable")


def _rescore(client: Client, read: ReadParent, result: SeedsEvaluation, written: Any) -> None:
    """Replace metrics, tables, report and result of one parent run; its specification stays."""
    (run_id,), (study,), (about,), (runs,) = result.run_ids, result.studies, result.abouts, result.runs
    with temporary_folder() as folder:
        write_scores(folder, study, read.cells, read.predictions, result.report())
        write_result(folder, replace(written, study=study, about=about, runs=runs) if written else result)
        log_metrics(client, run_id, {len(study.seeds): study.metrics()})
        client.log_artifacts(run_id, str(folder))
    if names.INVESTIGATION_KEY not in read.parent.data.tags:
        tags = {names.ROLE: "investigation", names.FACTOR: "seed", names.DESIGN: "seeds"}
        set_tags(client, run_id, {names.SCHEMA_TAG: names.SCHEMA, **tags})


def recorded_study(
    document: Mapping[str, Any], cells: pd.DataFrame, predictions: pd.DataFrame | None, metric: Metric | str | None
) -> SeedsStudy:
    """Return the study that the document of a parent run describes.

    Parameters
    ----------
    document
        The content of ``investigation.json``.
    cells
        One row per finished run: ``seed.seed``, ``cell_key`` and metrics.
    predictions
        One row per prediction, with the ``seed.seed`` of its run.
    metric
        As for :func:`~mlflow_l3d.studies.seeds.numbers.seeds_study`.
    """
    task, runs = document["task"], {run["cell_key"]: run for run in document.get("runs", ())}
    numbers = {key: run["number"] for key, run in runs.items()}
    seeds = cells["cell_key"].map(numbers) if runs else cells["seed.seed"]
    if runs and predictions is not None:
        predictions = predictions.assign(seed=predictions["cell_key"].map(numbers))
    settings = [runs[key]["settings"] for key in cells["cell_key"]] if document.get("by_settings") else None
    return seeds_study(
        cells.assign(seed=seeds.astype(int)),
        predictions,
        metric=metric,
        kind=task["kind"],
        task=str(task["name"]),
        model=str(document["model"]["name"]),
        benchmark=str(task.get("benchmark") or ""),
        training_size=task.get("train_examples"),
        others=document.get("metrics", ()),
        classes=len(task.get("classes", ())) or None,
        recorded=None if settings is None else pd.DataFrame(settings),
        repeats=document.get("repeats", False),
    )


def write_scores(
    folder: Path, study: SeedsStudy, cells: pd.DataFrame, predictions: pd.DataFrame | None, report: Document
) -> None:
    """Write tables and report: what can be made of runs alone, ours or a stranger's."""
    write_runs(folder, cells, predictions)
    examples = None if study.examples is None else study.examples.frame.head(2000)
    write_tables(folder, {names.CELLS_TABLE: study.to_frame(), names.EXAMPLES: examples})
    document = {name: getattr(study, name) for name in ("task", "model", "kind", "training_size", "seeds")}
    document |= {"metric": study.metric.name, "metrics": study.metrics()}
    write_json(folder / names.SEEDS, {**document, "scores": study.scores.reset_index()}, indent=2)
    save_report(folder, names.REPORT, report)


@contextmanager
def finishing(recorder: RunRecorder[Any], result: Any, document: Mapping[str, Any], *, failed: int) -> Iterator[Path]:
    """Yield the folder for tables and report of a parent run; then write what the study found, and end the run.

    Parameters
    ----------
    recorder
        That of the parent run.
    result
        What the study returns: `study`, `about` and a report.
    document
        The specification.
    failed
        How many runs are missing.
    """
    with temporary_folder() as folder:
        write_json(folder / names.INVESTIGATION, document, indent=2)
        yield folder
        write_result(folder, result)
        recorder.log_metrics({**result.study.metrics(), "cells_failed": float(failed)}, len(document["seeds"]))
        recorder.wait()
        recorder.finish(folder, complete=failed == 0, description=result.report().description(*result.about.notes))
