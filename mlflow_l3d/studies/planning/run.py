"""The entry point `plan`: look up cost and variances, compute, and record the result."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, Unpack

import pandas as pd

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.designs import plannable_designs
from mlflow_l3d.designs.base import FEWEST_PILOT_COLUMNS
from mlflow_l3d.errors import L3DError, ParameterError, logger
from mlflow_l3d.parameters.declaration import with_signature
from mlflow_l3d.report.numbers import percent
from mlflow_l3d.studies.base import entry_point, expected_workers, specified
from mlflow_l3d.studies.budget import Budget
from mlflow_l3d.studies.dry_run import SENT, requests_text
from mlflow_l3d.studies.files import save_report, temporary_folder, write_json, write_tables
from mlflow_l3d.studies.investigation.parameters import InvestigateOptions
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.planning.budget import projected
from mlflow_l3d.studies.planning.parameters import PLAN
from mlflow_l3d.studies.planning.pilot import Pilot, named_pilot, past_pilot, pilot_parameters
from mlflow_l3d.studies.planning.result import Plan
from mlflow_l3d.studies.planning.tables import cell_table, design_table, factor_table
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import Client, connect, error_line, is_outage

PLAN_TABLES: Final = tuple(f"plan_{name}.json" for name in ("cells", "factors", "designs", "projection"))


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
            why = f"Past runs could not be read{', so no cell counts as done' * (not done)}: {error_line(error)}"
        made = _assemble(request, done, known, assurance=wanted, pilot_run_id=run_id, why=why)
        made = replace(made, run_id=project_run.run_id)
        if allowed:
            projection, note = projected(request, client, made.pilot_run_id or known.run_id, allowed, known.seconds)
            made = replace(made, projection=projection, notes=(*made.notes, f"budget={allowed}: {note}"))
        if made.run_id is not None:
            if client is None:
                logger.error("The plan could not be recorded in run %s: %s", made.run_id, why)
            else:
                _record(made, client, made.run_id, pilot, str(allowed))
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
        notes=(*remarks, *[SENT] * bool(asked), *more),
        requests=asked,
    )


def _record(made: Plan, client: Client, run_id: str, pilot: str, budget: str) -> None:
    """Write a plan to the run that `mlflow run` made for it."""
    request = made.request
    page = f"**{made.report().headline}**\n\n```text\n{made.summary()}\n{made.details()}```\n"
    tags = {
        names.FACTOR: ",".join(request.factors),
        names.DESIGN: request.plan.design.name,
        names.CONTEXT_KEY: request.context_key,
        names.NOTE: page[:5000],
    }
    frames = (made.counts, made.factors, made.designs, made.projection)
    title = f"plan: {request.title}"
    given = {**request.given, "pilot": pilot, "assurance": f"{made.assurance:g}", "budget": budget}
    with temporary_folder() as folder, auxiliary_run(client, run_id, role="plan", title=title, parameters=given) as run:
        tables = write_tables(folder, dict(zip(PLAN_TABLES, frames, strict=True)))
        write_json(folder / "plan.json", made.document())
        (folder / "plan.md").write_text(page, encoding="utf-8")
        save_report(folder, names.REPORT, made.report())
        run.finish(folder, metrics=made.metrics(), tags=tags, tables=tables)


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
