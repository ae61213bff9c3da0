"""What a plan says in words: what its numbers hold, and what is doubtful."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from mlflow_l3d.analysis.planning.runs_needed import MOST_COLUMNS, MOST_ROWS
from mlflow_l3d.analysis.planning.stopping import FIRST_ANALYSIS
from mlflow_l3d.designs import Design, plannable_designs
from mlflow_l3d.studies.planning.tables import never

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_l3d.studies.investigation.specification import Specification
    from mlflow_l3d.studies.planning.pilot import Pilot

ROUGH: Final = 0.3
"""Relative error of the contributed standard deviation from which a pilot is called small."""
TIMES: Final = 1.5
"""From this many times the fewest cells on, a range of cells is told."""
NEAR_ONE: Final = 0.9
"""S_T from which a factor is said to leave too little to compare with: 9 times the variance of all others."""


def planner_notes(
    specification: Specification, known: Pilot, factors: pd.DataFrame, *, workers: int, why: str
) -> list[str]:
    """Return the remarks on a plan.

    Parameters
    ----------
    specification, known
        What is planned, and what is known.
    factors
        What :func:`mlflow_l3d.studies.planning.tables.factor_table` returned.
    workers
        Cells that run side by side.
    why
        Why past runs could not be read, or nothing.
    """
    notes = [why] if why else []
    if not math.isnan(known.seconds):
        note = "Time is that of training and evaluation; loading model and data, once a worker, and scoring come on top"
        side = ", and cells that run side by side may slow each other down" if workers > 1 else ""
        notes.append(f"{note}{side}.")
    notes += known.notes
    notes += _rough_notes(factors)
    notes += _range_notes(factors, specification.plan.design.name)
    plan = specification.plan
    if plan.design.baseline:
        notes.append(
            f"design={plan.design.name} is a baseline strategy: it has no corrected importance and no interval."
        )
    if plan.stop == "interval":
        notes += stop_notes(specification, known)
    notes += never_notes(factors, plan.half_width)
    return notes


def _rough_notes(factors: pd.DataFrame) -> list[str]:
    """Say which pilots are so small that what follows from them may be far off."""
    rough = factors[factors["pilot_error"] > ROUGH]
    notes = []
    for (design, rows, columns), group in rough.groupby(["pilot_design", "pilot_rows", "pilot_columns"]):
        names_of = ", ".join(group["factor"])
        notes.append(
            f"The pilot of {names_of} is small ({design} {rows:.0f} x {columns:.0f}): the standard deviation that a "
            f"factor contributes is known to about +-{group['pilot_error'].max():.0%} only, and S_T may lie anywhere "
            "in its interval. The runs needed may be wrong by many times; compare the table of assumed S_T."
        )
    return notes


def _range_notes(factors: pd.DataFrame, design: str) -> list[str]:
    """Say how far the cells that are needed depend on what the pilot does not know."""
    known = factors[factors["cells_high"] > TIMES * factors["cells_low"]]
    ranges = [
        f"{row['factor']} {row['cells_low']:,.0f} to "
        + (f"{row['cells_high']:,.0f}" if math.isfinite(row["cells_high"]) else "more than any table has")
        for row in known.to_dict("records")
    ]
    if not ranges:
        return []
    return [
        f"The pilot leaves open how many cells the {design} design needs. Over its 95 % intervals: "
        f"{'; '.join(ranges)}. A larger pilot costs less than a plan that is wrong."
    ]


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
            alike.setdefault((where, float(share) > NEAR_ONE), []).append(str(factor))
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


def stop_notes(specification: Specification, known: Pilot) -> list[str]:
    """Say after which look the interval rule may stop, where variances of every factor are known."""
    plan = specification.plan
    if not set(specification.factors) <= set(known.factors):
        return []
    most = 0
    for each in known.factors.values():
        if not (each.components.total > 0 and each.components.contributed > 0):
            return []
        found = plan.design.needed(plan.half_width, each.components, plan.investigation_runs)
        if found.rows is None:
            return []
        most = max(most, found.rows)
    interim = FIRST_ANALYSIS
    while interim < most:
        interim *= 2
    if interim > plan.mitigation_runs:
        return [f"stop=interval is not expected to stop before all {plan.mitigation_runs} rows are run."]
    return [f"stop=interval is expected to stop after about {interim} rows, or earlier where intervals leave 0."]


def _limit(design: type[Design]) -> str:
    columns = f" and {MOST_COLUMNS:,} columns" if _shares_columns(design) else ""
    return f"{MOST_ROWS:,} {design.rows_word}{columns}"


def _shares_columns(design: type[Design]) -> bool:
    return design.planning is not None and design.planning.shared_columns
