"""A plan: how many cells an investigation has, what they cost, how many it needs; and the files of its run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import pandas as pd

from mlflow_l3d.report.numbers import MISSING, counted, listed, percent, rough_duration, unit_of
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.table import Part, Table, document
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.files import json_types, save_report, write_json, write_tables
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.planning import tables as shown
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import Client

_DESIGNS: Final = "Designs side by side (all cells, computed from nothing)"
_MORE: Final = "More numbers and notes: .details() of mlflow_l3d.plan(...); `mlflow run` writes them to plan.md."
_UNKNOWN: Final = (
    f"{MISSING}: not known from earlier investigations of this kind, or not to be had from so small a one. pilot=run "
    "trains a small part of the plan and measures it; pilot=RUN_ID takes it from an investigation that is done."
)
PLAN_TABLES: Final = tuple(f"plan_{name}.json" for name in ("cells", "factors", "designs", "projection"))
_NOTES: Final = 3
"""Notes of a first screen."""


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
        The parent whose variances were taken, or that was run as a pilot; None if there is none, or several.
    counts
        One row a phase and factor, see :func:`mlflow_l3d.studies.planning.tables.cell_table`.
    factors
        One row per factor, see :func:`mlflow_l3d.studies.planning.tables.factor_table`.
    designs
        One row a design, see :func:`mlflow_l3d.studies.planning.tables.design_table`.
    assurance
        Probability with which intervals are as narrow as is said.
    notes
        What the numbers hold and what is doubtful.
    projection
        What a budget buys, see :func:`mlflow_l3d.studies.planning.run.projected`; None where none was given, or
        nothing is known.
    run_id
        The MLflow run that holds the plan; None if there is none.
    requests
        What the cells to compute send to an endpoint; empty if the model is here.
    equal_run
        A pilot whose scores are all equal, so that it shows no variances; empty if there is none.
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
    notes: tuple[str, ...]
    assurance: float = 0.8
    projection: pd.DataFrame | None = None
    run_id: str | None = None
    requests: str = ""
    equal_run: str = ""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per factor."""
        return self.factors.copy()

    @property
    def settled(self) -> list[str]:
        """Factors that are undecided, and have the rows that the report of the pilot recommends for them."""
        rows = self.factors["settled_by"].astype(float)
        return [*self.factors["factor"][rows <= self.request.plan.mitigation_runs]]

    @property
    def able(self) -> pd.DataFrame:
        """The designs that keep the wanted half-width of every factor, that with the fewest cells first."""
        return self.designs[self.designs["never"].eq("")].dropna(subset=["cells_needed"]).sort_values("cells_needed")

    @property
    def cheapest(self) -> pd.Series[Any] | None:
        """The first of :attr:`able`; None if there is none."""
        able = self.able
        return None if able.empty else able.iloc[0]

    def report(self) -> Document:
        """Return the plan as people read it."""
        source, tables = self.request.source(""), self._tables()
        more = [note for note in self.notes if note not in self.request.setup.origin.notes]
        notes = [note.partition(". ")[0].rstrip(".") + "." for note in more[:_NOTES]]
        return Document(
            title=f"plan: {self.request.title}",
            headline=f"{self.requests}." if self.requests else self._headline(),
            about=source.about(),
            place=source.place(self.request.plan.words()),
            answers=[each for each in self._answers() if not each.lead.startswith("Not known")],
            table=replace(tables[_DESIGNS], note="") if self.factors["total_index"].notna().any() else None,
            steps=self._steps(),
            remarks=[*notes, _MORE],
            notes=notes,
            sections=[
                *(Section(title, [each]) for title, each in tables.items()),
                Section("Notes", [[Item(note) for note in self.notes]]),
            ],
        )

    def details(self) -> str:
        """Return the numbers behind the answers as text: cells, factors, assumed values, designs and notes."""
        tables = self._tables()
        parts: list[Part] = [["", head, *table.lines("  ")] for head, table in tables.items()]
        if any(MISSING in cell for table in tables.values() for row in table.rows for cell in row):
            parts += [[""], _UNKNOWN]
        if self.notes:
            parts += [["", "Notes"], *[f"- {note}" for note in self.notes]]
        return document(f"plan: {self.request.title}", [self.request.plan.words()], parts)

    def _tables(self) -> dict[str, Table]:
        wanted = f"wanted half-width of the corrected importance: {self.request.plan.half_width:g}, kept with "
        wanted += percent(self.assurance)
        tables = {"Cells": shown.cell_rows(self.counts)}
        if self.factors["total_index"].notna().any():
            tables[f"Factors ({wanted})"] = shown.factor_rows(self.factors)
        tables[_DESIGNS] = shown.design_rows(self.designs)
        if self.projection is not None:
            rows = shown.projection_rows(self.projection, unit_of(self.request.metric))
            tables[f"What the budget says of the mean {self.request.metric}"] = rows
        return tables

    def _headline(self) -> str:
        plan, width = self.request.plan, self.factors["half_width"].max(skipna=False)
        time = f" ({rough_duration(self.hours)})" if math.isfinite(self.hours) else ""
        cells = f"{counted(self.cells_to_compute, 'cell')} to compute{time}"
        if plan.design.baseline:
            return f"{cells}; design={plan.design.name} has no interval."
        if self.factors["total_index"].isna().any():
            if self.equal_run:
                return f"{cells}; all scores of run {self.equal_run} are equal, so its exactness is not known."
            costs = "what they cost and " if math.isnan(self.seconds_per_cell) else ""
            return f"{cells}; a pilot shows {costs}how exact the result is."
        every = counted(self.cells, "cell")
        wanted = f"for intervals of ± {plan.half_width:g}"
        if width <= plan.half_width:
            return f"{every} are enough {wanted}; {self.cells_to_compute:,} to compute{time}."
        if settled := self.settled:
            return f"{every} may settle {listed(settled)}; {self.cells_to_compute:,} to compute{time}."
        if (best := self.cheapest) is None:
            return f"{every} are too few {wanted}."
        needed, hours = best["cells_needed"], best["hours_needed"]
        about = f" ({rough_duration(hours)})" if math.isfinite(hours) else ""
        return f"{every} are too few {wanted}; design={best['design']} needs about {needed:,.0f}{about}."

    def _answers(self) -> tuple[Answer, Answer, Answer]:
        plan = self.request.plan
        most = " at most (a stopping rule may end it)" if plan.stop != "none" else ""
        cost = f"{self.seconds_per_cell:.3g} s a cell ({self.cost_source}), {counted(self.workers, 'worker')}: "
        cost += f"**{rough_duration(self.hours)}** for the cells to compute"
        if math.isnan(self.seconds_per_cell):
            cost = f"The cost is {self.cost_source}"
        done = f"**{self.cells} cells**, {self.cells_done} of them done on the tracking server, "
        why = plan.why or f"design={plan.design.name}, as requested."
        return (
            Answer("What does it cost?", "", (f"{why} {done}**{self.cells_to_compute} to compute**{most}. {cost}.",)),
            Answer("Is it exact enough?", "", (self._exactness(),)),
            Answer("What is cheapest?", "", (self._best(),)),
        )

    def _exactness(self) -> str:
        plan, widths = self.request.plan, self.factors.set_index("factor")["half_width"]
        if plan.design.baseline:
            return f"design={plan.design.name} is a baseline strategy without an interval."
        unknown = self.factors["factor"][self.factors["total_index"].isna()]
        if len(unknown):
            if self.equal_run:
                return f"Not known: all scores of run {self.equal_run} are equal."
            return f"Not known: no earlier investigation says how much {', '.join(unknown)} matters."
        if lacking := list(widths.index[widths.isna()]):
            width = f"The table is too small for an interval of {', '.join(lacking)}"
        else:
            width = f"**± {widths.max():.2f}** around the corrected importance of {widths.idxmax()}"
        guess = " A guess: the pilot is small." if self.factors["pilot_enough"].eq(False).any() else ""
        return f"{width} (wanted: ± {plan.half_width:g}, kept with {percent(self.assurance)} probability).{guess}"

    def _best(self) -> str:
        if self.projection is not None:
            best = self.projection[self.projection["best"]].iloc[0]
            width = unit_of(self.request.metric).amount(best["half_width"])
            what = f"**{best['runs']:,} cells, each with {best['examples']:,} test examples**"
            return f"The budget gives the mean {self.request.metric} to ± {width} (95 % interval) with {what}."
        if len(able := self.able):
            needed = able[["design", "cells_needed"]].itertuples(index=False)
            each = ", ".join(f"design={name} {cells:,.0f}" for name, cells in needed)
            return f"Cells for the wanted half-width of every factor, fewest first: {each}."
        if self.request.offer and not self.request.plan.why:
            return self.request.offer[0]
        if self.factors["total_index"].notna().all():
            return "No design is likely to be exact enough for every factor: name a larger half_width."
        return "Not known before scores differ." if self.equal_run else "Not known before a pilot."

    def _steps(self) -> list[Step]:
        """Return what to do next: a pilot, the size that is exact enough, or the plan as it is."""
        source, best, plan = self.request.source(""), self.cheapest, self.request.plan
        if self.factors["total_index"].isna().any() and not plan.design.baseline:
            if self.equal_run:
                text = "Another pilot shows nothing more. Does each seed reach the training? A self-test shows it:"
                return [Step(text, source.command(self_test="only"))]
            text = "A pilot trains a small part of the plan and measures cost and variances; its cells count:"
            return [Step(text, source.command("plan", pilot="run"))]
        is_enough = self.settled or self.factors["half_width"].max(skipna=False) <= plan.half_width
        if best is not None and not is_enough:
            sizes = {"mitigation_runs": f"{best['rows_needed']:.0f}"}
            sizes["investigation_runs"] = f"{best['columns_needed']:.0f}"
            return [Step("Exact enough, with the fewest cells:", source.command(design=best["design"], **sizes))]
        return [Step("Train it:", source.command())] if self.cells_to_compute else []

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
        shown = [each.name for each in fields(self) if each.name not in ("request", "run_id", "equal_run")]
        numbers = {name: getattr(self, name) for name in shown}
        about = {"half_width": self.request.plan.half_width, "investigation": self.request.document()}
        return dict(json_types({"schema": 1, **numbers, **about}))

    def record(self, client: Client, run_id: str, typed: Mapping[str, str]) -> None:
        """Write the plan to the run that `mlflow run` made for it; `typed` are parameters that only `plan` has."""
        request, report = self.request, self.report()
        page = f"**{report.headline}**\n\n```text\n{self.summary()}\n{self.details()}```\n"
        tags = {
            names.FACTOR: ",".join(request.factors),
            names.DESIGN: request.plan.design.name,
            names.CONTEXT_KEY: request.context_key,
            names.NOTE: page[:5000],
        }
        frames = (self.counts, self.factors, self.designs, self.projection)
        parameters = {**request.given, **typed, "assurance": f"{self.assurance:g}"}
        with auxiliary_run(client, run_id, role="plan", title=report.title, parameters=parameters) as run:
            tables = write_tables(run.folder, dict(zip(PLAN_TABLES, frames, strict=True)))
            write_json(run.folder / "plan.json", self.document())
            (run.folder / "plan.md").write_text(page, encoding="utf-8")
            save_report(run.folder, names.REPORT, report)
            run.finish(metrics=self.metrics(), tags=tags, tables=tables)
