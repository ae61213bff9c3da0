"""A plan as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from mlflow_l3d.designs import design_named
from mlflow_l3d.report.numbers import MISSING, bracketed, plain, rough_duration, shorten
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import document, heading, wrap

_NAME_WIDTH = 26


def plan_text(
    title: str,
    *,
    lines: Sequence[str],
    half_width: float,
    cells: pd.DataFrame,
    factors: pd.DataFrame,
    designs: pd.DataFrame,
    guidance: pd.DataFrame | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return a plan as people read it.

    Parameters
    ----------
    title
        First line.
    lines
        What is planned and what it costs.
    half_width
        Wanted half-width of the interval of the corrected importance.
    cells, factors, designs, guidance
        Tables of :mod:`mlflow_l3d.studies.planning.tables`; `guidance` only where variances are not known well.
    notes
        Remarks.

    Returns
    -------
    str
        Lines of at most 100 characters.
    """
    blocks = [*heading(title), *[part for line in lines for part in wrap(line)], "", "Cells", *_cells(cells)]
    wanted = f"wanted half-width of the interval of the corrected importance: {half_width:g}"
    if factors["total_index"].notna().any():
        blocks += ["", f"Factors ({wanted})", *_factors(factors)]
    if guidance is not None:
        blocks += ["", f"For assumed values of S_T ({wanted})", *_guidance(guidance)]
    blocks += ["", "Designs side by side (all cells, computed from nothing)", *_designs(designs)]
    blocks += ["", "Notes"] if notes else []
    return document([*blocks, *[part for note in notes for part in wrap(f"- {note}", "  ")]])


def _cells(cells: pd.DataFrame) -> list[str]:
    rows = []
    for phase, factor, *counts in cells.itertuples(index=False, name=None):
        name = f"{phase} {factor}" if isinstance(factor, str) else str(phase)
        rows.append((name, *map(str, counts)))
    return Table(("", "cells", "done", "to compute"), tuple(rows)).lines("  ")


def _factors(factors: pd.DataFrame) -> list[str]:
    rows = []
    for _, row in factors.iterrows():
        pilot = MISSING
        if isinstance(row["pilot_design"], str):
            pilot = f"{row['pilot_design']} {row['pilot_rows']:.0f}x{row['pilot_columns']:.0f}"
        name = shorten(str(row["factor"]), _NAME_WIDTH)
        rows.append(
            (name, plain(row["total_index"]), bracketed(row["low"], row["high"], plain), pilot, *_precision(row))
        )
    head = ("factor", "S_T", "95 % interval", "pilot", "this plan", *_designs_of(factors))
    return Table(head, tuple(rows), _legend("in the pilot")).lines("  ")


def _legend(source: str) -> str:
    return (
        f"S_T ({source}): share of the variance that the factor has a part in, alone or in interactions: what is left "
        "when all other factors are fixed. this plan: expected half-width. crossed, nested: rows x columns of the "
        "smallest table that is expected to be narrow enough; radial: base runs."
    )


def _guidance(guidance: pd.DataFrame) -> list[str]:
    rows = []
    for _, row in guidance.iterrows():
        main = "all" if row["main_share"] == 1 else "half"
        rows.append((plain(row["total_index"]), main, *_precision(row), f"{row['nested_optimum']:.0f}"))
    head = ("S_T", "by main effect", "this plan", *_designs_of(guidance), "nested columns")
    return Table(head, tuple(rows), _legend("assumed")).lines("  ")


def _designs_of(columns: Iterable[object]) -> list[str]:
    """Return the designs that columns of a table are about."""
    return [str(name).removeprefix("rows/") for name in columns if str(name).startswith("rows/")]


def _precision(row: pd.Series) -> tuple[str, ...]:
    found = [_half_width(row["half_width"])]
    for design in _designs_of(row.index):
        rows, columns = row[f"rows/{design}"], row[f"columns/{design}"]
        if not math.isfinite(rows):
            found.append("never" if math.isfinite(row["nested_optimum"]) else MISSING)
        else:
            found.append(f"{rows:.0f}" if design_named(design).table_columns else f"{rows:.0f}x{columns:.0f}")
    return tuple(found)


def _designs(designs: pd.DataFrame) -> list[str]:
    widths = designs[[name for name in designs if str(name).startswith("half_width/")]].max(axis=1, skipna=False)
    rows = []
    for (_, row), width in zip(designs.iterrows(), widths, strict=True):
        needed = MISSING if not row["never"] else "never"
        if math.isfinite(row["cells_needed"]):
            needed = f"{row['cells_needed']:.0f}" + ("*" if row["never"] else "")
        counts = f"{row['rows']} x {row['columns']}", str(row["golden_runs"]), str(row["cells"])
        time = rough_duration(row["hours"])
        rows.append(
            (str(row["design"]), *counts, time, _half_width(width), needed, rough_duration(row["hours_needed"]))
        )
    legend = (
        "widest: expected half-width of the factor that is known least. needed: for the wanted half-width of every "
        "factor, without golden runs."
    )
    if designs["never"].ne("").any():
        legend += " never: no table is expected to be narrow enough, see the notes; *: for the other factors alone."
    head = ("", "rows x columns", "golden", "cells", "time", "widest", "cells needed", "time needed")
    return Table(head, tuple(rows), legend).lines("  ")


def _half_width(value: float) -> str:
    return f"+-{value:.2f}" if math.isfinite(value) else MISSING
