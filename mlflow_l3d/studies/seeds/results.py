"""What seeds studies say: written to runs, and made again by `evaluate`, which compares several over tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import About, Source, heading
from mlflow_l3d.studies.files import read_result, save_result, temporary_folder, write_result, write_tables
from mlflow_l3d.studies.investigation.evaluate import recorded_about, rewritten
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks, over_tasks
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.parameters import SEEDS
from mlflow_l3d.studies.seeds.records import recorded_study, write_scores
from mlflow_l3d.studies.seeds.report.page import over_tasks_document, seeds_document
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import Client, Run, connect
from mlflow_l3d.tracking.earlier.past import own_parameter
from mlflow_l3d.tracking.earlier.predictions import warn_of_missing
from mlflow_l3d.tracking.earlier.reader import known_document, read_investigation, read_predictions
from mlflow_l3d.tracking.parent import log_metrics, set_tags


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

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        if not self.over_tasks:
            lines = [f"Evaluation of run {self.run_ids[0]}"]
            (study,), (about,), (runs,), (failed,) = self.studies, self.abouts, self.runs, self.failed
            return seeds_document(study, **vars(about), runs=runs, failed=failed, lines=lines)
        studies = zip(self.studies, self.abouts, strict=True)
        return over_tasks_document(
            self.over_tasks,
            title=self.title,
            source=self.source,
            sources={(study.model, study.task): about.source for study, about in studies},
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
    listed, title = ",".join(run_ids), result.title
    typed = {"source": listed}
    with auxiliary_run(client, project_run, role="seeds_over_tasks", title=title, parameters=typed) as run:
        source = Source(run_id=run.run_id, date=heading(run.run_id)["date"][:10])
        result = replace(result, run_id=run.run_id, source=source)
        rows = pd.concat([model.rows for model in models], ignore_index=True)
        rows.to_csv(run.folder / "tasks.csv", index=False)
        for number, model in enumerate(models):
            model.matrix.to_csv(run.folder / f"seed_by_task{f'-{number}' if models[1:] else ''}.csv")
        tables = write_tables(run.folder, {"tasks.json": rows})
        save_result(run.folder, result)
        metrics = {f"{k}/{one.model}" if models[1:] else k: v for one in models for k, v in one.metrics().items()}
        run.finish(metrics=metrics, tags={names.INVESTIGATIONS: listed}, tables=tables)
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
    parent = recorded.parent
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
    return ReadParent(parent, document, cells, pd.concat(tables, ignore_index=True) if tables else None)


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
