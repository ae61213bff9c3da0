"""Score an existing parent run, ours or a stranger's, from what the tracking server holds."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import Planned
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.metrics.known import named, registered
from mlflow_l3d.parameters.values import check_names
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.investigation.artifacts import description, write_artifacts
from mlflow_l3d.studies.investigation.scoring import Scored, score
from mlflow_l3d.studies.request import class_words, heading, version_words
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.earlier.past import own_parameter
from mlflow_l3d.tracking.earlier.reader import fetch_document, read_predictions
from mlflow_l3d.tracking.pages import links_in, with_link

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_SIZES = ("mitigation_runs", "investigation_runs", "golden_runs")
_NOT_METRICS = {*names.COORDINATES, "run_id", "cell_key", "status", "artifact_uri", "experiment_id", "predictions"}


def score_parent(
    client: MlflowClient,
    parent: Run,
    cells: pd.DataFrame,
    *,
    metric: Metric,
    planned: Planned,
    agreement: str = "auto",
    log: bool = True,
) -> Analysis:
    """Score cells that are runs on a tracking server, and write metrics and artifacts to their parent.

    Parameters
    ----------
    client
        Where the predictions are.
    parent
        The run that is written to.
    cells
        As :class:`mlflow_l3d.tracking.earlier.reader.Recorded` has them, as
        :meth:`mlflow_l3d.designs.analyse.Planned.select` returns them.
    metric
        The metric whose spread is investigated.
    planned
        What is known of the plan, see :func:`planned_by`; no cell may lie beyond it.
    agreement
        How predictions are compared, see :func:`mlflow_l3d.analysis.consistency.agreement.choice.choose`.
    log
        Whether to write.

    Raises
    ------
    ParameterError
        If the parent has a report and numbers of its own, or no cell has the metric.
    """
    if log and parent.data.tags.get(names.DESIGN) == "seeds":
        fix = "Use mlflow-l3d evaluate, or mlflow_l3d.evaluate."
        raise ParameterError("parent_run_id", parent.info.run_id, "is a study of seeds, not of factors", fix)
    check_metric(cells, metric)
    finished = cells["status"].eq("FINISHED")
    read = read_predictions(client, cells[finished])
    with temporary_folder() as folder, closing(read) as found:
        scored = score(
            cells,
            (next(found)[1] if present else None for present in finished),
            metric=metric,
            planned=planned,
            agreement=agreement,
            table_file=folder / names.PREDICTIONS,
            interim_analyses=_looks(client, parent, metric, planned.design_of(cells).name),
        )
        if log:
            _write_scored(client, parent, cells, scored, folder)
    return scored.analysis


def planned_by(parent: Run, *, design: str = "auto", missing: str = "auto") -> Planned:
    """Return the plan behind a parent: what is given, else what one of our own says of itself.

    A stranger's parameters are not trusted: they may mean something else.
    """
    ours = names.INVESTIGATION_KEY in parent.data.tags
    name = parent.data.tags.get(names.DESIGN, "crossed") if ours and design == "auto" else design
    own = {
        each: own_parameter(parent, each) if ours else None
        for each in (*_SIZES, "missing", "mitigation", "joint", "stop", "deterministic")
    }
    rows, columns, golden_runs = (int(text) if (text := own[name]) and text.isdigit() else None for name in _SIZES)
    return Planned(
        design=design_named(name) if (not ours and name != "auto") or name in registry.names("design") else None,
        rows=rows,
        columns=columns,
        golden_runs=golden_runs,
        pooled=own["golden_runs"] == "pooled",
        missing="reml" if (own["missing"] if missing == "auto" else missing) == "reml" else "anova",
        mitigated=(own["mitigation"] or "none") != "none",
        product=own["joint"] == "product",
        sequential=own["stop"] == "interval",
        deterministic=own["deterministic"] != "false",
    )


def _looks(client: MlflowClient, parent: Run, metric: Metric, design: str) -> pd.DataFrame | None:
    """Return how the rule of an investigation of ours looked; None where it had none, or what is scored is another."""
    rule, tags = own_parameter(parent, "stop") or "none", parent.data.tags
    if names.INVESTIGATION_KEY not in tags or rule == "none":
        return None
    if (own_parameter(parent, "metric"), tags.get(names.DESIGN)) != (metric.name, design):
        return None
    found = fetch_document(client, parent.info.run_id, names.INTERIM_ANALYSES)
    if found is None:
        return None
    looks = pd.DataFrame(found["data"], columns=found["columns"])
    numbers = ["importance", "alpha", "low", "high", "change"]
    return looks.astype(dict.fromkeys(numbers, "float64"))


def metric_of(parent: Run, asked: str, cells: pd.DataFrame) -> Metric:
    """Return the metric that is asked for; for ``auto`` the parent's own, ``f1_macro``, or the only one of the cells.

    Raises
    ------
    ParameterError
        If ``auto`` can be several.
    """
    known = own_parameter(parent, "metric") if asked == "auto" else asked
    if known not in (None, "auto"):
        return named(known)
    found = [name for name in _metrics(cells) if name != "duration_seconds"]
    if "f1_macro" in found or not found:
        return F1_MACRO
    likely = [name for name in found if name in registered()] or found
    if len(likely) > 1:
        fix = f'Name one of them: metric={likely[0]}; for the evaluator evaluator_config={{"metric": "{likely[0]}"}}.'
        raise ParameterError("metric", "auto", f"the cells have several, {', '.join(likely)}", fix)
    return named(likely[0])


def _metrics(cells: pd.DataFrame) -> list[str]:
    return [str(name) for name in cells if name not in _NOT_METRICS and not str(name).startswith(("factor.", "seed."))]


def check_metric(cells: pd.DataFrame, metric: Metric) -> None:
    """Raise a ParameterError where no cell has the metric."""
    check_names("metric", [metric.name], _metrics(cells), "one that the cells have:")
    low, high = metric.range
    scores = cells[metric.name]
    beyond = cells[(scores < low - 1e-9) | (scores > high + 1e-9)]
    if len(beyond):
        value, run_id = beyond[metric.name].iloc[0], beyond["run_id"].iloc[0]
        fix = "Log fractions, not percent." if low == 0 and high == 1 < value <= 100 else ""
        raise ParameterError(
            "metric", metric.name, f"must be between {low:g} and {high:g}; run {run_id} has {value:g}", fix
        )


def _write_scored(client: MlflowClient, run: Run, cells: pd.DataFrame, scored: Scored, folder: Path) -> None:
    """Write an analysis to the run it belongs to: metrics (the path of consistency included), artifacts and tags.

    Parameters
    ----------
    client, run
        The parent run.
    cells
        One row a cell, as :meth:`mlflow_l3d.designs.analyse.Planned.select` returns them.
    scored
        What was computed.
    folder
        A folder whose files become artifacts of the run, beside those that are written here.
    """
    write_artifacts(
        folder,
        scored,
        cells,
        document={},
        settings=_settings(client, run),
        title=run.info.run_name or run.info.run_id,
        notes=["Evaluated from the runs on the tracking server."],
    )
    importances = scored.analysis.importances
    rows = _last_step(scored.analysis, run)
    steps = {**scored.consistency_steps}
    steps[rows] = {**steps.get(rows, {}), **scored.analysis.metrics()}
    parents.log_metrics(client, run.info.run_id, steps)
    client.log_artifacts(run.info.run_id, str(folder))
    logged = json.loads(run.data.tags.get(names.LOGGED_ARTIFACTS, "[]"))
    written = [{"path": name, "type": "table"} for name in names.TABLES if (folder / name).exists()]
    links = links_in(run.data.tags.get(names.NOTE, ""))
    tags = {
        names.SCHEMA_TAG: names.SCHEMA,
        names.LOGGED_ARTIFACTS: json.dumps([*logged, *(table for table in written if table not in logged)]),
        names.NOTE: with_link("\n\n".join([description(scored.analysis), *links]), str(run.info.experiment_id)),
    }
    if names.INVESTIGATION_KEY not in run.data.tags:
        tags |= {
            names.ROLE: "investigation",
            names.FACTOR: ",".join(importances),
            names.DESIGN: scored.analysis.design,
            names.STATE: "complete" if scored.analysis.cells_failed == 0 else "incomplete",
        }
    parents.set_tags(client, run.info.run_id, tags)


def _settings(client: MlflowClient, run: Run) -> dict[str, str]:
    """Return what the report says of the parent; of one of ours also its classes, and the versions that made its runs.

    Parameters of which a part was resolved stand there as they were resolved.
    """
    run_id = str(run.info.run_id)
    own = fetch_document(client, run_id, names.INVESTIGATION) if names.INVESTIGATION_KEY in run.data.tags else None
    of_task, made_with = ((own or {}).get(name, {}) for name in ("task", "versions"))
    typed = {name: own_parameter(run, name) or "" for name in run.data.params if "." not in name}
    known = {
        "classes": class_words(of_task.get("classes", [])),
        "versions": ", ".join(f"{name} {number}" for name, number in made_with.items()),
        "evaluated with": version_words(),
    }
    return {**heading(run_id), **typed, **{name: words for name, words in known.items() if words}}


def _last_step(analysis: Analysis, parent: Run) -> int:
    """Return the step at which the numbers of a finished parent stand: its rows, or what takes their place."""
    if design_named(analysis.design).baseline:
        return planned_by(parent).rows or 1
    return max((record.table.shape[0] for record in analysis.importances.values()), default=0)
