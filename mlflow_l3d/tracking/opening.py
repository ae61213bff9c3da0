"""The way to an open ledger: the lock, the spool and the parent of a piece of work, and what is done of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.connection import connect, error_line, is_outage
from mlflow_l3d.tracking.ledger import Ledger, R, Work, patience_seconds
from mlflow_l3d.tracking.recovery import recover
from mlflow_l3d.tracking.spool import Spool, unwritable

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from mlflow import MlflowClient


def open_ledger(work: Work[R], project_run: str | None = None) -> Ledger[R]:
    """Connect, take the lock of this work, open the parent, and find what is already done.

    Parameters
    ----------
    work
        What is to be recorded.
    project_run
        The run that `mlflow run` made for us; None for a new one.

    Raises
    ------
    ParameterError
        If the tracking server does not answer or refuses.
    L3DError
        If another process of this machine is at the same work.
    """
    patience_seconds()
    card = work.card
    client = connect()
    experiment_id = (
        parents.project_run_experiment_id(client, project_run) if project_run else parents.current_experiment_id(client)
    )
    folder = _spool_folder(client, experiment_id, card.key)
    lock = _lock(folder, card.role)
    ledger: Ledger[R] | None = None
    spool: Spool[R] | None = None
    try:
        spool = Spool(folder, work.kind)
        parent = parents.open_parent(client, card, project_run, spool.identity)
        ledger = Ledger(client, parent, work, spool, lock)
        recover(ledger)
    except BaseException as error:
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        if ledger is not None:
            ledger.end(status, error_line(error), patience=0.0)
        elif spool is not None:
            parents.end_unopened(client, experiment_id, spool.identity, status, error_line(error))
        lock.release()
        if getattr(error, "error_code", None) is not None and is_outage(error):
            raise L3DError(f"The tracking server does not answer: {error_line(error)}") from error
        raise
    return ledger


def _spool_folder(client: MlflowClient, experiment_id: str, key: str) -> Path:
    """Return the folder of one piece of work in one experiment of one store."""
    uri = str(client.tracking_uri)
    if uri.startswith("sqlite:///"):
        uri = str(Path(uri.removeprefix("sqlite:///")).resolve())
    store = hashlib.sha256(f"{uri}\n{experiment_id}".encode()).hexdigest()[:12]
    return cache_folder() / "spool" / f"{store}-{key}"


def _lock(folder: Path, role: str) -> BaseFileLock:
    from filelock import FileLock, Timeout

    lock = FileLock(folder.with_suffix(".lock"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise L3DError(
            f"The same {role} is running in another process on this machine: wait for it, or change a parameter."
        ) from None
    except OSError as error:
        raise unwritable(error) from error
    return lock
