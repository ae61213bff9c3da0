"""What MLflow's stores of one process have in common, done once: each test has a store of its own."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import direct_store  # noqa: F401 - for the same stores
from mlflow.store.db import utils
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from sqlalchemy import Engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
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
    """Do for a connection what MLflow does at the beginning of each of its sessions, and do not wait for the disk."""
    quick = "journal_mode = TRUNCATE", "synchronous = OFF"
    for pragma in ("foreign_keys = ON", "busy_timeout = 20000", "case_sensitive_like = true", *quick):
        connection.execute(f"PRAGMA {pragma}")


def _session_maker(make: Any, _: str) -> Callable[..., Any]:
    """Return a maker of sessions that are prepared, and whose reads MLflow does not watch, as it does in tests."""
    managed = _make_session_maker(make, "prepared")
    unwatched = {"read_only": False} if "read_only" in signature(managed).parameters else {}
    return lambda **_: managed(**unwatched)


_read_inputs = SqlAlchemyStore._get_run_inputs


def _inputs(store: SqlAlchemyStore, session: Any, run_uuids: list[str]) -> list[list[Any]]:
    """Read the data sets of runs that have any: MLflow asks for them by a join."""
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
# The tags of an experiment are read by its own query, which is compiled once: MLflow's joins take as long as the rest.
SqlAlchemyStore._get_eager_experiment_query_options = staticmethod(list)
SQLiteDialect_pysqlite.__eq__ = lambda self, other: type(self) is type(other)
SQLiteDialect_pysqlite.__hash__ = lambda self: hash(type(self))
