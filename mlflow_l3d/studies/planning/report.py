"""A plan as text."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from mlflow_l3d.designs import design_named
from mlflow_l3d.report.numbers import MISSING, Unit, bracketed, plain, rough_duration, share_text, shorten
from mlflow_l3d.report.table import Part, Table, document


def plan_text(title: str, lines: Sequence[str], tables: Mapping[str, Table], notes: Sequence[str]) -> str:
    """Return a plan as the terminal shows it; the tables stand under their keys."""
    parts: list[Part] = [["", head, *table.lines("  ")] for head, table in tables.items()]
    if any(MISSING in cell for table in tables.values() for row in table.rows for cell in row):
        parts += [[""], _UNKNOWN]
    parts += [["", "Notes"], *[f"- {note}" for note in notes]] if notes else []
    return document(title, lines, parts)


_UNKNOWN: Final = (
    f"{MISSING}: not known from earlier investigations of this kind, or not to be had from so small a one. pilot=run "
    "trains a small part of the plan and measures it; pilot=RUN_ID takes it from an investigation that is done."
)


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
        rows.append(texts | _precision(row))
    return Table.of(rows, _legend("in the pilot", "the errors of the pilot are allowed for"))


def _legend(source: str, how: str) -> str:
    return (
        f"S_T ({source}): share of the variance that the factor causes, alone or in interactions: the "
        "variance that remains if all other factors are fixed. this plan: half-width that its interval keeps with that "
        "probability. "
        f"crossed, nested: rows x columns of the smallest table that is narrow enough; radial: base runs; {how}."
    )


def guidance_rows(guidance: pd.DataFrame) -> Table:
    """Return the tables that are narrow enough for assumed variances."""
    rows = []
    for row in guidance.to_dict("records"):
        assumed = {"S_T": plain(row["total_index"]), "by main effect": "all" if row["main_share"] == 1 else "half"}
        rows.append({**assumed, **_precision(row), "nested columns": f"{row['nested_optimum']:.0f}"})
    return Table.of(rows, _legend("assumed", "effects are assumed to be normal; a pilot may need more"))


def _precision(row: Mapping[Hashable, Any]) -> dict[str, str]:
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
            needed = f"{row['cells_needed']:.0f}" + ("*" if row["never"] else "")
        rows.append(
            {
                "design": str(row["design"]),
                "rows x columns": f"{row['rows']} x {row['columns']}",
                "golden": str(row["golden_runs"]),
                "cells": str(row["cells"]),
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
            "95 % interval": f"+-{unit.text(row['half_width'])}",
            "by cells": share_text(row["by_runs"]),
            "by examples": share_text(row["by_examples"]),
            "by both": share_text(row["by_both"]),
            "": "best" if row["best"] else "",
        }
        for row in projection.to_dict("records")
    ]
    return Table.of(rows, f"In {unit.name}; by: what the variance of the mean comes from.")


def _half_width(value: float) -> str:
    return f"+-{value:.2f}" if math.isfinite(value) else MISSING
