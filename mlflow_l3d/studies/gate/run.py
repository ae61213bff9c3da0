"""The entry points `gate` and `plan_gate`: golden runs of both sides until there is an answer, and what they take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from mlflow_l3d.analysis.comparison.power import Forecast, power
from mlflow_l3d.analysis.comparison.system import mean_scores
from mlflow_l3d.analysis.planning.spending import planned_looks
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.report.numbers import counted, percent, rough_duration
from mlflow_l3d.report.table import document
from mlflow_l3d.studies.base import entry_point, expected_workers, say
from mlflow_l3d.studies.dry_run import record_plan
from mlflow_l3d.studies.gate.conduct import Conduct, systems_of
from mlflow_l3d.studies.gate.numbers import GateAnswer
from mlflow_l3d.studies.gate.parameters import GateOptions
from mlflow_l3d.studies.gate.record import Gate, find_earlier
from mlflow_l3d.studies.gate.report import bound_table, plan_lines
from mlflow_l3d.studies.gate.request import GateRequest, specify_gate
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import Client, connect


@dataclass(frozen=True, repr=False)
class GatePlan(OnOneScreen):
    """Looks, bounds, power and cost of a gate; nothing was started.

    Attributes
    ----------
    request
        The request.
    forecast
        What is to be expected, as far as is known before.
    runs, done
        Golden runs of both sides within the budget, and how many of them are done.
    hours
        Wall clock of the others; nan if unknown.
    """

    request: GateRequest
    forecast: Forecast
    runs: int
    done: int
    hours: float

    def lines(self) -> list[str]:
        """Return the text before the first run."""
        request = self.request
        cost = f"{self.done} of at most {counted(self.runs, 'run')} are done, {self.runs - self.done} are to be trained"
        hours = "" if math.isnan(self.hours) else f": {rough_duration(self.hours)} at most, loading not counted"
        return [*plan_lines(request.plan, self.forecast, request.metric), f"{cost}{hours}."]

    def summary(self) -> str:
        """Return the text that the command line prints."""
        plan = self.request.plan
        note = (
            f"Better and worse are claimed at {percent(plan.alpha / 2)} each, equivalence by two one-sided tests at "
            f"{percent(plan.alpha)} each, over all looks ({plan.spending})."
        )
        return document(self.request.title, self.lines(), [bound_table(plan, self.request.metric), note])


def make_plan(request: GateRequest, client: Client) -> GatePlan:
    """Return what a gate is going to do.

    Before any run of the candidate is known, its runs are taken to vary as the baseline's do, and to share nothing with
    them, and so are test examples if they count: with what they share, power is higher.
    """
    most = request.plan.looks[-1]
    noise = request.noise
    if request.examples == "random":
        # Golden runs of the baseline that say how much of its mean is luck of the test examples.
        name, baseline, runs = request.baseline.name, request.baseline, min(30, most)
        scores = {name: baseline.scores(request.metric.name, runs)}
        system = systems_of(request, scores, {name: baseline.predictions(client, runs)})[name]
        of_examples = max(0.0, float(mean_scores([system]).of_examples[0, 0]))
        noise = replace(noise, of_examples=2 * of_examples, degrees_examples=max(1.0, system.units - 1.0))
    missing, hours = 0, 0.0
    cells, duration = request.baseline.cells, "duration_seconds"
    seconds = math.nan if duration not in cells else float(np.nanmean(cells[duration].astype(float)))
    for golden in filter(None, map(request.wanting, request.sides)):
        done = finished_cells(client, golden.context_key)
        if untrained := sum(cell.key not in done for cell in golden.cells()):
            missing += untrained
            hours += seconds * untrained / expected_workers(golden.setup) / 3600
    return GatePlan(request, power(request.plan, noise), 2 * most, 2 * most - missing, hours)


@with_signature(GateOptions)
def gate(*, progress: bool | None = None, **parameters: Unpack[GateOptions]) -> Gate:
    """Train until a candidate is better than a baseline, worse, or equivalent within the smallest effect.

    Parameters
    ----------
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **parameters
        As on the command line (``mlflow-l3d gate --help-all``). The candidate is the run id of an
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
        say(plan.lines())
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
    with entry_point() as project_run:
        client = connect()
        plan, _ = _planned(parameters, client)
        return record_plan(client, project_run.run_id, plan, plan.request.title, plan.request.given)


def _planned(parameters: Mapping[str, Any], client: Client) -> tuple[GatePlan, GateAnswer | None]:
    """Return the plan of a gate, and what an earlier command of the same gate found."""
    request = specify_gate(parameters, client)
    earlier = find_earlier(client, request.key)
    if earlier is not None and (most := earlier.plan.looks[-1]) != request.plan.looks[-1]:
        request = replace(request, plan=replace(request.plan, looks=planned_looks(most, int(request.given["looks"]))))
    return make_plan(request, client), earlier
