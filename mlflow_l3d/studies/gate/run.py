"""The entry point `gate`: golden runs of both sides until the candidate is better, worse or equivalent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from mlflow_l3d.parameters.declaration import with_signature
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.gate.conduct import Conduct, Gate
from mlflow_l3d.studies.gate.parameters import GateOptions
from mlflow_l3d.studies.gate.plan import GatePlan, make_plan
from mlflow_l3d.studies.gate.record import Earlier, find_earlier
from mlflow_l3d.studies.gate.request import specify_gate
from mlflow_l3d.tracking.connection import connect

if TYPE_CHECKING:
    from mlflow import MlflowClient

_logger = logging.getLogger("mlflow_l3d")


@with_signature(GateOptions)
def gate(*, progress: bool | None = None, **parameters: Unpack[GateOptions]) -> Gate:
    """Train until a candidate is better than a baseline, worse, or equivalent within the smallest effect.

    Parameters
    ----------
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **parameters
        As on the command line, see :data:`mlflow_l3d.studies.gate.parameters.GATE`. The candidate is the run id of an
        investigation, or what differs from the baseline: parameters of `main` as ``name=value`` separated by
        semicolons, as JSON, or as a mapping.

    Returns
    -------
    Gate
        The result; its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> baseline = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=6, executor="inline",
    ... )
    >>> change = {"hyperparameters": {"a_label_selection": 99, "a_model_initialisation": 99}}
    >>> gate = mlflow_l3d.gate(baseline=baseline.run_id, candidate=change, most_runs=10, looks=2, executor="inline")
    >>> gate.decision, gate.exit_status
    ('better', 0)
    """
    with entry_point() as project_run:
        client = connect()
        plan, earlier = _planned(parameters, client)
        for line in plan.lines():
            _logger.warning("%s", line)
        return Conduct(plan.request, client, plan.forecast, progress=progress).run(project_run.take(), earlier)


@with_signature(GateOptions)
def plan_gate(**parameters: Unpack[GateOptions]) -> GatePlan:
    """Return what a gate would do: its looks, bounds, power and cost. No run starts.

    Parameters
    ----------
    **parameters
        Those of :func:`gate`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> baseline = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=6, executor="inline",
    ... )
    >>> change = {"hyperparameters": {"a_label_selection": 99, "a_model_initialisation": 99}}
    >>> plan = mlflow_l3d.plan_gate(baseline=baseline.run_id, candidate=change, most_runs=10, looks=2)
    >>> plan.runs, plan.request.plan.looks
    (20, (5, 10))
    """
    with entry_point():
        return _planned({**parameters, "dry_run": False}, connect())[0]


def _planned(parameters: Mapping[str, Any], client: MlflowClient) -> tuple[GatePlan, Earlier | None]:
    """Return the plan of a gate, and what an interrupted command of the same gate left."""
    request = specify_gate(parameters, client)
    earlier = find_earlier(client, request.key)
    if earlier is not None and earlier.most != request.plan.looks[-1]:
        request = request.with_budget(earlier.most)
    return make_plan(request, client), earlier
