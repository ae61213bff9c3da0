"""Runs next to parents: what a comparison, a gate, an ablation or a plan says."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlflow_l3d.paths import cache_folder, public_parameter
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking import parent as parents
from mlflow_l3d.tracking.children import children_of, condition, found, search
from mlflow_l3d.tracking.connection import Client, Run, error_line
from mlflow_l3d.tracking.pages import told

_YOUNG_SECONDS: Final = 1.0
"""A run of less is not taken for abandoned: its process may be about to take its file."""


@dataclass(frozen=True, slots=True)
class AuxiliaryRun:
    """An open run; the files of its folder become artifacts when it is finished."""

    client: Client
    run_id: str
    folder: Path

    def finish(self, *, metrics: Mapping[str, float], tags: Mapping[str, str], tables: Sequence[str] = ()) -> None:
        """Write the results.

        Parameters
        ----------
        metrics, tags
            Of the run.
        tables
            Those of the files that MLflow's UI shows as tables.
        """
        parents.log_metrics(self.client, self.run_id, {0: metrics})
        parents.log_results(self.client, self.run_id, self.folder, tags, tables)


@contextmanager
def auxiliary_run(
    client: Client,
    project_run: str | None,
    *,
    role: str,
    title: str,
    parameters: Mapping[str, str],
    experiment_id: str | None = None,
) -> Iterator[AuxiliaryRun]:
    """Open the run that `mlflow run` made, or a new one; end it FINISHED, or FAILED or KILLED with the reason.

    Those that killed processes of this machine left are ended, too, and those of this title whose heartbeat stopped on
    another machine.

    Parameters
    ----------
    client
        The tracking server.
    project_run
        The run that `mlflow run` made, or None.
    role
        ``l3d.role``.
    title
        Name of the run.
    parameters
        Logged if `mlflow run` has not logged them.
    experiment_id
        Of a new run; None for the current experiment.
    """
    end_abandoned(client)
    tags = {names.ROLE: role, names.SCHEMA_TAG: names.SCHEMA, **parents.heartbeat()}
    run = parents.attach(client, project_run, title, tags, experiment_id)
    run_id, experiment_id = str(run.info.run_id), str(run.info.experiment_id)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(parents.HEARTBEAT_SECONDS):
            with suppress(Exception):
                parents.set_tags(client, run_id, parents.heartbeat())

    with held_open(run_id):
        try:
            parents.check_artifacts(client, experiment_id)  # before a gate or a referee trains
            public = {name: public_parameter(name, value) for name, value in parameters.items()}
            parents.log_params(client, run_id, public, known=run.data.params)
            for other in list(search(client, [experiment_id], condition({names.ROLE: role}, "RUNNING"))):
                beats = names.HEARTBEAT in other.data.tags
                if beats and other.info.run_name == run.info.run_name and parents.is_stale(other):
                    _end_killed(client, other)
            threading.Thread(target=beat, name="l3d-heartbeat", daemon=True).start()
            with tempfile.TemporaryDirectory() as folder, told(client.tracking_uri, experiment_id, run_id):
                yield AuxiliaryRun(client, run_id, Path(folder))
            ended.set()
            client.set_terminated(run_id, "FINISHED")
        except BaseException as error:
            ended.set()
            parents.end_early(client, run_id, error_line(error))
            raise


def end_abandoned(client: Client) -> None:
    """End the runs that processes of this machine had open when they were killed."""
    for run in abandoned_runs(client):
        _end_killed(client, run)


def _end_killed(client: Client, run: Run) -> None:
    """End a run whose process is dead, with its children that are open: they were of the same process."""
    for child in list(children_of(client, run.info.experiment_id, run.info.run_id)):
        if child.info.status == "RUNNING" and names.CELL_KEY in child.data.tags:  # it may lie in the spool, whole
            client.set_terminated(str(child.info.run_id), "KILLED")
        elif child.info.status == "RUNNING":
            _end_killed(client, child)
    parents.end_early(client, run.info.run_id, "Its process was killed.", "KILLED")


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
        path.unlink(missing_ok=True)  # after an error, who comes next looks whether the run has ended
    finally:
        lock.release()


def abandoned_runs(client: Client) -> Iterator[Run]:
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
