"""Score an existing parent run, ours or a stranger's, from what the tracking server holds."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.ledger import names
from mlflow_l3d.ledger import parent as parents
from mlflow_l3d.ledger.children import search
from mlflow_l3d.ledger.connection import connect, own_settings
from mlflow_l3d.ledger.reader import read_investigation, read_predictions
from mlflow_l3d.scoring import Scored, description, order, score, tables, write_artifacts

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


def evaluate(
    parent_run_id: str = "latest", *, where: str = "none", metric: str = "auto", log: bool = True
) -> Evaluation:
    """Recompute importance and consistency of a parent from its children, and write them to it.

    Parameters
    ----------
    parent_run_id
        Any run whose children carry the tags of a cell: ``l3d.role`` = ``cell``, ``l3d.phase``, and ``l3d.factor``,
        ``l3d.row``, ``l3d.column`` (golden: ``l3d.index``). ``latest``: the current experiment's latest investigation.
    where
        An MLflow filter; cells are then the runs that it finds in the parent's experiment.
    metric
        The metric whose spread is investigated; ``auto`` is the parent's own parameter, or ``f1_macro``.
    log
        Whether to write metrics and artifacts to the parent.

    Raises
    ------
    L3DError
        With one line that says what is missing.
    """
    with own_settings():
        client = connect()
        run_id = _latest(client) if parent_run_id == "latest" else parent_run_id
        recorded = read_investigation(run_id, client, where="" if where == "none" else where)
        cells = order(recorded.cells)
        if metric == "auto":
            metric = _parameter(recorded.parent, "metric") or "f1_macro"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            table_file = folder / names.PREDICTIONS
            scored = score_cells(client, cells, metric=metric, parent=recorded.parent, table_file=table_file)
            if log:
                write_scored(client, recorded.parent, cells, scored, folder)
    return Evaluation(run_id, scored.analysis)


def score_cells(
    client: MlflowClient, cells: pd.DataFrame, *, metric: str, parent: Run, table_file: Path | None = None
) -> Scored:
    """Score cells that are runs on a tracking server; nothing is written to it.

    Parameters
    ----------
    client
        Where the predictions are.
    cells
        As :class:`mlflow_l3d.ledger.reader.Recorded` has them, in the order of :func:`mlflow_l3d.scoring.order`.
    metric
        The metric whose spread is investigated.
    parent
        Its parameters say how large the planned design is, where it is one of ours.
    table_file
        Where to write all predictions as one table.
    """
    check_metric(cells, metric)
    finished = cells["status"].eq("FINISHED")
    frames = read_predictions(client, cells.loc[finished, "run_id"].tolist())
    return score(
        cells,
        _spread(finished.tolist(), tables(frames)),
        metric=metric,
        rows=_planned(parent, "mitigation_runs"),
        columns=_planned(parent, "investigation_runs"),
        golden_runs=_planned(parent, "golden_runs"),
        table_file=table_file,
    )


def score_frame(cells: pd.DataFrame, *, metric: str = "score") -> Analysis:
    """Score a data frame of cells that never were MLflow runs.

    Parameters
    ----------
    cells
        One row a cell. Columns: ``phase`` (``investigation`` or ``golden``), ``row``, ``column``, and `metric`;
        optional ``index`` (golden runs are numbered as they stand, else), ``factor`` (one factor, else) and
        ``predictions``: for each cell a frame with ``example_id``, ``label`` and ``prediction``, or None.
    metric
        The column of scores, fractions (0..1).

    Raises
    ------
    ParameterError
        If a column is missing.
    """
    for column in ("phase", "row", "column", metric):
        if column not in cells:
            raise unknown_name("column", column, map(str, cells.columns), "present in the frame, which has")
    frame = cells.copy()
    golden = frame["phase"].eq("golden")
    if "factor" not in frame:
        frame["factor"] = None
        frame.loc[~golden, "factor"] = "factor"
    if "index" not in frame:
        frame["index"] = golden.cumsum().sub(1).where(golden)
    frame = order(frame)
    given = frame["predictions"].tolist() if "predictions" in frame else None
    frame = frame.drop(columns="predictions", errors="ignore")
    predictions = None if given is None else tables((str(at), table) for at, table in enumerate(given))
    return score(frame, predictions, metric=metric).analysis


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
        One row a cell, in the order of :func:`mlflow_l3d.scoring.order`.
    scored
        What was computed.
    folder
        A folder whose files become artifacts of the run, beside those that are written here.
    """
    from mlflow.entities import Metric

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
    rows = max((record.table.shape[0] for record in importances.values()), default=0)
    steps = {**scored.consistency_steps}
    steps[rows] = {**steps.get(rows, {}), **scored.analysis.metrics()}
    now = int(time.time() * 1000)
    batch = [Metric(name, value, now, step) for step in sorted(steps) for name, value in steps[step].items()]
    for start in range(0, len(batch), 1000):
        client.log_batch(run.info.run_id, metrics=batch[start : start + 1000])
    client.log_artifacts(run.info.run_id, str(folder))
    logged = json.loads(run.data.tags.get(names.LOGGED_ARTIFACTS, "[]"))
    table = {"path": names.CELLS_TABLE, "type": "table"}
    tags = {
        names.SCHEMA_TAG: names.SCHEMA,
        names.LOGGED_ARTIFACTS: json.dumps(logged if table in logged else [*logged, table]),
        names.NOTE: description(scored.analysis),
    }
    if names.INVESTIGATION_KEY not in run.data.tags:
        tags |= {
            names.ROLE: "investigation",
            names.FACTOR: ",".join(importances),
            names.DESIGN: "crossed",
            names.STATE: "complete" if scored.analysis.cells_failed == 0 else "incomplete",
        }
    parents.set_tags(client, run.info.run_id, tags)


def _spread(finished: Sequence[bool], found: Iterator[pa.Table | None]) -> Iterator[pa.Table | None]:
    for present in finished:
        yield next(found) if present else None


def _latest(client: MlflowClient) -> str:
    experiment_id = parents.current_experiment_id(client)
    condition = f"tags.`{names.ROLE}` = 'investigation'"
    runs = [run for run in search(client, [experiment_id], condition) if names.SUPERSEDED_BY not in run.data.tags]
    if not runs:
        raise ParameterError(
            "parent_run_id", "latest", "there is no investigation in this experiment", "Name the parent run."
        )
    return str(runs[-1].info.run_id)


def _parameter(parent: Run, name: str) -> str | None:
    params: Mapping[str, Any] = parent.data.params
    value = params.get(f"resolved.{name}", params.get(name))
    return None if value is None else str(value).strip("'\"")


def _planned(parent: Run, name: str) -> int | None:
    """Return a size of the planned design of one of our own parents; a stranger's parameters are not trusted."""
    if names.INVESTIGATION_KEY not in parent.data.tags:
        return None
    value = _parameter(parent, name)
    return int(value) if value and value.isdigit() else None


def delete(parent_run_id: str) -> int:
    """Delete a parent and its children (MLflow keeps deleted runs until its own `mlflow gc`); return how many runs.

    Raises
    ------
    ParameterError
        If there is no such run.
    L3DError
        If it is not a parent of cells.
    """
    with own_settings():
        client = connect()
        from mlflow.exceptions import MlflowException

        from mlflow_l3d.ledger.children import children_of

        try:
            parent = client.get_run(parent_run_id)
        except MlflowException as error:
            raise ParameterError("parent_run_id", parent_run_id, "no such run on the tracking server") from error
        if parent.data.tags.get(names.ROLE) != "investigation":
            msg = f"parent_run_id={parent_run_id}: is not the parent of an investigation; nothing was deleted."
            raise L3DError(msg)
        children = list(children_of(client, str(parent.info.experiment_id), parent_run_id))
        for run in (*children, parent):
            client.delete_run(run.info.run_id)
    return len(children) + 1
