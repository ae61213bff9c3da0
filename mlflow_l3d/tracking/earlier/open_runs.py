"""Runs beside parents that are open on this machine: each has a file that its process holds, and no other can."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tracking.children import found

if TYPE_CHECKING:
    from pathlib import Path

    from mlflow import MlflowClient
    from mlflow.entities import Run

_YOUNG_SECONDS: Final = 1.0
"""A run of less is not taken for abandoned: its process may be about to take its file."""


def _folder() -> Path:
    folder = cache_folder() / "open"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def held_open(run_id: str) -> Iterator[None]:
    """Let other processes know that a run has one; a file that cannot be locked is not worth an error."""
    from filelock import FileLock

    path = _folder() / run_id
    lock = FileLock(path)
    with suppress(OSError):
        lock.acquire(timeout=5.0)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def abandoned_runs(client: MlflowClient) -> Iterator[Run]:
    """Yield the runs of this server whose process on this machine was killed; each once, whoever asks."""
    from filelock import FileLock, Timeout

    for path in list(_folder().iterdir()):
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except (OSError, Timeout):
            continue
        try:
            run = found(client.get_run, path.name)
            if run is not None and time.time() - run.info.start_time / 1000 > _YOUNG_SECONDS:
                path.unlink(missing_ok=True)
                if run.info.status == "RUNNING":
                    yield run
        finally:
            lock.release()
