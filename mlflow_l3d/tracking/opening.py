"""The way to an open ledger: the lock, the spool and the parent of a piece of work, and what is done of it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic

from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.connection import connect, error_line, is_outage
from mlflow_l3d.tracking.ledger import Ledger, Opened, R, patience_seconds
from mlflow_l3d.tracking.recovery import recover
from mlflow_l3d.tracking.spool import Spool, unwritable
from mlflow_l3d.tracking.uploader import Uploader

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from mlflow import MlflowClient

    from mlflow_l3d.plan.cells import Cell


@dataclass(frozen=True)
class Work(Generic[R]):
    """What a ledger is opened for.

    Attributes
    ----------
    card
        What the parent says of itself.
    kind
        Class of the records.
    context_key
        Hash of everything that the cells or trials share.
    shared_params
        Parameters that every child has.
    cells
        Returns the cells that are planned; None for trials, which are not known beforehand.
    """

    card: parents.Card
    kind: type[R]
    context_key: str
    shared_params: Mapping[str, str]
    cells: Callable[[], Iterable[Cell]] | None = None


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
    folder = _spool_folder(client, str(experiment_id), card.key)
    lock = _lock(folder, card.role)
    ledger: Ledger[R] | None = None
    spool_id = ""
    try:
        spool, spool_id = Spool(folder, work.kind), _spool_id(folder)
        parent = parents.open_parent(client, card, project_run, spool_id)
        threads = 8 if _is_remote(client) else 2
        opened = Opened(client, parent, card, spool, spool_id, lock, Uploader(threads))
        ledger = Ledger(opened, work.context_key, work.shared_params)
        ledger.recovered = recover(opened, work.context_key, work.cells)
        for key in ledger.recovered.to_upload:
            ledger.submit(key, repeated=True)
    except BaseException as error:
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        if ledger is not None:
            ledger.end(status, error_line(error), patience=0.0)
        elif spool_id:
            parents.end_unopened(client, str(experiment_id), spool_id, status, error_line(error))
        lock.release()
        if getattr(error, "error_code", None) is not None and is_outage(error):
            msg = f"The tracking server does not answer: {error_line(error)}"
            raise L3DError(msg) from error
        raise
    return ledger


def _is_remote(client: MlflowClient) -> bool:
    return str(client.tracking_uri).startswith(("http://", "https://", "databricks"))


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
        msg = f"The same {role} is running in another process on this machine: wait for it, or change a parameter."
        raise L3DError(msg) from None
    except OSError as error:
        raise unwritable(error) from error
    return lock


def _spool_id(folder: Path) -> str:
    """Return what tells this spool from those of other machines: a number drawn once a cache folder, and the name."""
    path = folder.with_name("id")
    try:
        with path.open("x", encoding="ascii") as file:
            file.write(uuid.uuid4().hex)
    except FileExistsError:
        pass
    except OSError as error:
        raise unwritable(error) from error
    return hashlib.sha256(f"{path.read_text(encoding='ascii')}\n{folder.name}".encode()).hexdigest()[:16]
