"""A run beside the investigations: a plan, a comparison or an ablation, in a true state whatever happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import error_line
from mlflow_l3d.tracking.parent import current_experiment_id, own_tags, project_run_tags, set_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True, slots=True)
class AuxiliaryRun:
    """An open run."""

    client: MlflowClient
    run_id: str

    def finish(
        self,
        folder: Path,
        *,
        metrics: Mapping[str, float],
        tags: Mapping[str, str],
        tables: Sequence[str] = (),
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
        from mlflow.entities import Metric

        self.client.log_artifacts(self.run_id, str(folder))
        now = int(time.time() * 1000)
        self.client.log_batch(
            self.run_id, metrics=[Metric(names.metric_name(name), value, now, 0) for name, value in metrics.items()]
        )
        logged = json.dumps([{"path": name, "type": "table"} for name in tables])
        set_tags(self.client, self.run_id, {**tags, names.LOGGED_ARTIFACTS: logged})


@contextmanager
def auxiliary_run(
    client: MlflowClient, project_run: str | None, *, role: str, title: str, parameters: Mapping[str, str]
) -> Iterator[AuxiliaryRun]:
    """Open the run that `mlflow run` made, or a new one; end it FINISHED, or FAILED or KILLED with the reason.

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
        Logged where `mlflow run` has not logged them.
    """
    from mlflow.entities import Param

    tags = {names.ROLE: role, names.SCHEMA_TAG: names.SCHEMA}
    if project_run is None:
        run = client.create_run(current_experiment_id(client), tags=own_tags() | tags, run_name=title)
    else:
        set_tags(client, project_run, tags | project_run_tags(client.get_run(project_run), title))
        run = client.get_run(project_run)
    run_id = str(run.info.run_id)
    try:
        missing = {name: public_name(value) for name, value in parameters.items() if name not in run.data.params}
        client.log_batch(run_id, params=[Param(name, value[:6000]) for name, value in missing.items()])
        yield AuxiliaryRun(client, run_id)
        client.set_terminated(run_id, "FINISHED")
    except BaseException as error:
        line = error_line(error)
        set_tags(client, run_id, {names.ERROR: line[:5000], names.NOTE: line[:5000]})
        client.set_terminated(run_id, "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        raise
