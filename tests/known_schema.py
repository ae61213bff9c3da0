"""What MLflow's stores of one process have in common, done once: each test has a store of its own."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from mlflow.store.db import utils
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
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: Any, _: Any) -> None:
    """Do for a connection what MLflow does at the beginning of each of its sessions."""
    for pragma in ("foreign_keys = ON", "busy_timeout = 20000", "case_sensitive_like = true"):
        connection.execute(f"PRAGMA {pragma}")


def _session_maker(make: Any, _: str) -> Callable[..., Any]:
    """Return a maker of sessions that are prepared, and whose reads MLflow does not watch, as it does in tests."""
    managed = _make_session_maker(make, "prepared")
    unwatched = {"read_only": False} if "read_only" in signature(managed).parameters else {}
    return lambda **_: managed(**unwatched)


utils.create_sqlalchemy_engine, utils._get_managed_session_maker = _engine, _session_maker
SQLiteDialect_pysqlite.__eq__ = lambda self, other: type(self) is type(other)
SQLiteDialect_pysqlite.__hash__ = lambda self: hash(type(self))
