"""MLflow's most frequent calls of a store, in a few statements each; what these cannot do, or find wrong, it does.

With ``L3D_TEST_STORE=mlflow`` it does everything.
"""

import math
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from mlflow.entities import Metric, Param, Run, RunData, RunInfo, RunInputs, RunOutputs, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.utils import validation
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from mlflow.utils.uri import append_to_uri_path
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

_COLUMNS = {  # of the table of runs, by what MLflow calls them elsewhere
    "run_id": "run_uuid",
    "run_name": "name",
    **{name: name for name in ("experiment_id", "user_id", "status", "start_time", "end_time", "lifecycle_stage")},
    "artifact_uri": "artifact_uri",
}
_REPLACE = "ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value"
_IF_LATER = (
    f"{_REPLACE}, step = excluded.step, timestamp = excluded.timestamp, is_nan = excluded.is_nan"
    " WHERE (excluded.step, excluded.timestamp, excluded.value) > (step, timestamp, value)"
)


class NotDirectError(Exception):
    """MLflow has to do this."""


def create_run(
    store: SqlAlchemyStore, experiment_id: Any, user_id: str, start_time: int, tags: list[RunTag], run_name: str | None
) -> Run:
    """Write a new run that has a name."""
    tags = [*(tags or [])]
    names = {tag.value for tag in tags if tag.key == MLFLOW_RUN_NAME}
    if not names:
        tags.append(RunTag(MLFLOW_RUN_NAME, run_name))
    names |= {run_name or None} - {None}
    with store.engine.begin() as connection:
        query = "SELECT artifact_location FROM experiments WHERE experiment_id = ? AND lifecycle_stage = 'active'"
        place = connection.exec_driver_sql(query, (str(experiment_id),)).scalar()
        if place is None or len(names) != 1:
            raise NotDirectError
        run_id = uuid.uuid4().hex
        info = {"run_id": run_id, "run_name": names.pop(), "experiment_id": str(experiment_id), "user_id": user_id}
        info |= {"status": "RUNNING", "start_time": start_time, "end_time": None, "lifecycle_stage": "active"}
        info["artifact_uri"] = append_to_uri_path(place, run_id, SqlAlchemyStore.ARTIFACTS_FOLDER_NAME)
        unused = {"source_type": "UNKNOWN", "source_name": "", "entry_point_name": "", "source_version": ""}
        _insert(connection, "runs", [{_COLUMNS[name]: value for name, value in info.items()} | unused])
        _insert(connection, "tags", _rows(run_id, tags))
    return Run(RunInfo(**info), RunData(tags=tags), RunInputs(dataset_inputs=[]))


def update_run_info(
    store: SqlAlchemyStore, run_id: str, run_status: int | None, end_time: int | None, run_name: str | None
) -> RunInfo:
    """Change the state or the name of a run."""
    with store.engine.begin() as connection:
        info = _active_run(connection, run_id)
        status = None if run_status is None else RunStatus.to_string(run_status)
        changed = {"status": status, "end_time": end_time, "run_name": run_name or None}
        info |= {name: value for name, value in changed.items() if value is not None}
        query = "UPDATE runs SET status = :status, end_time = :end_time, name = :run_name WHERE run_uuid = :run_id"
        connection.exec_driver_sql(query, info)
        _set_tags(connection, run_id, [RunTag(MLFLOW_RUN_NAME, run_name)] if run_name else [])
    return RunInfo(**info)


def log_batch(
    store: SqlAlchemyStore, run_id: str, metrics: list[Metric], params: list[Param], tags: list[RunTag]
) -> None:
    """Write new parameters and metrics, and tags: as MLflow does, in one transaction after another."""
    metrics, params, tags = validation._validate_batch_log_data(metrics, params, tags)
    validation._validate_batch_log_limits(metrics, params, tags)
    if any(tag.key == MLFLOW_RUN_NAME for tag in tags) or any(metric.model_id for metric in metrics):
        raise NotDirectError
    rows, latest = [], {}
    for metric in metrics:
        is_nan, value = store.sanitize_metric_value(metric.value)
        moment = {"step": metric.step, "timestamp": metric.timestamp, "value": value}
        rows.append({"run_uuid": run_id, "key": metric.key, **moment, "is_nan": is_nan})
        if metric.key not in latest or [*moment.values()] > [latest[metric.key][name] for name in moment]:
            latest[metric.key] = rows[-1]
    with store.engine.connect() as connection:
        with connection.begin():
            _active_run(connection, run_id)
            _insert(connection, "params", _rows(run_id, params))
        with connection.begin():
            _insert(connection, "metrics", rows)
            _insert(connection, "latest_metrics", [*latest.values()], _IF_LATER)
        with connection.begin():
            _set_tags(connection, run_id, tags)


def get_run(store: SqlAlchemyStore, run_id: str) -> Run:
    """Read a run that has no models."""
    with store.ManagedSessionMaker() as session:
        connection = session.connection()
        info = _run_info(connection, run_id)
        if connection.exec_driver_sql("SELECT EXISTS (SELECT 1 FROM inputs WHERE source_id = ?)", (run_id,)).scalar():
            raise NotDirectError
        data_sets = store._get_run_inputs(session, [run_id])[0]
        wanted = {"params": "key, value", "tags": "key, value", "latest_metrics": "key, value, timestamp, step, is_nan"}
        params, tags, metrics = (
            connection.exec_driver_sql(f"SELECT {columns} FROM {table} WHERE run_uuid = ?", (run_id,)).all()
            for table, columns in wanted.items()
        )
    values = [Metric(key, math.nan if is_nan else value, *moment) for key, value, *moment, is_nan in metrics]
    data = RunData(values, [Param(*row) for row in params], [RunTag(*row) for row in tags])
    return Run(RunInfo(**info), data, RunInputs(dataset_inputs=data_sets, model_inputs=[]), RunOutputs([]))


def _run_info(connection: Connection, run_id: str) -> dict[str, Any]:
    """Return what is known of a run that has a name."""
    query = f"SELECT {', '.join(_COLUMNS.values())} FROM runs WHERE run_uuid = ?"
    row = connection.exec_driver_sql(query, (run_id,)).one_or_none()
    if row is None or not row.name:
        raise NotDirectError
    return {**dict(zip(_COLUMNS, row, strict=True)), "experiment_id": str(row.experiment_id)}


def _active_run(connection: Connection, run_id: str) -> dict[str, Any]:
    """Return the same of a run that may be changed."""
    info = _run_info(connection, run_id)
    if info["lifecycle_stage"] != "active":
        raise NotDirectError
    return info


def _set_tags(connection: Connection, run_id: str, tags: Iterable[RunTag]) -> None:
    _insert(connection, "tags", _rows(run_id, tags), _REPLACE)


def _rows(run_id: str, values: Iterable[Param | RunTag]) -> list[dict[str, Any]]:
    return [{"run_uuid": run_id, "key": value.key, "value": value.value} for value in values]


def _insert(connection: Connection, table: str, rows: Sequence[dict[str, Any]], conflict: str = "") -> None:
    """Insert all rows, or none; they have the same columns."""
    if rows:
        columns = ", ".join(rows[0])
        values = ", ".join(f":{name}" for name in rows[0])
        connection.exec_driver_sql(f"INSERT INTO {table} ({columns}) VALUES ({values}) {conflict}", rows)


def _direct(call: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does it directly where that is possible, and as MLflow does elsewhere."""

    @wraps(whole)
    def direct(store: SqlAlchemyStore, *given: Any, **named: Any) -> Any:
        if type(store) is SqlAlchemyStore:
            try:
                return call(store, *given, **named)
            except (NotDirectError, MlflowException, SQLAlchemyError):
                pass
        return whole(store, *given, **named)

    return direct


for _call in () if os.environ.get("L3D_TEST_STORE") == "mlflow" else (create_run, update_run_info, log_batch, get_run):
    setattr(SqlAlchemyStore, _call.__name__, _direct(_call, getattr(SqlAlchemyStore, _call.__name__)))
