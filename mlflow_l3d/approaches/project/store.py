"""A tracking store of one run, for one run of a project: what the project logs there is read and handed on.

MLflow needs seconds for an empty SQLite store. One is made with the MLflow of the project's environment (its schema
equals that of its version) and kept; a run gets a copy, which takes a millisecond. The tables that are read and changed
equal those of MLflow 1 to 3; importing MLflow in every worker would take longer than most of what is done here.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.approaches.command.template import run
from mlflow_l3d.approaches.command.written import warn_once
from mlflow_l3d.cells.cell import Logged
from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import cache_folder, private_folder
from mlflow_l3d.privacy import public_value

STORE: Final = "mlflow.db"
LEFT_OUT: Final = "artifacts_left_out"
"""Tag that names artifacts above the limit."""
_OURS: Final = ("mlflow.", "l3d.")
_MAKE: Final = """
import sys
from mlflow import MlflowClient
client = MlflowClient("sqlite:///" + sys.argv[1])
client.create_run(client.create_experiment("project"))
"""

_LAST_METRICS: Final = """SELECT key, value, max(is_nan), count(DISTINCT value) FROM latest_metrics JOIN runs
USING (run_uuid) WHERE run_uuid NOT IN (SELECT run_uuid FROM tags WHERE key = 'mlflow.parentRunId')
GROUP BY key ORDER BY start_time, timestamp, key"""
_LAST_STATUS: Final = """SELECT status FROM runs WHERE run_uuid NOT IN
(SELECT run_uuid FROM tags WHERE key = 'mlflow.parentRunId') AND lifecycle_stage = 'active'
ORDER BY start_time DESC LIMIT 1"""


def template(kept: Path, environment: Mapping[str, str]) -> Path:
    """Return a store with one run, made in an environment if it is not kept already.

    Raises
    ------
    L3DError
        If the environment has no MLflow.
    """
    if not kept.is_file():
        private_folder(kept.parent)
        partial = kept.with_name(f".{kept.name}.{id(kept)}.tmp")
        try:
            run(["python", "-c", _MAKE, str(partial)], kept.parent, environment)
        except L3DError as error:
            raise L3DError(f"the project's environment cannot make a tracking store: {error}") from None
        partial.replace(kept)
    return kept


def fresh(template: Path, folder: Path, artifacts: Path, experiment: str = "") -> dict[str, str]:
    """Copy a store to a folder, with its artifacts in another; return the variables that lead a project there.

    MLflow refuses a project that sets another experiment than that of its run: `experiment` is the name that it sets.
    """
    store = folder / STORE
    shutil.copyfile(template, store)
    with closing(sqlite3.connect(store)) as tables, tables:
        ((run_id, experiment_id),) = tables.execute("SELECT run_uuid, experiment_id FROM runs").fetchall()
        tables.execute("UPDATE runs SET artifact_uri = ?", (artifacts.as_uri(),))
        tables.execute("UPDATE experiments SET artifact_location = ?", ((folder / "more").as_uri(),))
        if experiment:
            tables.execute("UPDATE experiments SET name = ? WHERE experiment_id = ?", (experiment, experiment_id))
    return {
        "MLFLOW_TRACKING_URI": f"sqlite:///{store}",
        "MLFLOW_RUN_ID": str(run_id),
        "MLFLOW_EXPERIMENT_ID": str(experiment_id),
    }


def _check_ended(statuses: list[Any], what: str) -> None:
    if statuses and (status := statuses[0][0]) in {"FAILED", "KILLED"}:
        fix = "If it calls sys.exit, do so after mlflow.start_run."  # before its end, MLflow treats it as an error
        raise L3DError(f"{what} ended its MLflow run as {status}, though its exit status was 0. {fix}")


def logged(folder: Path, run_id: str) -> tuple[Logged, dict[str, float]]:
    """Return what a run of the store in a folder holds, without artifacts, and the last value of each finite metric.

    Raises
    ------
    L3DError
        If the run ended as failed or killed, whatever the exit status was.
    """
    with closing(sqlite3.connect(folder / STORE)) as tables:

        def rows(query: str, more: str = "") -> list[Any]:
            return tables.execute(f"SELECT {query} WHERE run_uuid = ? {more}", (run_id,)).fetchall()

        _check_ended(rows("status FROM runs"), "the project")
        last = dict(rows("key, value FROM latest_metrics", "AND NOT is_nan"))
        history = rows("key, value, timestamp, step FROM metrics", "AND NOT is_nan ORDER BY key, step, timestamp")
        params, tags = (
            {name: public_value(name, value) for name, value in rows(f"key, value FROM {table}")}
            for table in ("params", "tags")
        )
    tags = {name: value for name, value in tags.items() if not name.startswith(_OURS)}
    return Logged(params, tags, [row for row in history if row[0] in last]), last


def artifacts(folder: Path, most: float, without: tuple[str, ...]) -> tuple[dict[str, bytes], list[str]]:
    """Return path -> content of files in a folder, small ones first up to `most` bytes, and the paths of the others.

    `without` are names of files at its root that nobody needs.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    sizes = sorted((path.stat().st_size, path.relative_to(folder).as_posix()) for path in files)
    contents, left_out, total = {}, [], 0
    for size, name in sizes:
        total += size
        if total > most:
            left_out.append(name)
        elif name not in without:
            contents[name] = (folder / name).read_bytes()
    return contents, left_out


def tracking(folder: Path, environment: Mapping[str, str], *, ready: bool) -> dict[str, str]:
    """Return the variables that lead MLflow to a store in a folder, made beforehand if it is to be `ready`."""
    artifacts = folder / "artifacts"
    if ready:
        kept = cache_folder() / "projects" / f"store-{metadata.version('mlflow-skinny')}.db"
        fresh(template(kept, environment), folder, artifacts)
    uri = f"sqlite:///{folder / STORE}"
    return {"MLFLOW_TRACKING_URI": uri, "_MLFLOW_SERVER_ARTIFACT_ROOT": artifacts.as_uri()}


def logged_metrics(folder: Path) -> dict[str, float]:
    """Return the last values of the metrics in the store of a folder, without those of nested runs.

    A metric is left out if runs logged different values of it: nobody knows which of them is the score.
    If the last run that was not deleted ended as failed or killed, that is an error, whatever the exit status was.
    """
    metrics: dict[str, float] = {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(folder / STORE)) as tables:
        _check_ended(tables.execute(_LAST_STATUS).fetchall(), "the command")
        for name, value, is_nan, count in tables.execute(_LAST_METRICS).fetchall():
            if count > 1:
                why = f"{count} MLflow runs of one process logged different values"
                warn_once(f"{name} is not used: {why}. Nest all but one")
            elif not name.startswith("system/"):
                metrics[name] = math.nan if is_nan else float(value)
    return metrics
