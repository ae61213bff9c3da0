"""From a frame of cells, one row per run, to the arrays that are analysed.

The frame has the columns ``phase`` (``investigation``, ``golden``, or one that a design has of its own; rows of any
other phase are passed over), ``factor``, ``row``, ``column``, ``index``, and one for each metric. Coordinates may
be numbers or texts of digits, since tags are texts. A score of nan is a run without a score.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.errors import ParameterError, unknown_name

COORDINATES: Final = ("phase", "factor", "row", "column", "index")
"""Columns that say where a cell stands; every other numeric column is a metric."""
LARGEST_TABLE: Final = 10_000_000
"""More cells than this are taken for seeds written where row and column numbers belong."""


NUMBERED: Final = "Number rows, columns and golden runs 0, 1, 2, ... each."


def factors_in(cells: pd.DataFrame, phases: Collection[str]) -> list[str]:
    """Return the factors of the cells of some phases, in the order in which they first occur."""
    _require(cells, "phase")
    investigated = cells["phase"].isin(phases)
    if not investigated.any():
        return []
    _require(cells, "factor")
    return [str(name) for name in cells.loc[investigated, "factor"].dropna().unique()]


def placed_scores(
    cells: pd.DataFrame,
    metric: str,
    phase: str,
    sizes: Mapping[str, int | None],
    *,
    where: str,
    factor: str | None = None,
) -> FloatArray:
    """Return the scores of the runs of one phase by their places.

    Parameters
    ----------
    cells
        One row per run, see the module.
    metric
        Column that holds the scores.
    phase
        Which runs.
    sizes
        Coordinate -> how many there are of it in the plan; None means as many as are found. Each is an axis.
    where
        What the runs are called in messages.
    factor
        Take the runs of this factor alone; None takes all.

    Returns
    -------
    FloatArray
        One axis a coordinate, nan if there is no score.

    Raises
    ------
    ParameterError
        If a column is missing, a coordinate is not a whole number of the plan, or two scores have the same place.
    """
    _require(cells, "phase")
    chosen = cells[cells["phase"].isin([phase])]
    if len(chosen):
        _require(cells, *(() if factor is None else ("factor",)), *sizes)
        chosen = chosen if factor is None else chosen[chosen["factor"].isin([factor])]
    if metric not in cells or metric in COORDINATES:
        numeric = cells.select_dtypes("number").columns
        raise unknown_name("metric", metric, [str(name) for name in numeric if name not in COORDINATES])
    scores = _numbers(chosen[metric])
    places = pd.DataFrame(index=range(len(chosen)))
    shape = []
    for name, planned in sizes.items():
        numbers = _numbers(chosen[name]) if name in chosen else np.empty(0)
        count = planned if planned is not None else int(np.nanmax(numbers, initial=-1)) + 1
        if count > LARGEST_TABLE:
            raise ParameterError(name, count - 1, f"must be below {LARGEST_TABLE} in {where}", NUMBERED)
        wrong = numbers[~((numbers >= 0) & (numbers < count) & (numbers == np.trunc(numbers)))]
        if len(wrong):
            allowed = f"must be a whole number from 0 to {max(count - 1, 0)} in {where}"
            raise ParameterError(name, f"{wrong[0]:.15g}", allowed)
        places[name] = numbers.astype(np.int64)
        shape.append(count)
    # A failed run may stand next to its repetition.
    scored = np.isfinite(scores)
    places = places[scored]
    if len(twice := places[places.duplicated()]):
        place = " ".join(f"{name} {number}" for name, number in twice.iloc[0].items())
        raise ParameterError("cells", place, f"must occur once in {where}", "Keep one finished run of each cell.")
    if math.prod(shape) > LARGEST_TABLE:
        allowed = f"must be at most {LARGEST_TABLE} cells in {where}"
        raise ParameterError(" x ".join(sizes), " x ".join(map(str, shape)), allowed, NUMBERED)
    array = np.full(shape, np.nan)
    array[tuple(places.to_numpy().T)] = scores[scored]
    return array


def score_table(
    cells: pd.DataFrame, factor: str, metric: str, *, rows: int | None = None, columns: int | None = None
) -> FloatArray:
    """Return the M x N table of scores of one factor: mitigation runs x investigation runs; see `placed_scores`."""
    sizes = {"row": rows, "column": columns}
    return placed_scores(cells, metric, "investigation", sizes, factor=factor, where=f"the table of {factor}")


def golden_scores(cells: pd.DataFrame, metric: str, *, runs: int | None = None) -> FloatArray:
    """Return the scores of the golden runs, shape (L,); see :func:`placed_scores`.

    If no golden run has an ``index``, they are numbered as they come.
    """
    _require(cells, "phase")
    golden = cells["phase"].isin(["golden"])
    if "index" not in cells or not cells.loc[golden, "index"].notna().any():
        cells = cells.assign(index=golden.cumsum() - 1)
    return placed_scores(cells, metric, "golden", {"index": runs}, where="the golden runs")


def _require(cells: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in cells]
    if missing:
        fix = f"Needed are {', '.join(COORDINATES)} and the metric."
        raise ParameterError("cells", ", ".join(map(str, cells.columns)), f"must have a column {missing[0]}", fix)


def _numbers(column: pd.Series[Any]) -> FloatArray:
    """Return a column as floats, nan where missing."""
    numbers = pd.to_numeric(column, errors="coerce")
    lost = column[column.notna() & numbers.isna()]
    if len(lost):
        raise ParameterError(str(column.name), repr(lost.iloc[0]), "must be a number")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)
