"""How many runs an investigation needs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.analysis.importance.estimators import TableModel
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.planning.assurance import Outlook, half_width_of, optimal_columns

MOST_ROWS: Final = 10_000
MOST_COLUMNS: Final = 1_000
"""A plan never goes beyond these."""


@dataclass(frozen=True, slots=True)
class RunsNeeded:
    """Smallest table of one factor whose interval is narrow enough.

    Attributes
    ----------
    rows, columns
        M and N; None if no table within the limits is enough.
    cells
        ``M N`` of one factor; None likewise.
    half_width
        Half-width of the interval; of the largest table that was tried, where none is enough.
    """

    rows: int | None
    columns: int | None
    cells: int | None
    half_width: float


def runs_needed(
    half_width: float,
    pilot: VarianceComponents | Outlook,
    model: TableModel,
    *,
    columns: int | None = None,
    assurance: float | None = None,
) -> RunsNeeded:
    """Return how many runs one factor needs for a wanted half-width of its interval.

    Parameters
    ----------
    half_width
        Wanted half-width of the interval of the corrected importance, above 0 and below 1.
    pilot
        What a pilot or an earlier investigation says, whose scores were not all equal.
    model
        Of the investigation that is planned.
    columns
        N if it is given. Otherwise, where rows share their columns, the N with the fewest cells; else that of a
        pilot of the same kind, or the optimum for its S_T.
    assurance
        Probability with which the interval is so narrow; None: it is expected to be.

    Returns
    -------
    RunsNeeded
        By :func:`mlflow_l3d.analysis.planning.assurance.half_width_of`. With few columns a crossed table may never be
        enough, however many rows it has.
    """
    outlook = Outlook.of(pilot)

    def width(rows: int, columns: int) -> float:
        return half_width_of(outlook, model, rows=rows, columns=columns, assurance=assurance)

    if model.shared_columns and columns is None:
        fewest = RunsNeeded(None, None, None, math.inf)
        for n in column_choices():
            # A table of more cells than the smallest so far need not be narrow enough.
            most = MOST_ROWS if fewest.cells is None else min(MOST_ROWS, fewest.cells // n)
            candidate = _fewest_rows(half_width, width, n, most)
            if candidate.cells is not None or (fewest.cells is None and candidate.half_width < fewest.half_width):
                fewest = min(fewest, candidate, key=_size)
        return fewest
    if columns is None:
        columns = optimal_columns(outlook.components.total_index)
        if outlook.model is model:
            columns = outlook.components.columns
    return _fewest_rows(half_width, width, columns)


def _size(found: RunsNeeded) -> tuple[float, int, float]:
    """Return the key that sorts the smallest table first; if none is enough, the one with the narrowest interval."""
    return found.cells or math.inf, found.rows or 0, found.half_width


def column_choices() -> Sequence[int]:
    """Return the columns that a crossed plan may have: all up to 30, then steps of a tenth."""
    choices = list(range(3, 31))
    while choices[-1] * 1.1 < MOST_COLUMNS:
        choices.append(round(choices[-1] * 1.1))
    return choices


def _fewest_rows(wanted: float, width: Callable[[int, int], float], columns: int, most: int = MOST_ROWS) -> RunsNeeded:
    widest = width(most, columns)
    if not widest <= wanted:
        return RunsNeeded(None, None, None, widest)
    rows = 3 + bisect_left(range(3, most), True, key=lambda rows: width(rows, columns) <= wanted)
    return RunsNeeded(rows, columns, rows * columns, width(rows, columns))
