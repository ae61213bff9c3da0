"""What MLflow's stores of one process have in common, done once: each test has a store of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from inspect import signature
from types import SimpleNamespace
from typing import Any

from mlflow.store.db import utils
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from sqlalchemy import Engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.util import LRUCache

# MLflow loads dozens of scripts for it at every new store.
_REVISION = utils._get_latest_schema_revision()
utils._get_latest_schema_revision = lambda: _REVISION

_STATEMENTS: LRUCache[Any, Any] = LRUCache(2000)
"""What SQLAlchemy compiled; it compiles the same for every new store, since it compares dialects by identity."""
_make_engine, _make_session_maker = utils.create_sqlalchemy_engine, utils._get_managed_session_maker


def _engine(uri: str) -> Engine:
    engine = _make_engine(uri)
    engine.update_execution_options(compiled_cache=_STATEMENTS)
    engine.pool._pre_ping = False  # a file is there
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: Any, _: Any) -> None:
    """Do for a connection what MLflow does at the beginning of each of its sessions."""
    for pragma in ("foreign_keys = ON", "busy_timeout = 20000", "case_sensitive_like = true"):
        connection.execute(f"PRAGMA {pragma}")


def _session_maker(make: Any, _: str) -> Callable[..., Any]:
    """Return a maker of sessions that are prepared, and whose reads MLflow does not watch, as it does in tests."""
    make.class_.add_all = _add_all
    managed = _make_session_maker(make, "prepared")
    unwatched = {"read_only": False} if "read_only" in signature(managed).parameters else {}
    return lambda **_: managed(**unwatched)


def _add_all(session: Session, rows: Iterable[Any]) -> None:
    """Insert new parameters and metrics, of which nothing else of a session knows, in one statement of their own."""
    rows = [*rows]
    if rows and {*map(type, rows)} <= {SqlParam, SqlMetric, SqlLatestMetric}:
        session.bulk_save_objects(rows)
    else:
        Session.add_all(session, rows)


_CALL: ContextVar[str] = ContextVar("call of the store", default="")
_read_experiment, _read_run = SqlAlchemyStore.get_experiment, SqlRun.to_mlflow_entity


def _known(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of the store during which others know that it called them."""

    def known(store: SqlAlchemyStore, *given: Any, **named: Any) -> Any:
        token = _CALL.set(name)
        try:
            return call(store, *given, **named)
        finally:
            _CALL.reset(token)

    return known


def _experiment(store: SqlAlchemyStore, experiment_id: Any) -> Any:
    """Read of an experiment only what a new run asks for: its place, and whether it is active."""
    if _CALL.get() == "create_run" and str(experiment_id).isdecimal():
        columns = "experiment_id, lifecycle_stage, artifact_location"
        query = f"SELECT {columns} FROM experiments WHERE experiment_id = ?"
        with store.ManagedSessionMaker() as session:
            row = session.connection().exec_driver_sql(query, (int(experiment_id),)).one_or_none()
        if row is not None:
            return SimpleNamespace(**row._mapping)
    return _read_experiment(store, experiment_id)


def _run(run: SqlRun) -> Any:
    """Read no data of a run whose state changes: MLflow gives back what else it knows of the run, and not these."""
    if _CALL.get() == "update_run_info" and run.name:
        for name in ("params", "latest_metrics", *(() if "tags" in run.__dict__ else ("tags",))):
            set_committed_value(run, name, [])
    return _read_run(run)


_read_inputs = SqlAlchemyStore._get_run_inputs


def _inputs(store: SqlAlchemyStore, session: Any, run_uuids: list[str]) -> list[list[Any]]:
    """Read the data sets of runs that have any: MLflow does so with each new run, too, which has none, by a join."""
    if _CALL.get() == "create_run":
        return [[] for _ in run_uuids]
    session.flush()
    own = f"SELECT EXISTS (SELECT 1 FROM inputs WHERE destination_id IN ({', '.join('?' * len(run_uuids))}))"
    some = session.connection().exec_driver_sql(own, tuple(run_uuids)).scalar()
    return _read_inputs(store, session, run_uuids) if some else [[] for _ in run_uuids]


def _if_there(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reader of a run's models that asks the ORM only for a run that has some: MLflow does so at each read."""
    some = "SELECT EXISTS (SELECT 1 FROM inputs WHERE source_type IN ('RUN_INPUT', 'RUN_OUTPUT') AND source_id = ?)"

    def models(store: SqlAlchemyStore, run_id: str, session: Any) -> Any:
        session.flush()
        return read(store, run_id, session) if session.connection().exec_driver_sql(some, (run_id,)).scalar() else []

    return models


for _name in {"_get_model_inputs", "_get_model_outputs"} & set(vars(SqlAlchemyStore)):
    setattr(SqlAlchemyStore, _name, _if_there(getattr(SqlAlchemyStore, _name)))
utils.create_sqlalchemy_engine, utils._get_managed_session_maker = _engine, _session_maker
SqlAlchemyStore._get_run_inputs = _inputs
SqlAlchemyStore.get_experiment, SqlRun.to_mlflow_entity = _experiment, _run
for _name in ("create_run", "update_run_info"):
    setattr(SqlAlchemyStore, _name, _known(_name, getattr(SqlAlchemyStore, _name)))
SQLiteDialect_pysqlite.__eq__ = lambda self, other: type(self) is type(other)
SQLiteDialect_pysqlite.__hash__ = lambda self: hash(type(self))
