"""The entry point `plan`: look up cost and variances, compute what a budget buys, and record the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final, Unpack

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.planning.runs_needed import FEWEST_RUNS, ScoreVariances, best, projection, score_variances
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.designs import plannable_designs
from mlflow_l3d.designs.base import FEWEST_PILOT_COLUMNS
from mlflow_l3d.errors import L3DError, ParameterError, logger
from mlflow_l3d.metrics.known import pseudo_values
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.report.numbers import percent
from mlflow_l3d.studies.base import entry_point, expected_workers, specified
from mlflow_l3d.studies.dry_run import SENT, Budget, requests_text
from mlflow_l3d.studies.investigation.parameters import InvestigateOptions
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.planning.parameters import PLAN
from mlflow_l3d.studies.planning.pilot import Pilot, named_pilot, past_pilot, pilot_parameters
from mlflow_l3d.studies.planning.result import Plan
from mlflow_l3d.studies.planning.tables import cell_table, design_table, factor_table
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tasks.resolve import unused_test_examples
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import Client, connect, error_line, is_outage
from mlflow_l3d.tracking.earlier.reader import read_investigation, read_predictions


@with_signature(InvestigateOptions)
def plan(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    pilot: str = "auto",
    assurance: float | str = 0.8,
    budget: object = "none",
    progress: bool | None = None,
    **parameters: Unpack[InvestigateOptions],
) -> Plan:
    """Return how many cells an investigation has, what they cost, and how exact it will be, before it starts.

    Parameters
    ----------
    task, approach
        As for :func:`mlflow_l3d.studies.investigation.run.investigate`.
    pilot
        Source of cost and variances. ``auto``: cells of the same settings on the tracking server, else similar
        ones. The id of a parent run: that one. ``run``: a small part of the plan, three rows and columns, is trained
        now; its cells are not computed again. ``none``: neither cost nor variances.
    assurance
        Probability with which the interval shall be as narrow as `half_width`, above 0 and below 1. The number of runs
        that is enough on average is enough in only half of all investigations.
    budget
        What may be spent on the mean score: ``2h`` or ``90m`` of one worker, ``500 cells``, or ``10000
        requests`` to an endpoint. The plan then gives the best number of cells, and of test examples per cell.
    progress
        Whether ``pilot=run`` shows progress on stderr; None does in a notebook and on a terminal.
    **parameters
        As for :func:`mlflow_l3d.studies.investigation.run.investigate`.

    Returns
    -------
    Plan
        Also logged to the run that `mlflow run` made, if there is one.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change. An unreachable tracking server is an error
        only if the pilot is on it, or is run.

    Examples
    --------
    >>> import mlflow_l3d
    >>> plan = mlflow_l3d.plan("synthetic", approach="synthetic", factor="data_order,data_split", pilot="none")
    >>> plan.cells
    300
    >>> plan.designs[["design", "rows", "columns", "golden_runs", "cells"]]
        design  rows  columns  golden_runs  cells
    0  crossed    20       10          200    600
    1   nested    20       10          200    600
    2   radial   100        2            0    300
    """
    with entry_point() as project_run:
        request = specified(specify, approach, task, parameters)
        if (design := request.plan.design).planning is None and not design.baseline:
            fix = f"mlflow-l3d investigate --design {design.name} --dry-run counts its runs."
            raise ParameterError("design", design.name, "is not planned: its intervals are not computed before", fix)
        allowed = Budget.parse(budget, requests=True)
        wanted = PLAN["assurance"].read(assurance)
        run_id: str | None = None
        if pilot == "run":
            from mlflow_l3d.studies.investigation.run import investigate

            small = {**parameters, **pilot_parameters(request)}
            run_id = investigate(approach=approach, task=task, progress=progress, **small).run_id
        client, why, done = None, "", set[str]()
        known = Pilot(cost_source="unknown: not asked for (pilot=none)") if pilot == "none" else Pilot()
        try:
            client = connect()
            finished = finished_cells(client, request.context_key)
            done = set(finished)
            if pilot == "auto":
                durations = [run.data.metrics.get("duration_seconds", math.nan) for run in finished.values()]
                known = past_pilot(request, client, durations)
            elif pilot != "none":
                known = named_pilot(request, client, run_id or pilot, pilot)
        except Exception as error:
            is_away = client is None if isinstance(error, L3DError) else is_outage(error)
            if not is_away or pilot not in ("auto", "none"):
                raise
            why = f"Past runs could not be read{'' if done else ', so no cell counts as done'}: {error_line(error)}"
        made = _assemble(request, done, known, assurance=wanted, pilot_run_id=run_id, why=why)
        made = replace(made, run_id=project_run.run_id)
        if allowed:
            projection, note = projected(request, client, made.pilot_run_id or known.run_id, allowed, known.seconds)
            made = replace(made, projection=projection, notes=(*made.notes, f"budget={allowed}: {note}"))
        if made.run_id is not None:
            if client is None:
                logger.error("The plan could not be recorded in run %s: %s", made.run_id, why)
            else:
                made.record(client, made.run_id, {"pilot": pilot, "budget": str(allowed)})
    return made


def _assemble(
    request: InvestigationRequest, done: set[str], known: Pilot, *, assurance: float, pilot_run_id: str | None, why: str
) -> Plan:
    setup = request.setup
    workers, counts = expected_workers(setup), cell_table(request, done)
    factors = factor_table(request, known.factors, assurance)
    to_compute = int(counts["to_compute"].sum())
    asked = requests_text(setup, to_compute)
    runs = {pilot.run_id for pilot in known.factors.values()}
    if pilot_run_id is None and len(runs) == 1:
        pilot_run_id = runs.pop()
    designs = design_table(request, known.factors, known.seconds, workers, factors, assurance)
    more = _notes(known, factors, designs, assurance=assurance, workers=workers, why=why)
    remarks = [remark for remark in request.remarks if remark not in request.offer]
    return Plan(
        request=request,
        cells=int(counts["cells"].sum()),
        cells_done=int(counts["done"].sum()),
        cells_to_compute=to_compute,
        seconds_per_cell=known.seconds,
        workers=workers,
        hours=known.seconds * to_compute / 3600 / workers,
        cost_source=known.cost_source,
        pilot_run_id=pilot_run_id,
        counts=counts,
        factors=factors,
        designs=designs,
        assurance=assurance,
        notes=(*remarks, *([SENT] if asked else []), *more),
        requests=asked,
        equal_run=known.equal,
    )


def _notes(
    pilot: Pilot, factors: pd.DataFrame, designs: pd.DataFrame, *, assurance: float, workers: int, why: str
) -> list[str]:
    """Return the remarks on a plan; `why` past runs could not be read, or nothing."""
    notes = [why] if why else []
    if not math.isnan(pilot.seconds):
        note = "Time covers training and evaluation; loading model and data, once a worker, and scoring come on top"
        side = ", and cells that run side by side may slow each other down" if workers > 1 else ""
        notes.append(f"{note}{side}.")
    notes += pilot.notes
    sizes = [
        f"{name} {design.auto_rows}"
        + (f" x {FEWEST_PILOT_COLUMNS}" if design.model.shared_columns else f" {design.words.row}")
        for name, design in plannable_designs().items()
    ]
    small = factors[factors["pilot_enough"].eq(False)]
    for (design, rows, columns), group in small.groupby(["pilot_design", "pilot_rows", "pilot_columns"]):
        notes.append(
            f"The pilot of {', '.join(group['factor'])} ({design} {rows:.0f} x {columns:.0f}) is too small for a "
            f"promise: the runs needed are a guess, and may be too few in more than {percent(1 - assurance)} of cases. "
            f"In simulations 67 to 98 % of plans for 80 % are kept from pilots of {', '.join(sizes)} on."
        )
    for name, each in designs.loc[designs["never"].ne(""), ["design", "never"]].itertuples(index=False):
        fix = "Use another design, or a larger half_width."
        notes.append(f"No {name} table is likely to be narrow enough for {each}. {fix}")
    return notes


_SHOWN: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000)


def projected(
    request: InvestigationRequest, client: Client | None, run_id: str | None, budget: Budget, seconds: float
) -> tuple[pd.DataFrame | None, str]:
    """Return how to spend a budget so that the mean score is known best.

    Parameters
    ----------
    request
        What is planned.
    client
        Where the pilot is; None where no server answers.
    run_id
        The pilot, whose golden (or base) runs say what varies; None if there is none.
    budget
        What there is.
    seconds
        Of a cell of the pilot.

    Returns
    -------
    tuple
        Rows of :func:`mlflow_l3d.analysis.planning.runs_needed.projection`, with ``best``, None if there are none; and
        the result, or why there is none.
    """
    if client is None or run_id is None:
        return None, "nothing is known of how scores vary. pilot=run measures it."
    if request.metric.function is None:
        return None, f"{request.metric} comes from the approach itself, and not from predictions. Name another metric."
    lists = request.setup.approach.levels(request.setup.task, request.setup.hyperparameters)
    variances = _variances(request, client, run_id, lists)
    if variances is None:
        return None, f"the pilot has fewer than {FEWEST_RUNS} golden runs with predictions on examples in common."
    per_run, per_example, costs = _costs(request, budget, seconds, variances.per_run)
    if not math.isfinite(per_run + per_example):
        return None, "the seconds of a cell are not known. Give cells, or pilot=run."
    amount = next(float(each) for each in (budget.cells, budget.requests, budget.seconds) if each is not None)
    table = projection(variances, amount, per_run=per_run, per_example=per_example)
    task = request.setup.task
    if (unused := unused_test_examples(task)) is not None:  # else any number may be in a test set
        table = table[table["examples"] <= unused + len(task.first_split.test)]
    if table.empty:
        return None, f"it does not pay for {FEWEST_RUNS} cells ({costs})."
    top = best(table)
    wanted = {*_SHOWN, variances.pool, round(variances.per_run), int(top["examples"])}
    shown = table[table["examples"].isin(wanted)].reset_index(drop=True)
    test_set = "the same in all cells" if variances.shared else f"redrawn in each from the pilot's {variances.pool:,}"
    note = (
        f"the mean {request.metric} is known best with {_counted(top, variances.levels, lists)}, each with "
        f"{top['examples']:,.0f} test examples, {test_set} ({costs})."
    )
    return shown.assign(best=shown["examples"] == top["examples"]), note


def _counted(row: pd.Series, levels: int, lists: Mapping[str, int]) -> str:
    """Return how many cells there are, and of a list how many for each element."""
    of_each = f" for each of {levels:,} {' x '.join(lists)}" if levels > 1 else ""
    return f"{row['runs'] / levels:,.0f} cells{of_each}"


def _costs(request: InvestigationRequest, budget: Budget, seconds: float, examples: float) -> tuple[float, float, str]:
    """Return what a cell costs, in the unit of the budget: by itself, for each of its examples, and both in words."""
    if budget.cells is not None:
        return 1.0, 0.0, "a cell costs the same with any number of test examples"
    reference = len(request.setup.task.reference_ids)  # each cell predicts these, too
    if budget.requests is not None:
        return reference, 1.0, "a request for each"
    if request.setup.approach.only_evaluates:
        each = seconds / (examples + reference)
        return reference * each, each, f"{each:.3g} s for each, as nothing is trained"
    return seconds, 0.0, f"{seconds:.3g} s a cell, most of it training"


def _variances(
    request: InvestigationRequest, client: Client, run_id: str, lists: Mapping[str, int]
) -> ScoreVariances | None:
    """Return what scores of the pilot's independent runs are made of; None if it cannot be estimated."""
    cells = read_investigation(run_id, client).cells
    # Phases of cells whose factors are all redrawn.
    cells = cells[cells["phase"].isin(("golden", "base")) & cells["status"].eq("FINISHED")]
    classes = len(request.setup.task.class_names) or None
    values, ids, level, count = [], [], [], math.prod(lists.values())
    places = tuple((cells[f"seed.{name}"] % length).to_numpy(dtype=np.int64) for name, length in lists.items())
    numbers = np.ravel_multi_index(places, tuple(lists.values())).tolist() if lists else [0] * len(cells)
    with closing(read_predictions(client, cells)) as read:
        for number, (_, found) in zip(numbers, read, strict=True):
            if found is None or found.num_rows < 2:
                continue
            example_ids, labels, predictions = (
                np.asarray(found.column(name).to_pandas()) for name in ("example_id", "label", "prediction")
            )
            own = pseudo_values(request.metric, labels, predictions, classes)
            if np.isfinite(own).all():
                values.append(own)
                # Ids that numpy can sort; those of pandas' texts are objects.
                ids.append(example_ids if example_ids.dtype.kind in "iu" else example_ids.astype(str))
                level.append(number)
    return score_variances(values, ids, level, count)
