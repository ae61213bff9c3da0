"""Runs beside parents: what a comparison, a gate, an ablation or a plan says."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_l3d.parameters.values import public_parameter
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import children_of, condition, search
from mlflow_l3d.tracking.connection import error_line
from mlflow_l3d.tracking.earlier.open_runs import abandoned_runs, held_open
from mlflow_l3d.tracking.pages import told
from mlflow_l3d.tracking.parent import (
    HEARTBEAT_SECONDS,
    attach,
    end_early,
    is_stale,
    log_metrics,
    log_params,
    log_results,
    set_tags,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


@dataclass(frozen=True, slots=True)
class AuxiliaryRun:
    """An open run."""

    client: MlflowClient
    run_id: str

    def finish(
        self, folder: Path, *, metrics: Mapping[str, float], tags: Mapping[str, str], tables: Sequence[str] = ()
    ) -> None:
        """Write the results.

        Parameters
        ----------
        folder
            Its files become artifacts.
        metrics, tags
            Of the run.
        tables
            Those of the files that MLflow's UI shows as tables.
        """
        log_metrics(self.client, self.run_id, {0: metrics})
        log_results(self.client, self.run_id, folder, tags, tables)


@contextmanager
def auxiliary_run(
    client: MlflowClient, project_run: str | None, *, role: str, title: str, parameters: Mapping[str, str]
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
    """
    for abandoned in abandoned_runs(client):
        _end_killed(client, abandoned)
    tags = {names.ROLE: role, names.SCHEMA_TAG: names.SCHEMA, **_heartbeat()}
    run = attach(client, project_run, title, tags)
    run_id, experiment_id = str(run.info.run_id), str(run.info.experiment_id)
    try:
        public = {name: public_parameter(name, value) for name, value in parameters.items()}
        log_params(client, run_id, public, known=run.data.params)
        for other in list(search(client, [experiment_id], condition({names.ROLE: role}, "RUNNING"))):
            beats = names.HEARTBEAT in other.data.tags
            if beats and other.info.run_name == run.info.run_name and is_stale(other):
                _end_killed(client, other)
        with held_open(run_id), _beating(client, run_id), told(client.tracking_uri, experiment_id, run_id):
            yield AuxiliaryRun(client, run_id)
        client.set_terminated(run_id, "FINISHED")
    except BaseException as error:
        end_early(client, run_id, error_line(error), "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        raise


@contextmanager
def _beating(client: MlflowClient, run_id: str) -> Iterator[None]:
    """Renew the heartbeat of a run during the block."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            with suppress(Exception):
                set_tags(client, run_id, _heartbeat())

    threading.Thread(target=beat, name="l3d-heartbeat", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _heartbeat() -> dict[str, str]:
    return {names.HEARTBEAT: str(int(time.time()))}


def _end_killed(client: MlflowClient, run: Run) -> None:
    """End a run whose process is dead, with its children that are open: they were of the same process."""
    for child in list(children_of(client, run.info.experiment_id, run.info.run_id)):
        if child.info.status != "RUNNING":
            continue
        if names.CELL_KEY in child.data.tags:  # it may lie in the spool, whole, and be finished from there
            client.set_terminated(str(child.info.run_id), "KILLED")
        else:
            _end_killed(client, child)
    end_early(client, run.info.run_id, "Its process was killed.", "KILLED")
