"""`evaluate` for sweeps: the result of one is made again, or other investigations are set side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.studies.sweep.artifacts import SweepResult, description, links_of, write_sweep
from mlflow_l3d.studies.sweep.read import points_of_runs, points_of_sweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier.reader import parent_run
from mlflow_l3d.tracking.pages import links_in, with_link
from mlflow_l3d.tracking.parent import log_metrics, log_results

if TYPE_CHECKING:
    import pandas as pd

ROLE = "sweep"


@dataclass(frozen=True, repr=False)
class SweepEvaluation(OnOneScreen):
    """What was set side by side again.

    Attributes
    ----------
    run_id
        Where the result was logged; the empty text if it was not.
    result
        What the points say together.
    """

    run_id: str
    result: SweepResult

    def to_frame(self) -> pd.DataFrame:
        """Return one row per point and factor."""
        return self.result.to_frame()

    def summary(self) -> str:
        """Return the text that the command line prints."""
        where = f"\nMLflow run {self.run_id}; {names.SWEEP_REPORT} is among its artifacts\n" if self.run_id else ""
        return self.result.summary() + where


def is_sweep(parent_run_id: str) -> bool:
    """Return whether `parent_run_id` names a sweep, or several investigations of factors."""
    from mlflow.exceptions import MlflowException

    run_ids = _named(parent_run_id)
    if not run_ids or run_ids[0] == "latest":
        return False
    try:
        tags = connect().get_run(run_ids[0]).data.tags
    except (MlflowException, L3DError):
        return False
    if len(run_ids) == 1:
        return bool(tags.get(names.ROLE) == ROLE)
    return tags.get(names.ROLE) in ("investigation", ROLE) and tags.get(names.DESIGN) != "seeds"


def evaluate_sweep(parent_run_id: str, *, project_run: str | None = None, log: bool = True) -> SweepEvaluation:
    """Set the points of a sweep, or several investigations, side by side, from what their parents hold.

    Parameters
    ----------
    parent_run_id
        The run of a sweep, whose tables, report and metrics are then written anew; or several parents of
        investigations, separated by commas, whose result goes to a run of its own.
    project_run
        The run that `mlflow run` made, for that.
    log
        Whether to write.

    Raises
    ------
    L3DError
        With one line that says what is missing.
    """
    client, run_ids = connect(), _named(parent_run_id)
    if repeated := [run_id for at, run_id in enumerate(run_ids) if run_id in run_ids[:at]]:
        raise ParameterError("parent_run_id", repeated[0], "must be named once")
    several = len(run_ids) > 1
    read = points_of_runs(client, run_ids) if several else points_of_sweep(client, run_ids[0])
    on_top = None if several else parent_run(client, run_ids[0])
    title = str(on_top.info.run_name) if on_top else f"{len(read.points)} investigations side by side"
    with temporary_folder() as folder:
        links = links_of(str(client.tracking_uri), read.experiments)
        result = write_sweep(folder, read.points, title=title, links=links)
        if not log:
            return SweepEvaluation("", result)
        note = {names.NOTE: description(result, read.experiments)}
        if several:
            listed = ",".join(run_ids)
            with auxiliary_run(
                client, project_run, role="side_by_side", title=title, parameters={"parent_run_id": listed}
            ) as run:
                tags = {names.INVESTIGATIONS: listed, **note}
                run.finish(folder, metrics=result.metrics(), tags=tags, tables=result.tables)
            return SweepEvaluation(run.run_id, result)
        log_metrics(client, run_ids[0], {0: result.metrics()})
        if on_top:
            parts = [note[names.NOTE], *links_in(on_top.data.tags.get(names.NOTE, ""))]
            note = {names.NOTE: with_link("\n\n".join(parts), str(on_top.info.experiment_id))}
        log_results(client, run_ids[0], folder, note, result.tables)
    return SweepEvaluation(run_ids[0], result)


def _named(parent_run_id: str) -> list[str]:
    return [part.strip() for part in parent_run_id.split(",") if part.strip()]
