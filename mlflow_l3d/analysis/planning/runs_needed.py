"""How many runs an investigation needs, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.importance.estimate import LEVEL
from mlflow_l3d.analysis.importance.variances import DESIGNS, Design, VarianceComponents, check_design
from mlflow_l3d.analysis.planning.precision import expected_half_width, optimal_columns
from mlflow_l3d.errors import ParameterError

MOST_ROWS: Final = 10_000
MOST_COLUMNS: Final = 1_000
"""A plan never goes beyond these."""
COST_COLUMNS: Final = ("design", "factors", "rows", "columns", "golden_runs", "cells", "hours", "half_width")


@dataclass(frozen=True, slots=True)
class RunsNeeded:
    """Smallest table of one factor whose interval is expected to be narrow enough.

    Attributes
    ----------
    design
        How it is laid out.
    rows, columns
        M and N; None where no table within the limits is enough.
    cells
        ``M N`` of one factor (radial: n swaps; base runs are shared); None likewise.
    half_width
        Expected half-width of the interval; of the largest table that was tried, where none is enough.
    """

    design: Design
    rows: int | None
    columns: int | None
    cells: int | None
    half_width: float


def runs_needed(
    half_width: float,
    pilot: VarianceComponents,
    design: Design,
    *,
    columns: int | None = None,
    level: float = LEVEL,
    most_rows: int = MOST_ROWS,
) -> RunsNeeded:
    """Return how many runs one factor needs for a wanted half-width of its interval.

    Parameters
    ----------
    half_width
        Wanted half-width of the interval of the corrected importance, above 0 and below 1.
    pilot
        Variances from a pilot or an earlier investigation.
    design
        Of the investigation that is planned.
    columns
        N if it is given. Otherwise nested: the optimum for the pilot's S_T; crossed: the N with the fewest cells.
    level
        Confidence level.
    most_rows
        M is not taken beyond this.

    Returns
    -------
    RunsNeeded
        By the delta method of :func:`mlflow_l3d.analysis.planning.precision.expected_half_width`; check a plan that
        matters with its simulation. With few columns a crossed table may never be enough, however many rows it has.

    Raises
    ------
    ParameterError
        If a number is out of range, or the pilot's scores were all equal.
    """
    check_design(design)
    if not 0 < half_width < 1:
        raise ParameterError("half_width", half_width, "must be above 0 and below 1")
    least = 3 if design == "crossed" else 2
    if columns is not None and columns < least:
        raise ParameterError("columns", columns, f"must be at least {least} in the {design} design")
    if not (pilot.total > 0 and pilot.contributed > 0):
        raise ParameterError("pilot", "no variance", "must have scores that the factor changes", "Run a larger pilot.")
    if design == "crossed" and columns is None:
        found = [_fewest_rows(half_width, pilot, design, n, level, most_rows) for n in _column_choices()]
        enough = [each for each in found if each.cells is not None]
        if enough:
            return min(enough, key=lambda each: (each.cells or 0, each.rows or 0))
        return min(found, key=lambda each: each.half_width)
    if columns is None:
        columns = 2 if design == "radial" else min(optimal_columns(min(pilot.total_index, 0.99)), MOST_COLUMNS)
    return _fewest_rows(half_width, pilot, design, 2 if design == "radial" else columns, level, most_rows)


def cost_table(
    seconds_per_cell: float,
    *,
    factors: int,
    rows: int,
    columns: int,
    golden_runs: int | None = None,
    designs: Iterable[Design] = DESIGNS,
    pilot: VarianceComponents | None = None,
    workers: int = 1,
    level: float = LEVEL,
) -> pd.DataFrame:
    """Return cells and hours of the designs.

    Parameters
    ----------
    seconds_per_cell
        Wall clock of one training and evaluation.
    factors, rows, columns
        K, M and N. The radial design has M base runs and M swaps a factor.
    golden_runs
        L, shared by the factors; None means N M. The radial design has none of its own.
    designs
        Which ones.
    pilot
        Variances for the expected half-width; without them that column is nan.
    workers
        Cells that run side by side.
    level
        Confidence level of the half-width.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`COST_COLUMNS`, one row a design.

    Raises
    ------
    ParameterError
        If a number is out of range.
    """
    checks = {"factors": (factors, 1), "rows": (rows, 2), "columns": (columns, 2), "workers": (workers, 1)}
    for name, (value, least) in checks.items():
        if value < least:
            raise ParameterError(name, value, f"must be at least {least}")
    if not (seconds_per_cell >= 0 and math.isfinite(seconds_per_cell)):
        raise ParameterError("seconds_per_cell", seconds_per_cell, "must be a number of seconds, 0 at least")
    golden = rows * columns if golden_runs is None else golden_runs
    if golden < 0:
        raise ParameterError("golden_runs", golden, "must be 0 or more")
    lines: list[dict[str, object]] = []
    for design in designs:
        check_design(design)
        radial = design == "radial"
        cells = rows * (factors + 1) if radial else factors * rows * columns + golden
        width = math.nan
        if pilot is not None:
            width = expected_half_width(pilot, design, rows=rows, columns=columns, level=level)
        values = (design, factors, rows, 2 if radial else columns, 0 if radial else golden, cells)
        hours = seconds_per_cell * cells / 3600 / workers
        lines.append(dict(zip(COST_COLUMNS, (*values, hours, width), strict=True)))
    return pd.DataFrame(lines, columns=list(COST_COLUMNS))


def _column_choices() -> Sequence[int]:
    """Return the columns that a crossed plan may have: all up to 30, then steps of a tenth."""
    choices = list(range(3, 31))
    while choices[-1] * 1.1 < MOST_COLUMNS:
        choices.append(round(choices[-1] * 1.1))
    return choices


def _fewest_rows(
    wanted: float, pilot: VarianceComponents, design: Design, columns: int, level: float, most_rows: int
) -> RunsNeeded:
    def width(rows: int) -> float:
        return expected_half_width(pilot, design, rows=rows, columns=columns, level=level)

    low, high = 3, most_rows
    if width(high) > wanted:
        return RunsNeeded(design, None, None, None, width(high))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if width(middle) <= wanted else (middle + 1, high)
    cells = low if design == "radial" else low * columns
    return RunsNeeded(design, low, columns, cells, width(low))
