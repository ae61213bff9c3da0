"""The revision of MLflow's tables, read once a process: MLflow loads dozens of scripts for it at every new store."""

from __future__ import annotations

from mlflow.store.db import utils

_REVISION = utils._get_latest_schema_revision()
utils._get_latest_schema_revision = lambda: _REVISION
