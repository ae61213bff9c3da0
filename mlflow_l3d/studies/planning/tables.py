"""The tables of a plan: its cells, its factors, and the designs side by side."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

import pandas as pd

from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.planning.assurance import Outlook, optimal_columns
from mlflow_l3d.analysis.planning.runs_needed import column_choices
from mlflow_l3d.analysis.planning.stopping import FIRST_ANALYSIS
from mlflow_l3d.cells.factors import TEST_SAMPLE
from mlflow_l3d.designs import Design, design_named, plannable_designs
from mlflow_l3d.studies.investigation.request import InvestigationRequest
from mlflow_l3d.studies.planning.pilot import FactorPilot

_OF_PILOT: Final = (
    *("total_index", "low", "high", "pilot_enough"),
    *("settled_by", "pilot_design", "pilot_run_id", "pilot_same", "pilot_rows", "pilot_columns"),
)
NEEDED: Final = ("cells_needed", "rows_needed", "columns_needed")
ASSUMED: Final = (0.1, 0.5, 0.9)
"""Values of S_T that are shown where no pilot says more."""


def cell_table(request: InvestigationRequest, done: Collection[str]) -> pd.DataFrame:
    """Count the cells of a plan.

    Parameters
    ----------
    request
        What is planned.
    done
        Keys of cells that need not be computed.

    Returns
    -------
    pandas.DataFrame
        ``phase``, ``factor``, ``cells``, ``done``, ``to_compute``: one row per phase and factor. A cell
        that stands at two places is computed once, so ``to_compute`` may be less than ``cells`` minus ``done``.
    """
    places = ((cell.phase, cell.factor, 1, cell.key in done, cell.key) for cell in request.design().cells())
    cells = pd.DataFrame(places, columns=["phase", "factor", "cells", "done", "key"])
    cells["to_compute"] = ~cells["done"] & ~cells["key"].duplicated()
    counts = cells.drop(columns="key").groupby(["phase", "factor"], dropna=False, sort=False)
    return counts.sum().reset_index()


def factor_table(request: InvestigationRequest, pilots: Mapping[str, FactorPilot], assurance: float) -> pd.DataFrame:
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
            row |= {
                "pilot_enough": design_named(components.design).promises(components),
                "pilot_design": components.design,
            }
            row |= {"pilot_run_id": pilot.run_id, "pilot_same": pilot.same, "settled_by": pilot.settled_by or math.nan}
            row |= {"pilot_rows": components.rows, "pilot_columns": components.columns}
        rows.append(row | _precision(request, outlook, assurance))
    return pd.DataFrame(rows)


def guidance_table(request: InvestigationRequest, assurance: float) -> pd.DataFrame:
    """Return what the plan would give for assumed variances: the columns of :func:`factor_table` that need no pilot.

    One row for each S_T of :data:`ASSUMED` and for a factor that acts by its main effect alone, or half by it
    (``main_share``).
    """
    rows = []
    for total_index in ASSUMED:
        for main_share in (1.0, 0.5):
            assumed = assumed_variances(total_index, main_share)
            row: dict[str, Any] = {"total_index": total_index, "main_share": main_share}
            rows.append(row | _precision(request, Outlook(assumed), assurance))
    return pd.DataFrame(rows)


def assumed_variances(total_index: float, main_share: float) -> VarianceComponents:
    """Return variances with a total of 1: S_T of it by the factor, and `main_share` of that by its main effect."""
    main = total_index * main_share
    return VarianceComponents(
        "crossed",
        "anova",
        rows=0,
        columns=0,
        contributed=total_index,
        mitigated=1 - total_index,
        main=main,
        interaction=total_index - main,
    )


def design_table(
    request: InvestigationRequest,
    pilots: Mapping[str, FactorPilot],
    seconds: float,
    workers: int,
    factors: pd.DataFrame,
    assurance: float,
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
        for factor in request.factors:
            pilot = pilots.get(factor)
            row[f"half_width/{factor}"] = (
                design.half_width(pilot.outlook, rows=own_rows, columns=columns, assurance=assurance)
                if pilot
                else math.nan
            )
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
    request: InvestigationRequest,
    pilots: Mapping[str, FactorPilot],
    factors: pd.DataFrame,
    design_name: str,
    assurance: float,
) -> tuple[float, float, float]:
    """Return cells, rows and columns that are enough for all factors that a design can do; nan if they are not known.

    The tables of an investigation have one size. Tried are columns from the best for one factor to those for another.
    """
    plan, design, golden = request.plan, design_named(design_name), request.given["golden_runs"]
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
        if not (pilot.components.total > 0 and pilot.components.contributed > 0):
            pilot = None
    if pilot is not None:
        row["nested_optimum"] = optimal_columns(pilot.components.total_index)
    for name, design in possible_designs(request).items():
        table = None if pilot is None else design.needed(plan.half_width, pilot, assurance=assurance)
        row |= {
            f"{what}/{name}": float(getattr(table, what, None) or math.nan) for what in ("rows", "columns", "cells")
        }
    return row
