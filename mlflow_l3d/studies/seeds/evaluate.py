"""`evaluate` for studies of seeds: one is scored again from its runs, several are compared over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.seeds.artifacts import write_over_tasks, write_scores
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks, over_tasks
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy, seeds_study
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier.past import latest_investigation, own_parameter
from mlflow_l3d.tracking.earlier.reader import known_document, read_investigation, read_predictions
from mlflow_l3d.tracking.parent import log_metrics, set_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

DESIGN = "seeds"
"""Value of ``l3d.design`` of a study of seeds."""


@dataclass(frozen=True, repr=False)
class SeedsEvaluation(OnOneScreen):
    """What was scored again.

    Attributes
    ----------
    run_ids
        The parents.
    studies
        One a parent, in their order.
    over_tasks
        One record a model, where there are several parents.
    run_id
        Where the comparison was logged; the empty text where there is one parent.
    """

    run_ids: tuple[str, ...]
    studies: tuple[SeedsStudy, ...]
    over_tasks: tuple[ModelOverTasks, ...] = ()
    run_id: str = ""

    def summary(self) -> str:
        """Return the text that the command line prints."""
        from mlflow_l3d.studies.seeds.report.page import over_tasks_document, seeds_document

        if not self.over_tasks:
            return seeds_document(self.studies[0], title=f"evaluation of run {self.run_ids[0]}").to_text()
        return over_tasks_document(self.over_tasks, title=f"Seeds over tasks (MLflow run {self.run_id})").to_text()


def is_seeds_study(parent_run_id: str) -> bool:
    """Return whether `parent_run_id` names several parents, or one that is a study of seeds."""
    from mlflow.exceptions import MlflowException

    if "," in parent_run_id:
        return True
    client = connect()
    try:
        run_id = latest_investigation(client) if parent_run_id == "latest" else parent_run_id
        return bool(client.get_run(run_id).data.tags.get(names.DESIGN) == DESIGN)
    except (MlflowException, L3DError):
        return False


def evaluate_seeds(
    parent_run_id: str, *, metric: str = "auto", project_run: str | None = None, log: bool = True
) -> SeedsEvaluation:
    """Score studies of seeds again from their runs.

    Parameters
    ----------
    parent_run_id
        One parent, whose metrics and tables are then written anew; or several, separated by commas, which are compared
        over tasks in a run of its own.
    metric
        The metric in the headline; ``auto`` is each parent's own.
    project_run
        The run that `mlflow run` made, for the comparison.
    log
        Whether to write metrics and artifacts.

    Raises
    ------
    L3DError
        With one line that says what is missing.
    """
    client = connect()
    wanted = [part.strip() for part in parent_run_id.split(",") if part.strip()]
    if repeated := [run_id for at, run_id in enumerate(wanted) if run_id in wanted[:at]]:
        raise ParameterError("parent_run_id", repeated[0], "must be named once")
    run_ids = tuple(latest_investigation(client) if run_id == "latest" else run_id for run_id in wanted)
    if len(run_ids) == 1:
        return SeedsEvaluation(run_ids, (_rescored(client, run_ids[0], metric, log=log),))
    studies = tuple(_study(client, run_id, metric).study for run_id in run_ids)
    found = over_tasks(studies)
    if not log:
        return SeedsEvaluation(run_ids, studies, found)
    title, given = f"seeds over {len({study.task for study in studies})} tasks", ",".join(run_ids)
    parameters = {"parent_run_id": given}
    with (
        temporary_folder() as folder,
        auxiliary_run(client, project_run, role="seeds_over_tasks", title=title, parameters=parameters) as run,
    ):
        tables = write_over_tasks(folder, found, title=title)
        run.finish(folder, metrics=_metrics(found), tags={names.INVESTIGATIONS: given}, tables=tables)
    return SeedsEvaluation(run_ids, studies, found, run.run_id)


@dataclass(frozen=True)
class _Read:
    parent: Run
    cells: pd.DataFrame
    predictions: pd.DataFrame | None
    study: SeedsStudy


def _study(client: MlflowClient, run_id: str, metric: str) -> _Read:
    """Read one parent, ours or a stranger's whose children carry ``l3d.role`` = cell and the parameter seed.seed."""
    recorded = read_investigation(run_id, client)
    parent, cells = recorded.parent, recorded.cells
    if "seed.seed" not in cells:
        allowed = "is no study of seeds: its cells have no parameter seed.seed"
        raise ParameterError("parent_run_id", run_id, allowed)
    document = known_document(client, run_id, names.INVESTIGATION)
    imported = {run["cell_key"]: run for run in document.get("runs", ())}
    if imported:
        cells = cells[cells["cell_key"].isin(imported)]
        numbers = cells["cell_key"].map({key: run["number"] for key, run in imported.items()})
        cells = cells.assign(**{"seed.seed": numbers.astype("Int64")})
    cells = _ordered(cells, document.get("seeds"))
    finished = cells[cells["status"].eq("FINISHED")].assign(seed=lambda frame: frame["seed.seed"].astype(int))
    by_settings = document.get("by_settings", False)
    settings = pd.DataFrame([imported[key]["settings"] for key in finished["cell_key"]]) if by_settings else None
    read = read_predictions(client, finished)
    tables = [
        table.to_pandas().assign(seed=int(seed), cell_key=key)
        for (_, table), seed, key in zip(read, finished["seed"], finished["cell_key"], strict=True)
        if table is not None
    ]
    predictions = pd.concat(tables, ignore_index=True) if tables else None
    task: dict[str, Any] = document.get("task", {})
    numeric = predictions is not None and predictions["prediction"].dtype.kind == "f"
    own = own_parameter(parent, "metric")
    study = seeds_study(
        finished,
        predictions,
        metric=(None if own in (None, "auto") else own) if metric == "auto" else metric,
        kind=task.get("kind", "regression" if numeric else "classification"),
        task=str(task.get("name") or own_parameter(parent, "task") or parent.info.run_name or run_id),
        model=str(document.get("model", {}).get("name") or own_parameter(parent, "model") or ""),
        benchmark=str(task.get("benchmark") or ""),
        training_size=task.get("train_examples"),
        others=document.get("metrics", ()),
        classes=len(task.get("classes", ())) or None,
        recorded=settings,
    )
    return _Read(parent, cells, predictions, study)


def _ordered(cells: pd.DataFrame, seeds: object) -> pd.DataFrame:
    """Return the cells in the order of the study, numbered so; a stranger's by their numbers, else by their seeds."""
    if not isinstance(seeds, list):
        return cells.sort_values("index" if cells["index"].notna().all() else "seed.seed", kind="stable")
    place = {seed: at for at, seed in enumerate(seeds)}
    own = cells[cells["seed.seed"].isin(seeds)]
    return own.assign(index=own["seed.seed"].map(place).astype("Int64")).sort_values("index", kind="stable")


def _rescored(client: MlflowClient, run_id: str, metric: str, *, log: bool) -> SeedsStudy:
    """Write metrics, tables and the report of one parent anew; what says how to repeat it stays."""
    read = _study(client, run_id, metric)
    if not log:
        return read.study
    with temporary_folder() as folder:
        write_scores(
            folder,
            read.study,
            read.cells.drop(columns=["artifact_uri", "experiment_id"], errors="ignore"),
            read.predictions,
            title=read.parent.info.run_name or run_id,
            notes=["Evaluated from the runs on the tracking server."],
            settings={key: value for key, value in read.parent.data.params.items() if "." not in key},
        )
        log_metrics(client, run_id, {len(read.study.seeds): read.study.metrics()})
        client.log_artifacts(run_id, str(folder))
    if names.INVESTIGATION_KEY not in read.parent.data.tags:
        tags = {names.ROLE: "investigation", names.SCHEMA_TAG: names.SCHEMA, names.FACTOR: "seed", names.DESIGN: DESIGN}
        set_tags(client, run_id, tags)
    return read.study


def _metrics(found: Sequence[ModelOverTasks]) -> dict[str, float]:
    """Return the metrics of the comparison; with several models each has the model's name behind it."""
    if len(found) == 1:
        return found[0].metrics()
    return {f"{name}/{one.model}": value for one in found for name, value in one.metrics().items()}
