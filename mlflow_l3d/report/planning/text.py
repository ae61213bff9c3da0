"""A plan as text: ASCII, no colours, at most 100 columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import pandas as pd

from mlflow_l3d.analysis.importance.variances import DESIGNS
from mlflow_l3d.report.investigation.terminal import WIDTH
from mlflow_l3d.report.investigation.words import MISSING, shorten

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
    title = shorten(title, WIDTH)
    blocks = [title, "=" * len(title)]
    for line in lines:
        blocks += _wrap(line)
    blocks += ["", "Cells", *_cells(cells)]
    wanted = f"wanted half-width of the interval of the corrected importance: {half_width:g}"
    if factors["total_index"].notna().any():
        blocks += ["", f"Factors ({wanted})", *_factors(factors)]
    if guidance is not None:
        blocks += ["", f"For assumed values of S_T ({wanted})", *_guidance(guidance)]
    blocks += ["", "Designs side by side (all cells, computed from nothing)", *_designs(designs)]
    if notes:
        blocks += ["", "Notes"]
        for note in notes:
            blocks += textwrap.wrap(f"- {note}", WIDTH, subsequent_indent="  ")
    return "\n".join(blocks) + "\n"


def duration(hours: float) -> str:
    """Return a wall clock in the unit that people would use, ``n/a`` where it is not known."""
    if not math.isfinite(hours):
        return MISSING
    seconds = hours * 3600
    if seconds < 100:
        return f"{seconds:.3g} s"
    if hours < 2:
        return f"{hours * 60:.0f} min"
    return f"{hours:.1f} h" if hours < 100 else f"{hours / 24:.0f} days"


def seconds_words(seconds: float) -> str:
    """Return the seconds of one cell with three digits."""
    return f"{seconds:.3g} s" if math.isfinite(seconds) else MISSING


def _cells(cells: pd.DataFrame) -> list[str]:
    rows = []
    for phase, factor, *counts in cells.itertuples(index=False, name=None):
        name = f"{phase} {factor}" if isinstance(factor, str) else str(phase)
        rows.append((shorten(name, 60), *(str(count) for count in counts)))
    return _table(("", "cells", "done", "to compute"), rows)


def _factors(factors: pd.DataFrame) -> list[str]:
    head = ("factor", "S_T", "95 % interval", "pilot", "this plan", *DESIGNS)
    rows = []
    for _, row in factors.iterrows():
        pilot = MISSING
        if isinstance(row["pilot_design"], str):
            pilot = f"{row['pilot_design']} {row['pilot_rows']:.0f}x{row['pilot_columns']:.0f}"
        interval = MISSING
        if math.isfinite(row["low"]) and math.isfinite(row["high"]):
            interval = f"[{row['low']:.2f}, {row['high']:.2f}]"
        name = shorten(str(row["factor"]), _NAME_WIDTH)
        rows.append((name, _number(row["total_index"]), interval, pilot, *_precision(row)))
    return [*_table(head, rows), *_wrap(_legend("in the pilot"))]


def _legend(source: str) -> str:
    return (
        f"S_T ({source}): share of the variance that the factor has a part in, alone or in interactions: what is left "
        "when all other factors are fixed. this plan: expected half-width. crossed, nested: rows x columns of the "
        "smallest table that is expected to be narrow enough; radial: base runs."
    )


def _guidance(guidance: pd.DataFrame) -> list[str]:
    head = ("S_T", "by main effect", "this plan", *DESIGNS, "nested columns")
    rows = [
        (
            _number(row["total_index"]),
            "all" if row["main_share"] == 1 else "half",
            *_precision(row),
            f"{row['nested_optimum']:.0f}",
        )
        for _, row in guidance.iterrows()
    ]
    return [*_table(head, rows), *_wrap(_legend("assumed"))]


def _precision(row: pd.Series) -> tuple[str, ...]:
    half_width = row["half_width"]
    found = [f"+-{half_width:.2f}" if math.isfinite(half_width) else MISSING]
    for design in DESIGNS:
        rows, columns = row[f"rows/{design}"], row[f"columns/{design}"]
        if not math.isfinite(rows):
            found.append("never" if math.isfinite(row["nested_optimum"]) else MISSING)
        else:
            found.append(f"{rows:.0f}" if design == "radial" else f"{rows:.0f}x{columns:.0f}")
    return tuple(found)


def _designs(designs: pd.DataFrame) -> list[str]:
    widths = designs[[name for name in designs if str(name).startswith("half_width/")]].max(axis=1, skipna=False)
    head = ("", "rows x columns", "golden", "cells", "time", "widest", "cells needed", "time needed")
    rows = []
    for (_, row), width in zip(designs.iterrows(), widths, strict=True):
        shape = f"{row['rows']} x {row['columns']}"
        needed = MISSING if not row["never"] else "never"
        if math.isfinite(row["cells_needed"]):
            needed = f"{row['cells_needed']:.0f}" + ("*" if row["never"] else "")
        rows.append(
            (
                str(row["design"]),
                shape,
                str(row["golden_runs"]),
                str(row["cells"]),
                duration(row["hours"]),
                f"+-{width:.2f}" if math.isfinite(width) else MISSING,
                needed,
                duration(row["hours_needed"]),
            )
        )
    legend = (
        "widest: expected half-width of the factor that is known least. needed: for the wanted half-width of every "
        "factor, without golden runs."
    )
    if designs["never"].ne("").any():
        legend += " never: no table is expected to be narrow enough, see the notes; *: for the other factors alone."
    return [*_table(head, rows), *_wrap(legend)]


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else MISSING


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a table, the first column to the left; closer together where two spaces do not fit."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    gap = "  " if sum(widths) + 2 * len(widths) <= WIDTH else " "
    lines = []
    for row in (head, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(("  " + gap.join([row[0].ljust(widths[0]), *cells[1:]])).rstrip()[:WIDTH])
    return [lines[0], "  " + "-" * (min(max(map(len, lines)), WIDTH) - 2), *lines[1:]]


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(shorten(text, 10_000), WIDTH, break_on_hyphens=False) or [""]
