"""Score an existing parent run, ours or a stranger's, from what the tracking server holds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.analysis.importance.reml import MISSING
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import Planned
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.studies.investigation.artifacts import description, write_artifacts
from mlflow_l3d.studies.investigation.scoring import Scored, score, tables
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.connection import connect, own_settings
from mlflow_l3d.tracking.past import latest_investigation, own_parameter, searched_splits
from mlflow_l3d.tracking.reader import read_investigation, read_predictions

if TYPE_CHECKING:
    import pyarrow as pa
    from mlflow import MlflowClient
    from mlflow.entities import Run

_NOT_METRICS = {*names.COORDINATES, "run_id", "cell_key", "status", "artifact_uri", "experiment_id", "predictions"}


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate` found.

    Attributes
    ----------
    run_id
        The parent run.
    analysis
        Importance, consistency and checks.
    """

    run_id: str
    analysis: Analysis

    def summary(self) -> str:
        """Return the text that the command line prints."""
        from mlflow_l3d.report.investigation.terminal import summary

        return summary(self.analysis, title=f"evaluation of run {self.run_id}")


def evaluate(
    parent_run_id: str = "latest",
    *,
    where: str = "none",
    metric: str = "auto",
    design: str = "auto",
    missing: str = "auto",
    agreement: str = "auto",
    log: bool = True,
) -> Evaluation:
    """Recompute importance and consistency of a parent from its children, and write them to it.

    Parameters
    ----------
    parent_run_id
        Any run whose children carry the tags of a cell: ``l3d.role`` = ``cell``, ``l3d.phase``, and ``l3d.factor``,
        ``l3d.row``, ``l3d.column`` (golden: ``l3d.index``; base and swap: no column). ``latest``: the current
        experiment's latest investigation.
    where
        An MLflow filter; cells are then the runs that it finds in the parent's experiment.
    metric
        The metric whose spread is investigated; ``auto`` is the parent's own parameter, or ``f1_macro``.
    design
        Name of the design; ``auto`` is the parent's own, or else the one whose phases the cells have (``radial`` where
        there are base and swap runs), and ``crossed`` where none has.
    missing
        ``drop`` or ``reml``, as in `main`; ``auto`` is the parent's own, or ``drop``.
    agreement
        How predictions are compared: ``auto`` takes whole numbers as class numbers, other numbers as regression, and
        texts by ``exact_match``; or ``regression``, or a scoring function such as ``rougeL``
        (:func:`mlflow_l3d.analysis.stability.agreement.choice.choose`).
    log
        Whether to write metrics and artifacts to the parent.

    Raises
    ------
    L3DError
        With one line that says what is missing.
    """
    for name, value, known in (("design", design, registry.names("design")), ("missing", missing, MISSING)):
        if value not in ("auto", *known):
            raise unknown_name(name, value, ("auto", *known))
    with own_settings():
        client = connect()
        run_id = latest_investigation(client) if parent_run_id == "latest" else parent_run_id
        recorded = read_investigation(run_id, client, where="" if where == "none" else where)
        if log:
            _check_writable(recorded.parent)
        planned = planned_by(recorded.parent, design=design, missing=missing)
        planned = replace(planned, searched_splits=searched_splits(client, recorded.parent))
        cells = planned.select(recorded.cells)
        if metric == "auto":
            metric = own_parameter(recorded.parent, "metric") or "f1_macro"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            table_file = folder / names.PREDICTIONS
            scored = score_cells(
                client, cells, metric=metric, planned=planned, agreement=agreement, table_file=table_file
            )
            if log:
                write_scored(client, recorded.parent, cells, scored, folder)
    return Evaluation(run_id, scored.analysis)


def score_cells(
    client: MlflowClient,
    cells: pd.DataFrame,
    *,
    metric: str,
    planned: Planned,
    agreement: str = "auto",
    table_file: Path | None = None,
) -> Scored:
    """Score cells that are runs on a tracking server; nothing is written to it.

    Parameters
    ----------
    client
        Where the predictions are.
    cells
        As :class:`mlflow_l3d.tracking.reader.Recorded` has them, as
        :meth:`mlflow_l3d.designs.analyse.Planned.select` returns them.
    metric
        The metric whose spread is investigated.
    planned
        What is known of the plan, see :func:`planned_by`; no cell may lie beyond it.
    agreement
        As for :func:`evaluate`.
    table_file
        Where to write all predictions as one table.
    """
    check_metric(cells, metric)
    finished = cells["status"].eq("FINISHED")
    with closing(read_predictions(client, cells.loc[finished, "run_id"].tolist())) as frames:
        return score(
            cells,
            _spread(finished.tolist(), tables(frames)),
            metric=metric,
            planned=planned,
            agreement=agreement,
            table_file=table_file,
        )


def planned_by(parent: Run, *, design: str = "auto", missing: str = "auto") -> Planned:
    """Return the plan behind a parent: what is given, else what one of our own says of itself.

    A stranger's parameters are not trusted: they may mean something else.
    """
    if names.INVESTIGATION_KEY not in parent.data.tags:
        return Planned(
            design=None if design == "auto" else design_named(design),
            missing="reml" if missing == "reml" else "drop",
        )
    own_design = parent.data.tags.get(names.DESIGN, "crossed")
    name = own_design if design == "auto" else design
    own_missing = own_parameter(parent, "missing") if missing == "auto" else missing
    return Planned(
        design=design_named(name) if name in registry.names("design") else None,
        rows=_planned(parent, "mitigation_runs"),
        columns=_planned(parent, "investigation_runs"),
        golden_runs=_planned(parent, "golden_runs"),
        pooled=own_parameter(parent, "golden_runs") == "pooled",
        missing="reml" if own_missing == "reml" else "drop",
        mitigated=(own_parameter(parent, "mitigation") or "none") != "none",
        product=own_parameter(parent, "joint") == "product",
    )


def check_metric(cells: pd.DataFrame, metric: str) -> None:
    """Raise a ParameterError where no cell has the metric."""
    found = [str(name) for name in cells if name not in _NOT_METRICS and not str(name).startswith(("factor.", "seed."))]
    if metric not in found:
        raise unknown_name("metric", metric, found, "one that the cells have:")


def write_scored(client: MlflowClient, run: Run, cells: pd.DataFrame, scored: Scored, folder: Path) -> None:
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
    _check_writable(run)
    write_artifacts(
        folder,
        scored,
        cells,
        document={},
        settings={name: value for name, value in run.data.params.items() if "." not in name},
        title=run.info.run_name or run.info.run_id,
        notes=["Evaluated from the runs on the tracking server."],
    )
    importances = scored.analysis.importances
    rows = last_step(scored.analysis, run)
    steps = {**scored.consistency_steps}
    steps[rows] = {**steps.get(rows, {}), **scored.analysis.metrics()}
    parents.log_metrics(client, run.info.run_id, steps)
    client.log_artifacts(run.info.run_id, str(folder))
    logged = json.loads(run.data.tags.get(names.LOGGED_ARTIFACTS, "[]"))
    written = [{"path": name, "type": "table"} for name in names.TABLES if (folder / name).exists()]
    tags = {
        names.SCHEMA_TAG: names.SCHEMA,
        names.LOGGED_ARTIFACTS: json.dumps([*logged, *(table for table in written if table not in logged)]),
        names.NOTE: description(scored.analysis),
    }
    if names.INVESTIGATION_KEY not in run.data.tags:
        tags |= {
            names.ROLE: "investigation",
            names.FACTOR: ",".join(importances),
            names.DESIGN: scored.analysis.design,
            names.STATE: "complete" if scored.analysis.cells_failed == 0 else "incomplete",
        }
    parents.set_tags(client, run.info.run_id, tags)


def _check_writable(parent: Run) -> None:
    """Raise for a parent whose own report and numbers an analysis of factors would overwrite."""
    if parent.data.tags.get(names.DESIGN) == "seeds":
        fix = "Use mlflow-l3d evaluate, or mlflow_l3d.evaluate."
        raise ParameterError("parent_run_id", parent.info.run_id, "is a study of seeds, not of factors", fix)


def last_step(analysis: Analysis, parent: Run) -> int:
    """Return the step at which the numbers of a finished parent stand: its rows, or what takes their place."""
    if design_named(analysis.design).baseline:
        return _planned(parent, "mitigation_runs") or 1
    return max((record.table.shape[0] for record in analysis.importances.values()), default=0)


def _spread(finished: Sequence[bool], found: Iterator[pa.Table | None]) -> Iterator[pa.Table | None]:
    for present in finished:
        yield next(found) if present else None


def _planned(parent: Run, name: str) -> int | None:
    """Return a size of the planned design; None for a stranger, whose parameters may mean something else."""
    if names.INVESTIGATION_KEY not in parent.data.tags:
        return None
    value = own_parameter(parent, name)
    return int(value) if value and value.isdigit() else None
