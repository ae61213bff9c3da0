"""Scores an existing parent run, also of other code, from its runs on the tracking server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.designs import Planned, design_named
from mlflow_l3d.designs.crossed import distinct_rows, factor_members
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.metrics.known import named, registered, typed_name
from mlflow_l3d.parameters import Parameters
from mlflow_l3d.parameters.values import check_names
from mlflow_l3d.paths import kept_whole
from mlflow_l3d.report.source import About, heading, lists_in, version_words
from mlflow_l3d.studies.base import origin
from mlflow_l3d.studies.files import read_result, temporary_folder, write_result
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.investigation.remedies import drawn_factors
from mlflow_l3d.studies.investigation.report.runs import read_predicted
from mlflow_l3d.studies.investigation.results import Evaluation, write_artifacts
from mlflow_l3d.studies.investigation.run_plan import parse_mitigation
from mlflow_l3d.studies.investigation.scoring import Scored, score
from mlflow_l3d.studies.request import is_typed
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier import own_parameter, searched_splits
from mlflow_l3d.tracking.earlier.reader import fetch_document, is_running, known_document, read_predictions
from mlflow_l3d.tracking.pages import links_in

_SIZES = ("mitigation_runs", "investigation_runs", "golden_runs")
_NOT_METRICS = {*names.COORDINATES, "run_id", "cell_key", "status", "artifact_uri", "experiment_id", "predictions"}


def score_parent(
    client: Client,
    parent: Run,
    cells: pd.DataFrame,
    *,
    metric: str = "auto",
    design: str = "auto",
    missing: str = "auto",
    agreement: str = "auto",
    log: bool = True,
    deleted: int = 0,
) -> Evaluation:
    """Score cells that are runs on a tracking server, and write metrics and artifacts to their parent run.

    Parameters
    ----------
    client
        Client of the tracking server with the predictions.
    parent
        The parent run, which gets the result.
    cells
        One row per cell, from :class:`mlflow_l3d.tracking.earlier.reader.Recorded`.
    metric, design, missing, agreement, log
        As for :func:`mlflow_l3d.studies.evaluation.run.evaluate`.
    deleted
        How many cells that the parent run lists are deleted.

    Raises
    ------
    ParameterError
        If the parent run is a seeds study, or no cell has the metric.
    """
    if log and parent.data.tags.get(names.DESIGN) == "seeds":
        fix = "Use mlflow-l3d evaluate, or mlflow_l3d.evaluate."
        raise ParameterError("source", parent.info.run_id, "is a seeds study, not an investigation", fix)
    planned = planned_by(parent, design=design, missing=missing)
    planned = replace(planned, searched_splits=searched_splits(client, parent))
    cells = planned.select(cells)
    headline = metric_of(parent, metric, cells)
    written = read_result(client, parent.info.run_id)
    is_study = written is not None and not isinstance(written, Evaluation)
    about = rewritten(written.about, headline) if is_study else recorded_about(client, parent)
    if is_running(parent):
        about = replace(about, notes=("The study has not finished: its command continues it.", *about.notes))
    column, mitigation = (about.source.given.get(name, "") for name in ("label_column", "mitigation"))
    planned = replace(planned, class_names=about.source.classes, label_column=column)
    planned = replace(planned, distinct_rows=rows_allowed(planned, mitigation or "none", cells))
    check_metric(cells, headline)
    finished = cells["status"].eq("FINISHED")

    wanted = read_predictions(client, cells[finished], scores=True, reference=True)
    with temporary_folder() as folder, closing(wanted) as tables:
        scored = score(
            cells,
            (next(tables)[1] if present else None for present in finished),
            metric=headline,
            planned=planned,
            agreement=agreement,
            table_file=folder / names.PREDICTIONS,
            interim_analyses=_looks(client, parent, headline, planned.design_of(cells).name),
        )
        scored = replace(scored, analysis=replace(scored.analysis, cells_deleted=deleted))
        predicted = read_predicted(scored.analysis, folder / names.PREDICTIONS, len(about.source.classes))
        numbers: dict[str, Any] = {"analysis": scored.analysis, "about": about, "predicted": predicted}
        evaluation = Evaluation(run_id=parent.info.run_id, cells=cells, **numbers)
        if log:
            write_result(folder, replace(written, **numbers) if is_study else evaluation)
            _write_scored(client, parent, cells, scored, folder, evaluation)
    return evaluation


def planned_by(parent: Run, *, design: str = "auto", missing: str = "auto") -> Planned:
    """Return the plan of a parent run: the given values, else the parameters that this package recorded.

    Parameters of a run of other code are ignored: they may mean something else.
    """
    ours = names.INVESTIGATION_KEY in parent.data.tags
    name = parent.data.tags.get(names.DESIGN, "crossed") if ours and design == "auto" else design
    recorded = {
        each: own_parameter(parent, each) if ours else None
        for each in (*_SIZES, "missing", "mitigation", "joint", "stop", "deterministic")
    }
    rows, columns, golden_runs = (int(text) if (text := recorded[name]) and text.isdigit() else None for name in _SIZES)
    return Planned(
        design=design_named(name) if (not ours and name != "auto") or name in registry.names("design") else None,
        rows=rows,
        columns=columns,
        golden_runs=golden_runs,
        pooled=recorded["golden_runs"] == "pooled",
        missing="reml" if (recorded["missing"] if missing == "auto" else missing) == "reml" else "anova",
        mitigated=(recorded["mitigation"] or "none") != "none",
        product=recorded["joint"] == "product",
        sequential=recorded["stop"] == "interval",
        deterministic=recorded["deterministic"] != "false",
    )


def rows_allowed(planned: Planned, mitigation: str, cells: pd.DataFrame) -> float:
    """Return how many rows the recorded mitigation strategies allow before one repeats; inf if there are none."""
    design, factors = planned.design_of(cells), drawn_factors(cells)
    if not (planned.mitigated and design.mitigates):
        return math.inf
    sets = {each.factor: each.configurations for each in parse_mitigation(mitigation, factors, design)}
    others = (set(factors).difference(factor_members(name, factors)) for name in cells["factor"].dropna().unique())
    return min((distinct_rows(sets, each) for each in others), default=math.inf)


def _looks(client: Client, parent: Run, metric: Metric, design: str) -> pd.DataFrame | None:
    """Return the interim analyses of our investigation; None without a rule, or for another metric or design."""
    rule, tags = own_parameter(parent, "stop") or "none", parent.data.tags
    is_same = (own_parameter(parent, "metric"), tags.get(names.DESIGN)) == (typed_name(metric), design)
    has_rule = names.INVESTIGATION_KEY in tags and rule != "none" and is_same
    if not has_rule or (document := fetch_document(client, parent.info.run_id, names.INTERIM_ANALYSES)) is None:
        return None
    looks = pd.DataFrame(document["data"], columns=document["columns"])
    return looks.astype(dict.fromkeys(["importance", "alpha", "low", "high", "change"], "float64"))


def metric_of(parent: Run, metric: str, cells: pd.DataFrame) -> Metric:
    """Return the metric that `metric` names; for ``auto`` the parent run's, ``f1_macro``, or the only one of the cells.

    Raises
    ------
    ParameterError
        If ``auto`` could mean several metrics.
    """
    recorded = own_parameter(parent, "metric") if metric == "auto" else metric
    if recorded not in (None, "auto"):
        return named(recorded)
    candidates = [name for name in _metrics(cells) if name != "duration_seconds"]
    if "f1_macro" in candidates or not candidates:
        return F1_MACRO
    likely = [name for name in candidates if name in registered()] or candidates
    if len(likely) > 1:
        fix = f'Name one of them: metric={likely[0]}; for the evaluator evaluator_config={{"metric": "{likely[0]}"}}.'
        raise ParameterError("metric", "auto", f"the cells have several, {', '.join(likely)}", fix)
    return named(likely[0])


def _metrics(cells: pd.DataFrame) -> list[str]:
    return [str(name) for name in cells if name not in _NOT_METRICS and not str(name).startswith(("factor.", "seed."))]


def check_metric(cells: pd.DataFrame, metric: Metric) -> None:
    """Raise a ParameterError if no cell has the metric, or a value lies outside its range."""
    check_names("metric", [metric.name], _metrics(cells), "one that the cells have:")
    low, high = metric.range
    scores = cells[metric.name]
    beyond = cells[(scores < low - 1e-9) | (scores > high + 1e-9)]
    if len(beyond):
        value, run_id = beyond[[metric.name, "run_id"]].iloc[0]
        fix = "Log fractions, not percent." if low == 0 and high == 1 < value <= 100 else ""
        allowed = f"must be between {low:g} and {high:g}; run {run_id} has {value:g}"
        raise ParameterError("metric", metric.name, allowed, fix)


def _write_scored(
    client: Client, run: Run, cells: pd.DataFrame, scored: Scored, folder: Path, evaluation: Evaluation
) -> None:
    """Write an analysis to its parent run: metrics (the path of consistency included), artifacts and tags.

    Files that `folder` already has become artifacts, too.
    """
    write_artifacts(folder, scored, cells, document={}, report=evaluation.report())
    # The step of the metrics of a finished parent is its number of rows.
    rows = max((record.table.shape[0] for record in scored.analysis.importances.values()), default=0)
    if design_named(scored.analysis.design).baseline:
        rows = planned_by(run).rows or 1
    steps = {**scored.consistency_steps}
    steps[rows] = {**steps.get(rows, {}), **scored.analysis.metrics()}
    parents.log_metrics(client, run.info.run_id, steps)
    tags = {
        names.SCHEMA_TAG: names.SCHEMA,
        names.METRIC: scored.analysis.metric.name,
        names.NOTE: evaluation.description(*links_in(run.data.tags.get(names.NOTE, ""))),
    }
    if names.INVESTIGATION_KEY not in run.data.tags:
        tags |= {
            names.ROLE: "investigation",
            names.FACTOR: ",".join(scored.analysis.importances),
            names.DESIGN: scored.analysis.design,
            names.STATE: "complete" if scored.analysis.cells_failed == 0 else "incomplete",
        }
    tables = [name for name in names.TABLES if (folder / name).exists()]
    parents.log_results(client, run.info.run_id, folder, tags, tables)


def rewritten(about: About, metric: Metric) -> About:
    """Return what the report of a study said in addition to its numbers, with the metric and the versions of now."""
    settings, source = dict(about.settings), about.source
    if settings.get("metric", name := typed_name(metric)) != name:
        settings["metric"] = name
        source = replace(source, given={**source.given, "metric": name})
    if settings.get("versions") != version_words():
        settings["evaluated with"] = version_words()
    return replace(about, source=source, settings=settings)


def recorded_about(
    client: Client, run: Run, parameters: Parameters = MAIN, document: Mapping[str, Any] | None = None
) -> About:
    """Return what a report says in addition to the numbers, as far as a run without a recorded result shows it.

    Parameters
    ----------
    client, run
        The server, and the parent.
    parameters
        Those of its command; given are those that are not at their defaults.
    document
        Its ``investigation.json``, if that was read already.
    """
    run_id = str(run.info.run_id)
    typed = {name: own_parameter(run, name) or "" for name in run.data.params if "." not in name}
    is_ours = names.INVESTIGATION_KEY in run.data.tags
    if document is None:
        document = known_document(client, run_id, names.INVESTIGATION) if is_ours else {}
    ours = (typed_parameters(document) or typed) if is_ours else {}
    chosen = {name: ours[name] for name in ours if name in parameters and ours[name] != parameters[name].default}
    source = replace(
        origin(client, str(run.info.experiment_id), run_id),
        task=chosen.get("task", ""),
        approach=ours.get("approach", ""),
        model=chosen.get("model", ""),
        given=chosen,
        classes=tuple(document.get("task", {}).get("classes", ())),
        lists=lists_in(document.get("hyperparameters", {})),
        root_seed=ours.get("root_seed", ""),
        is_typed=is_typed(ours),
        whole=(kept_whole(run.data.tags.get(names.CONTEXT_KEY)),),
    )
    return About(
        title=run.info.run_name or run_id,
        source=source,
        notes=("Evaluated from the runs on the tracking server.",),
        settings={**heading(run_id), **typed, "evaluated with": version_words()},
    )


def typed_parameters(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the typed parameters in the document of a study; of several factors also their design."""
    typed = dict(document.get("parameters", {}))
    return {**typed, "design": document["design"]["name"]} if len(document.get("factors", ())) > 1 else typed
