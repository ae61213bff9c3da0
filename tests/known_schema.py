"""What MLflow's stores of one process have in common, found once: each test has a store of its own."""

from __future__ import annotations

from typing import Any

from mlflow.store.db import utils
from sqlalchemy import Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

# MLflow loads dozens of scripts for it at every new store.
_REVISION = utils._get_latest_schema_revision()
utils._get_latest_schema_revision = lambda: _REVISION

# SQLAlchemy compiles the same statements for every new store, since its dialects are compared by identity.
_STATEMENTS: LRUCache[Any, Any] = LRUCache(2000)
_make_engine = utils.create_sqlalchemy_engine


def _engine_with_known_statements(uri: str) -> Engine:
    engine = _make_engine(uri)
    engine.update_execution_options(compiled_cache=_STATEMENTS)
    return engine


utils.create_sqlalchemy_engine = _engine_with_known_statements
SQLiteDialect_pysqlite.__eq__ = lambda self, other: type(self) is type(other)
SQLiteDialect_pysqlite.__hash__ = lambda self: hash(type(self))
