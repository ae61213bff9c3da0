"""What a search would train: counted before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from mlflow_l3d.parameters.declaration import with_signature
from mlflow_l3d.studies.base import entry_point, expected_workers, specified
from mlflow_l3d.studies.dry_run import StudyPlan, record_plan, seconds_per_run, study_plan
from mlflow_l3d.studies.search.parameters import SearchOptions
from mlflow_l3d.studies.search.request import SearchRequest, specify_search
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import trials_of
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.parent import current_experiment_id

if TYPE_CHECKING:
    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.tasks.base import TaskLike


@with_signature(SearchOptions)
def plan_search(
    task: TaskLike = None, *, approach: Approach | str | None = None, **parameters: Unpack[SearchOptions]
) -> StudyPlan:
    """Return how many trials a search would train, how many are done, and how long the rest takes; no run starts.

    Parameters
    ----------
    task, approach, **parameters
        Those of :func:`mlflow_l3d.studies.search.run.search`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> plan = mlflow_l3d.plan_search("synthetic", approach="synthetic", space="a_data_order=0..9", fine_trials=5)
    >>> plan.to_frame()[["part", "cells"]]
           part  cells
    0    coarse      3
    1      fine      5
    2  held_out     20
    """
    with entry_point() as project_run:
        request: SearchRequest = specified(specify_search, approach, task, parameters)
        client, setup = connect(), request.setup
        here = client, current_experiment_id(client), request.key
        ended = [run for state in ("complete", "pruned") for run in trials_of(*here, state)]
        [seconds] = seconds_per_run(client, [setup], [ended])
        # Both settings are compared on each configuration; a trial may turn out to be known, or be pruned.
        most = {"coarse": request.coarse_trials, "fine": request.fine_trials, "held_out": 2 * request.held_out_runs}
        rows = []
        for level, runs in most.items():
            done = {run.data.tags.get(names.CELL_KEY) for run in ended if run.data.tags.get(names.LEVEL) == level}
            rows.append((level, runs, len(done), max(0, runs - len(done)), seconds))
        plan = study_plan(request.title, rows, expected_workers(setup), request.remarks)
        record_plan(client, project_run.run_id, plan, request.title, request.given)
    return plan
