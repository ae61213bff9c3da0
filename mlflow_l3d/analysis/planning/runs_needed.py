"""How many runs an investigation needs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.analysis.importance.models import TableModel
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.jackknife import LEVEL
from mlflow_l3d.analysis.planning.precision import expected_half_width, optimal_columns

MOST_ROWS: Final = 10_000
MOST_COLUMNS: Final = 1_000
"""A plan never goes beyond these."""


@dataclass(frozen=True, slots=True)
class RunsNeeded:
    """Smallest table of one factor whose interval is expected to be narrow enough.

    Attributes
    ----------
    rows, columns
        M and N; None where no table within the limits is enough.
    cells
        ``M N`` of one factor; None likewise.
    half_width
        Expected half-width of the interval; of the largest table that was tried, where none is enough.
    """

    rows: int | None
    columns: int | None
    cells: int | None
    half_width: float


def runs_needed(
    half_width: float,
    pilot: VarianceComponents,
    model: TableModel,
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
        Variances from a pilot or an earlier investigation, whose scores were not all equal.
    model
        Of the investigation that is planned.
    columns
        N if it is given. Otherwise, where rows share their columns, the N with the fewest cells; else the optimum
        for the pilot's S_T.
    level
        Confidence level.
    most_rows
        M is not taken beyond this.

    Returns
    -------
    RunsNeeded
        By :func:`mlflow_l3d.analysis.planning.precision.expected_half_width`. With few columns a crossed table may
        never be enough, however many rows it has.
    """
    if model.shared_columns and columns is None:
        found = [_fewest_rows(half_width, pilot, model, n, level, most_rows) for n in _column_choices()]
        enough = [each for each in found if each.cells is not None]
        if enough:
            return min(enough, key=lambda each: (each.cells or 0, each.rows or 0))
        return min(found, key=lambda each: each.half_width)
    if columns is None:
        columns = min(optimal_columns(pilot.total_index), MOST_COLUMNS)
    return _fewest_rows(half_width, pilot, model, columns, level, most_rows)


def _column_choices() -> Sequence[int]:
    """Return the columns that a crossed plan may have: all up to 30, then steps of a tenth."""
    choices = list(range(3, 31))
    while choices[-1] * 1.1 < MOST_COLUMNS:
        choices.append(round(choices[-1] * 1.1))
    return choices


def _fewest_rows(
    wanted: float, pilot: VarianceComponents, model: TableModel, columns: int, level: float, most_rows: int
) -> RunsNeeded:
    def width(rows: int) -> float:
        return expected_half_width(pilot, model, rows=rows, columns=columns, level=level)

    if width(most_rows) > wanted:
        return RunsNeeded(None, None, None, width(most_rows))
    rows = 3 + bisect_left(range(3, most_rows), True, key=lambda rows: width(rows) <= wanted)
    return RunsNeeded(rows, columns, rows * columns, width(rows))
