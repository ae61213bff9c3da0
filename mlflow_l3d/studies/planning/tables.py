"""The tables of a plan: its cells, its factors, and the designs side by side; as numbers, and as people read them."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.planning.assurance import Outlook, optimal_columns
from mlflow_l3d.analysis.planning.runs_needed import column_choices
from mlflow_l3d.analysis.planning.stopping import FIRST_ANALYSIS
from mlflow_l3d.cells.factors import TEST_SAMPLE
from mlflow_l3d.designs import Design, design_named, plannable_designs
from mlflow_l3d.report.numbers import MISSING, Unit, bracketed, plain, rough_duration, share_text, shorten
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.planning.pilot import FactorPilot

Pilots = Mapping[str, FactorPilot]
"""Factor -> what an earlier investigation says of it."""
_OF_PILOT: Final = (
    *("total_index", "low", "high", "pilot_enough"),
    *("settled_by", "pilot_design", "pilot_run_id", "pilot_same", "pilot_rows", "pilot_columns"),
)
NEEDED: Final = ("cells_needed", "rows_needed", "columns_needed")
_LEGEND: Final = (
    "S_T (in the pilot): share of the variance that the factor causes, alone or in interactions: the variance that "
    "remains if all other factors are fixed. this plan: half-width that its interval keeps with that probability. "
    "crossed, nested: rows x columns of the smallest table that is narrow enough; radial: base runs; the errors of the "
    "pilot are allowed for."
)


def cell_table(request: InvestigationRequest, done: Collection[str]) -> pd.DataFrame:
    """Count the cells of a plan; `done` are keys of cells that need not be computed.

    Returns
    -------
    pandas.DataFrame
        ``phase``, ``factor``, ``cells``, ``done``, ``to_compute``: one row per phase and factor. A cell
        that stands at two places is computed once, so ``to_compute`` may be less than ``cells`` minus ``done``.
    """
    places = ((cell.phase, cell.factor, 1, cell.key in done, cell.key) for cell in request.design().cells())
    cells = pd.DataFrame(places, columns=["phase", "factor", "cells", "done", "key"])
    cells["to_compute"] = ~cells["done"] & ~cells["key"].duplicated()
    return cells.drop(columns="key").groupby(["phase", "factor"], dropna=False, sort=False).sum().reset_index()


def factor_table(request: InvestigationRequest, pilots: Pilots, assurance: float) -> pd.DataFrame:
    """Say for each factor what the pilot found, how exact the plan will be, and how many runs it needs.

    Parameters
    ----------
    request
        What is planned.
    pilots
        Factor -> what an earlier investigation says.
    assurance
        Probability with which intervals are as narrow as is said.

    Returns
    -------
    pandas.DataFrame
        One row per factor: ``factor``, ``total_index`` (S_T) with ``low`` and ``high``, the pilot (``pilot_design``,
        ``pilot_rows``, ``pilot_columns``, ``pilot_run_id``, ``pilot_same``, and ``pilot_enough``, whether it is so
        large that plans keep their probability), ``half_width`` of the plan, ``nested_optimum`` (columns), and for each
        possible design ``rows/<design>``, ``columns/<design>``, ``cells/<design>``: the smallest table for the wanted
        half-width. Unknown numbers are nan.
    """
    rows = []
    for factor in request.factors:
        row: dict[str, Any] = {"factor": factor, **dict.fromkeys(_OF_PILOT, math.nan)}
        outlook = None
        if (pilot := pilots.get(factor)) is not None:
            outlook, components = pilot.outlook, pilot.outlook.components
            row |= {"total_index": components.total_index, "low": pilot.low, "high": pilot.high}
            row |= {"pilot_run_id": pilot.run_id, "pilot_same": pilot.same, "settled_by": pilot.settled_by or math.nan}
            row |= {"pilot_rows": components.rows, "pilot_columns": components.columns}
            row["pilot_design"] = components.design
            row["pilot_enough"] = design_named(components.design).promises(components)
        rows.append(row | _precision(request, outlook, assurance))
    return pd.DataFrame(rows)


def design_table(
    request: InvestigationRequest, pilots: Pilots, seconds: float, workers: int, factors: pd.DataFrame, assurance: float
) -> pd.DataFrame:
    """Put the designs side by side: the same numbers of rows and columns in each; if rows are auto, those of each.

    Parameters
    ----------
    request, pilots
        As in :func:`factor_table`.
    seconds
        Of a cell; nan where unknown.
    workers
        Cells that run side by side.
    factors
        What :func:`factor_table` returned.
    assurance
        As there.

    Returns
    -------
    pandas.DataFrame
        One row per possible design: ``design``, ``rows``, ``columns``, ``golden_runs``, ``cells``, ``hours`` for all
        cells from nothing, ``half_width/<factor>``, and ``rows_needed``, ``columns_needed``, ``cells_needed``,
        ``hours_needed``: of the investigation whose tables, all of one size, are narrow enough for every factor,
        golden runs included.
        ``never`` names the factors, separated by commas, for which no table of the design is expected to be narrow
        enough: the needed cells are those of the other factors. Unknown numbers are nan.
    """
    plan = request.plan
    factor_count, columns = len(request.factors), plan.investigation_runs
    is_auto = request.given["mitigation_runs"] == "auto" and plan.mitigation_runs == plan.design.auto_rows
    rows = []
    for name, design in possible_designs(request).items():
        own_rows = design.auto_rows if is_auto else plan.mitigation_runs
        golden = own_rows * columns if plan.design.tables_are_golden else plan.golden_runs
        golden_runs = 0 if design.tables_are_golden else golden
        cells = design.count(factor_count, own_rows, columns, golden_runs)
        row: dict[str, Any] = {"design": name, "rows": own_rows}
        row |= {"columns": design.table_columns or columns, "golden_runs": golden_runs, "cells": cells}
        row["hours"] = seconds * cells / 3600 / workers
        size = {"rows": own_rows, "columns": columns}
        for factor in request.factors:
            outlook = pilots[factor].outlook if factor in pilots else None
            width = math.nan if outlook is None else design.half_width(outlook, **size, assurance=assurance)
            row[f"half_width/{factor}"] = width
        needed = dict(zip(NEEDED, _size_needed(request, pilots, factors, name, assurance), strict=True))
        row |= {"never": ", ".join(never(factors, name)), **needed}
        rows.append(row | {"hours_needed": needed["cells_needed"] * seconds / 3600 / workers})
    return pd.DataFrame(rows)


def never(factors: pd.DataFrame, design: str) -> list[str]:
    """Return the factors whose variances are known and for which no table of a design is narrow enough.

    Parameters
    ----------
    factors
        What :func:`factor_table` returned.
    design
        One of the designs.
    """
    hopeless = factors["nested_optimum"].notna() & factors[f"cells/{design}"].isna()
    return [str(name) for name in factors.loc[hopeless, "factor"]]


def _size_needed(
    request: InvestigationRequest, pilots: Pilots, factors: pd.DataFrame, design_name: str, assurance: float
) -> tuple[float, float, float]:
    """Return cells, rows and columns that are enough for all factors that a design can do; nan if they are not known.

    The tables of an investigation have one size. Tried are columns from the best for one factor to those for another.
    """
    plan = request.plan
    design = design_named(design_name)
    golden = request.given["golden_runs"]
    able = factors[~factors["factor"].isin(never(factors, design_name))]
    least = FIRST_ANALYSIS + 1 if plan.stop == "interval" else 2
    sizes: list[tuple[float, float, float]] = []
    if len(able) and not able[f"cells/{design_name}"].isna().any():
        best = {int(each) for each in able[f"columns/{design_name}"]}
        best |= {each for each in column_choices() if min(best) < each < max(best)}
        for columns in {plan.investigation_runs} if plan.joint == "product" else best:
            outlooks = (pilots[factor].outlook for factor in able["factor"])
            tables = [design.needed(plan.half_width, each, columns, assurance).rows for each in outlooks]
            if None not in tables:
                rows = max([least, *(each for each in tables if each is not None)])
                golden_runs = rows * columns if golden == "auto" else plan.golden_runs
                sizes.append((design.count(len(able), rows, columns, golden_runs), rows, columns))
    return min(sizes, default=(math.nan, math.nan, math.nan))


def possible_designs(request: InvestigationRequest) -> dict[str, type[Design]]:
    """Return the plannable designs that have the stopping rule, columns, strategies and factors of what is planned."""
    plan, halves = request.plan, TEST_SAMPLE in request.factors
    return {
        name: design
        for name, design in plannable_designs().items()
        if (plan.joint == "paired" or design.products)
        and plan.stop in ("none", *design.stops)
        and (design.mitigates or not plan.mitigation)
        and not (halves and design.tables_are_golden)
    }


def _precision(request: InvestigationRequest, pilot: Outlook | None, assurance: float) -> dict[str, Any]:
    """Return expected half-width of the plan, the optimum of columns, and the runs needed in each design."""
    plan = request.plan
    row: dict[str, Any] = {"half_width": math.nan, "nested_optimum": math.nan}
    if pilot is not None:
        size = {"rows": plan.mitigation_runs, "columns": plan.investigation_runs}
        row["half_width"] = plan.design.half_width(pilot, **size, assurance=assurance)
        if pilot.components.total > 0 and pilot.components.contributed > 0:
            row["nested_optimum"] = optimal_columns(pilot.components.total_index)
        else:
            pilot = None
    for name, design in possible_designs(request).items():
        table = None if pilot is None else design.needed(plan.half_width, pilot, assurance=assurance)
        row |= {
            f"{what}/{name}": float(getattr(table, what, None) or math.nan) for what in ("rows", "columns", "cells")
        }
    return row


def cell_rows(cells: pd.DataFrame) -> Table:
    """Return the cells of a plan."""
    texts = cells.fillna("").astype(str).itertuples(index=False, name=None)
    rows = tuple((f"{phase} {factor}".strip(), *counts) for phase, factor, *counts in texts)
    return Table(("", "cells", "done", "to compute"), rows)


def factor_rows(factors: pd.DataFrame) -> Table:
    """Return the facts about each factor, and the tables that are narrow enough."""
    rows = []
    for row in factors.to_dict("records"):
        texts = {"factor": shorten(str(row["factor"]), 26), "S_T": plain(row["total_index"])}
        texts |= {"95 % interval": bracketed(row["low"], row["high"], plain), "pilot": MISSING}
        if isinstance(row["pilot_design"], str):
            small = "" if row["pilot_enough"] else ", small"
            texts["pilot"] = f"{row['pilot_design']} {row['pilot_rows']:.0f}x{row['pilot_columns']:.0f}{small}"
        rows.append(texts | _precision_texts(row))
    return Table.of(rows, _LEGEND)


def _precision_texts(row: Mapping[Hashable, Any]) -> dict[str, str]:
    texts = {"this plan": _half_width(row["half_width"])}
    for design in [str(name).removeprefix("rows/") for name in row if str(name).startswith("rows/")]:
        rows, columns = row[f"rows/{design}"], row[f"columns/{design}"]
        if not math.isfinite(rows):
            texts[design] = "never" if math.isfinite(row["nested_optimum"]) else MISSING
        else:
            texts[design] = f"{rows:.0f}" if design_named(design).table_columns else f"{rows:.0f}x{columns:.0f}"
    return texts


def design_rows(designs: pd.DataFrame) -> Table:
    """Return the designs side by side."""
    widths = designs.filter(like="half_width/").max(axis=1, skipna=False)
    rows = []
    for row, width in zip(designs.to_dict("records"), widths, strict=True):
        needed = MISSING if not row["never"] else "never"
        if math.isfinite(row["cells_needed"]):
            needed = f"{row['cells_needed']:,.0f}" + ("*" if row["never"] else "")
        rows.append(
            {
                "design": str(row["design"]),
                "rows x columns": f"{row['rows']} x {row['columns']}",
                "golden": f"{row['golden_runs']:,}",
                "cells": f"{row['cells']:,}",
                "time": rough_duration(row["hours"]),
                "widest": _half_width(width),
                "cells needed": needed,
                "time needed": rough_duration(row["hours_needed"]),
            }
        )
    legend = (
        "widest: half-width of the factor that is known least. needed: for the wanted half-width of every "
        "factor, golden runs included."
    )
    if designs["never"].ne("").any():
        legend += " never: no table is likely to be narrow enough, see the notes; *: for the other factors alone."
    return Table.of(rows, legend)


def projection_rows(projection: pd.DataFrame, unit: Unit) -> Table:
    """Return what a budget buys."""
    rows = [
        {
            "test examples": f"{row['examples']:,}",
            "cells": f"{row['runs']:,}",
            "95 % interval": f"± {unit.text(row['half_width'])}",
            "by cells": share_text(row["by_runs"]),
            "by examples": share_text(row["by_examples"]),
            "by both": share_text(row["by_both"]),
            "": "best" if row["best"] else "",
        }
        for row in projection.to_dict("records")
    ]
    return Table.of(rows, f"In {unit.name}; by: what the variance of the mean comes from.")


def _half_width(value: float) -> str:
    return f"± {value:.2f}" if math.isfinite(value) else MISSING
