"""A run beside the investigations: a plan, a comparison or an ablation, in a true state whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import error_line
from mlflow_l3d.tracking.parent import attach, end_early, log_metrics, log_params, log_results

if TYPE_CHECKING:
    from mlflow import MlflowClient


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
    run = attach(client, project_run, title, {names.ROLE: role, names.SCHEMA_TAG: names.SCHEMA})
    run_id = str(run.info.run_id)
    try:
        public = {name: public_name(value) for name, value in parameters.items()}
        log_params(client, run_id, public, known=run.data.params)
        yield AuxiliaryRun(client, run_id)
        client.set_terminated(run_id, "FINISHED")
    except BaseException as error:
        end_early(client, run_id, error_line(error), "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        raise
