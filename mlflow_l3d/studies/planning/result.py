"""A plan: how many cells an investigation has, what they cost, and how many it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from mlflow_l3d.studies.files import json_types
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_l3d.studies.investigation.request import InvestigationRequest


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
        from mlflow_l3d.report.numbers import counted, rough_duration, unit_of
        from mlflow_l3d.studies.planning import report

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
