"""A plan: how many cells an investigation has, what they cost, how many it needs, and what is doubtful."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.planning.runs_needed import MOST_COLUMNS, MOST_ROWS
from mlflow_l3d.analysis.planning.stopping import FIRST_ANALYSIS
from mlflow_l3d.designs import Design, plannable_designs
from mlflow_l3d.designs.base import FEWEST_PILOT_COLUMNS
from mlflow_l3d.report.numbers import counted, rough_duration, unit_of
from mlflow_l3d.studies.files import json_types
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.planning import report
from mlflow_l3d.studies.planning.pilot import Pilot
from mlflow_l3d.studies.planning.tables import never
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names


@dataclass(frozen=True, repr=False)
class Plan(OnOneScreen):
    """What an investigation would cost, and how exact it would be.

    Attributes
    ----------
    request
        What is planned.
    cells, cells_done, cells_to_compute
        Cells of the design; those that the tracking server holds already; and those to train, a cell that stands at
        two places counted once.
    seconds_per_cell
        Mean wall clock of a cell; nan where unknown.
    workers
        Cells that run side by side.
    hours
        Wall clock of the cells to compute; nan where unknown. The loading of model and data, once a worker, is not
        part of it, and neither is the scoring at the end.
    cost_source
        Where the seconds come from, in one line.
    pilot_run_id
        The parent whose variances were taken, or that was run as a pilot; None where there is none, or several.
    counts
        One row a phase and factor, see :func:`mlflow_l3d.studies.planning.tables.cell_table`.
    factors
        One row per factor, see :func:`mlflow_l3d.studies.planning.tables.factor_table`.
    designs
        One row a design, see :func:`mlflow_l3d.studies.planning.tables.design_table`.
    guidance
        Assumed variances, in place of those of a pilot or beside a small one; None where every pilot is large enough.
    assurance
        Probability with which intervals are as narrow as is said.
    notes
        What the numbers hold and what is doubtful.
    projection
        What a budget buys, see :func:`mlflow_l3d.studies.planning.budget.projected`; None where none was given, or
        nothing is known.
    run_id
        The MLflow run that holds the plan; None where there is none.
    """

    request: InvestigationRequest
    cells: int
    cells_done: int
    cells_to_compute: int
    seconds_per_cell: float
    workers: int
    hours: float
    cost_source: str
    pilot_run_id: str | None
    counts: pd.DataFrame
    factors: pd.DataFrame
    designs: pd.DataFrame
    guidance: pd.DataFrame | None
    notes: tuple[str, ...]
    assurance: float = 0.8
    projection: pd.DataFrame | None = None
    run_id: str | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return one row per factor."""
        return self.factors.copy()

    def summary(self) -> str:
        """Return the plan as the command line prints it."""
        request = self.request
        wanted = f"wanted half-width of the corrected importance: {request.plan.half_width:g}, kept with "
        wanted += f"{self.assurance:.0%}"
        tables = {"Cells": report.cell_rows(self.counts)}
        if self.factors["total_index"].notna().any():
            tables[f"Factors ({wanted})"] = report.factor_rows(self.factors)
        if self.guidance is not None:
            tables[f"For assumed values of S_T ({wanted})"] = report.guidance_rows(self.guidance)
        tables["Designs side by side (all cells, computed from nothing)"] = report.design_rows(self.designs)
        if self.projection is not None:
            rows = report.projection_rows(self.projection, unit_of(request.metric))
            tables[f"What the budget says of the mean {request.metric}"] = rows
        most = " at most (a stopping rule may end it)" if request.plan.stop != "none" else ""
        cost = f"{self.seconds_per_cell:.3g} s a cell ({self.cost_source}), {counted(self.workers, 'worker')}: "
        cost += f"{rough_duration(self.hours)} for the cells to compute"
        if math.isnan(self.seconds_per_cell):
            cost = f"cost {self.cost_source}. pilot=run measures it with a small part of the plan."
        done = f"{self.cells} cells, {self.cells_done} of them done on the tracking server, "
        lines = [request.plan.words(), f"{done}{self.cells_to_compute} to compute{most}", cost]
        return report.plan_text(f"plan: {request.title}", lines, tables, self.notes)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the run of a plan; those that are not known are left out."""
        numbers = ("cells", "cells_done", "cells_to_compute", "seconds_per_cell", "hours")
        values = {f"plan_{name}": float(getattr(self, name)) for name in numbers}
        design = self.request.plan.design
        for row in self.factors.to_dict("records"):
            factor = names.metric_name(str(row["factor"]))
            values[f"expected_half_width/{factor}"] = float(row["half_width"])
            if design.planning is not None:
                values[f"runs_needed/{factor}"] = float(row[f"cells/{design.name}"])
        return {name: value for name, value in values.items() if math.isfinite(value)}

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON types, free of private paths; numbers that are not known are null."""
        shown = [each.name for each in fields(self) if each.name not in ("request", "run_id")]
        numbers = {name: getattr(self, name) for name in shown}
        about = {"half_width": self.request.plan.half_width, "investigation": self.request.document()}
        return dict(json_types({"schema": 1, **numbers, **about}))


def planner_notes(
    request: InvestigationRequest, pilot: Pilot, factors: pd.DataFrame, *, assurance: float, workers: int, why: str
) -> list[str]:
    """Return the remarks on a plan.

    Parameters
    ----------
    request, pilot
        What is planned, and what is known.
    factors
        What :func:`mlflow_l3d.studies.planning.tables.factor_table` returned.
    assurance
        Probability with which intervals are as narrow as is said.
    workers
        Cells that run side by side.
    why
        Why past runs could not be read, or nothing.
    """
    notes = [why] if why else []
    if not math.isnan(pilot.seconds):
        note = "Time is that of training and evaluation; loading model and data, once a worker, and scoring come on top"
        side = ", and cells that run side by side may slow each other down" if workers > 1 else ""
        notes.append(f"{note}{side}.")
    notes += pilot.notes
    notes += _small_notes(factors, assurance)
    plan = request.plan
    if plan.design.baseline:
        notes.append(
            f"design={plan.design.name} is a baseline strategy: it has no corrected importance and no interval."
        )
    if plan.stop == "interval":
        notes += stop_notes(request, pilot)
    notes += never_notes(factors, plan.half_width)
    return notes


def _small_notes(factors: pd.DataFrame, assurance: float) -> list[str]:
    """Say which pilots are too small for a promise, and which are not."""
    small = factors[factors["pilot_enough"].eq(False)]
    sizes = [
        f"{name} {design.auto_rows}"
        + (f" x {FEWEST_PILOT_COLUMNS}" if design.model.shared_columns else f" {design.words.row}")
        for name, design in plannable_designs().items()
    ]
    return [
        f"The pilot of {', '.join(group['factor'])} ({design} {rows:.0f} x {columns:.0f}) is too small for a promise: "
        f"the runs needed are a guess, and may be too few in more than {1 - assurance:.0%} of cases. In simulations "
        f"plans are kept from pilots of {', '.join(sizes)} on. Compare the table of assumed S_T."
        for (design, rows, columns), group in small.groupby(["pilot_design", "pilot_rows", "pilot_columns"])
    ]


def advice(request: InvestigationRequest, designs: pd.DataFrame) -> tuple[str, ...]:
    """Say which design takes the fewest cells: by the table of designs, where it tells, else by the numbers of cells.

    Parameters
    ----------
    request
        What is planned.
    designs
        What :func:`mlflow_l3d.studies.planning.tables.design_table` returned.
    """
    needed = designs.loc[designs["never"].eq(""), ["design", "cells_needed"]].dropna().sort_values("cells_needed")
    if needed.empty:
        return request.offer
    each = [f"design={name} {cells:,.0f}" for name, cells in needed.itertuples(index=False)]
    return (f"Cells for the wanted half-width of every factor, fewest first: {', '.join(each)}.",)


def never_notes(factors: pd.DataFrame, half_width: float) -> list[str]:
    """Say for which factors no table is expected to be narrow enough, in which designs, and why.

    Parameters
    ----------
    factors
        What :func:`mlflow_l3d.studies.planning.tables.factor_table` returned.
    half_width
        What is wanted.
    """
    designs = plannable_designs()
    alike: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    shares = factors.set_index("factor")["total_index"]
    for factor, share in shares.items():
        where = tuple(design for design in designs if factor in never(factors, design))
        if where:
            # A factor leaves too little to compare with from 9 times the variance of all others on.
            alike.setdefault((where, float(share) > 0.9), []).append(str(factor))
    notes = []
    for (where, near), hopeless in alike.items():
        named = ", ".join(f"{factor} (S_T {shares[factor]:.2f})" for factor in hopeless)
        limits = " and no ".join(f"{design} table of up to {_limit(designs[design])}" for design in where)
        if near:
            why = "S_T is so near 1 that too little is left of the other factors to compare with"
        elif all(_shares_columns(designs[design]) for design in where):
            why = "it needs more columns, and rows do not help"
        else:
            why = f"half_width={half_width:g} asks for more"
        others = [f"design={design}" for design in designs if design not in where]
        helps = " or ".join([*others[:1], "a larger half_width"])
        notes.append(f"No {limits} is likely to be narrow enough for {named}: {why}. Use {helps}.")
    return notes


def stop_notes(request: InvestigationRequest, pilot: Pilot) -> list[str]:
    """Say after which look the interval rule may stop, where variances of every factor are known."""
    plan = request.plan
    if not set(request.factors) <= set(pilot.factors):
        return []
    most = 0
    for each in pilot.factors.values():
        if not (each.components.total > 0 and each.components.contributed > 0):
            return []
        table = plan.design.needed(plan.half_width, each.components, plan.investigation_runs)
        if table.rows is None:
            return []
        most = max(most, table.rows)
    interim = FIRST_ANALYSIS
    while interim < most:
        interim *= 2
    if interim > plan.mitigation_runs:
        return [f"stop=interval is not expected to stop before all {plan.mitigation_runs} rows are run."]
    return [f"stop=interval is expected to stop after about {interim} rows, or earlier where intervals leave 0."]


def _limit(design: type[Design]) -> str:
    columns = f" and {MOST_COLUMNS:,} columns" if _shares_columns(design) else ""
    return f"{MOST_ROWS:,} {design.words.row}{columns}"


def _shares_columns(design: type[Design]) -> bool:
    return design.planning is not None and design.planning.shared_columns
