"""What a search would train: counted before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from mlflow_l3d.parameters.declaration import with_signature
from mlflow_l3d.studies.base import entry_point, expected_workers, specified
from mlflow_l3d.studies.dry_run import StudyPlan, record_plan, seconds_per_run, study_plan
from mlflow_l3d.studies.search.engine import open_stage
from mlflow_l3d.studies.search.parameters import SearchOptions
from mlflow_l3d.studies.search.request import SearchRequest, specify_search
from mlflow_l3d.studies.search.trials import best_trial, known_trials
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.opening import recovered_trials

if TYPE_CHECKING:
    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.studies.search.optimiser import Stage
    from mlflow_l3d.studies.search.trials import FinishedTrial
    from mlflow_l3d.tasks.base import TaskLike
    from mlflow_l3d.tracking.recorder import Recovered
    from mlflow_l3d.tracking.records import TrialRecord


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
        finished = finished_cells(client, request.context_key, "trial")
        [seconds] = seconds_per_run(client, [setup], [finished.values()])
        counts = _count_trials(request, *recovered_trials(client, request.key, finished))
        rows = [(part, cells, cells - left, left, seconds) for part, (cells, left) in counts.items()]
        plan = study_plan(request.title, rows, expected_workers(setup), request.remarks)
        record_plan(client, project_run.run_id, plan, request.title, request.given)
    return plan


def _count_trials(
    request: SearchRequest, recovered: Recovered, spooled: Sequence[TrialRecord]
) -> dict[str, tuple[int, int]]:
    """Return part -> how many trials it has, and how many of them would be trained, by the rules of the search itself.

    A stage that follows untrained trials is not known yet: all its trials are counted, though one may turn out to be
    known, or be pruned.
    """
    most: dict[Stage, int] = {"coarse": request.coarse_trials, "fine": request.fine_trials}
    counts: dict[str, tuple[int, int]] = {}
    trials: list[FinishedTrial] = []
    is_known = True
    for stage, runs in most.items():
        counts[stage] = (0, 0) if is_known else (runs, runs)
        if is_known and (stage_run := open_stage(request, stage, recovered, spooled, lambda *_: None, trials)):
            planned, _ = stage_run.plan()
            left = len([*stage_run.cells()])
            counts[stage], trials, is_known = (planned, left), stage_run.finished, not left
    if is_known:
        compared = request.compared_cells(best_trial(trials, request.metric.sign).hyperparameters)
        cells = [cell for each in compared.values() for cell in each]
        unknown = 0
    else:  # the found setting may be any
        cells, unknown = request.held_out_cells(request.setup.hyperparameters), request.held_out_runs
    left = len({cell.key for cell in cells} - set(known_trials(recovered, spooled, "held_out")))
    return {**counts, "held_out": (len(cells) + unknown, left + unknown)}
