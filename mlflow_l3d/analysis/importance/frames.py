"""From a frame of cells, one row a run, to the arrays that are analysed.

The frame has the columns ``phase`` (``investigation`` or ``golden``, in the radial design ``base`` or ``swap``; rows of
any other phase are passed over), ``factor``, ``row``, ``column``, ``index``, and one for each metric. Coordinates may
be numbers or texts of digits, since tags are texts. A score of nan is a run without a score.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.variances import Layout
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.errors import ParameterError, unknown_name

COORDINATES: Final = ("phase", "factor", "row", "column", "index")
"""Columns that say where a cell stands; every other numeric column is a metric."""
LARGEST_TABLE: Final = 10_000_000
"""More cells than this are taken for seeds written where row and column numbers belong."""


NUMBERED: Final = "Number rows, columns and golden runs 0, 1, 2, ... each."


def factors_in(cells: pd.DataFrame) -> list[str]:
    """Return the factors that have a table, in the order in which they first occur."""
    _require(cells, "phase")
    investigated = cells["phase"].isin(["investigation", "swap"])
    if not investigated.any():
        return []
    _require(cells, "factor")
    return [str(name) for name in cells.loc[investigated, "factor"].dropna().unique()]


def score_table(
    cells: pd.DataFrame, factor: str, metric: str, *, rows: int | None = None, columns: int | None = None
) -> FloatArray:
    """Return the table of scores of one factor.

    Parameters
    ----------
    cells
        One row a run, see the module.
    factor
        Whose table.
    metric
        Column that holds the scores.
    rows, columns
        M and N of the plan; None means as many as are found.

    Returns
    -------
    FloatArray
        Shape (M, N): mitigation runs x investigation runs, nan where there is no score.

    Raises
    ------
    ParameterError
        If a column is missing, a coordinate is not a whole number of the plan, or two scores have the same place.
    """
    _require(cells, "phase")
    own = cells["phase"].isin(["investigation"])
    if own.any():
        _require(cells, "factor", "row", "column")
        own &= cells["factor"].isin([factor])
    where = f"the table of {factor}"
    scores = _scores(cells, metric, own)
    row, row_count = _coordinates(cells, "row", own, rows, where)
    column, column_count = _coordinates(cells, "column", own, columns, where)
    _check_unique({"row": row, "column": column}, scores, where)
    if row_count * column_count > LARGEST_TABLE:
        size = f"{row_count} x {column_count}"
        raise ParameterError("row x column", size, f"must be at most {LARGEST_TABLE} cells in {where}", NUMBERED)
    table = np.full((row_count, column_count), np.nan)
    scored = np.isfinite(scores)
    table[row[scored], column[scored]] = scores[scored]
    return table


def golden_scores(cells: pd.DataFrame, metric: str, *, runs: int | None = None) -> FloatArray:
    """Return the scores of the golden runs.

    Parameters
    ----------
    cells
        One row a run, see the module. Where no golden run has an ``index``, they are numbered as they come.
    metric
        Column that holds the scores.
    runs
        L of the plan; None means as many as are found.

    Returns
    -------
    FloatArray
        Shape (L,), nan where there is no score.

    Raises
    ------
    ParameterError
        If a column is missing, an index is not a whole number of the plan, or two scores have the same index.
    """
    _require(cells, "phase")
    golden = cells["phase"].isin(["golden"])
    if "index" not in cells or not cells.loc[golden, "index"].notna().any():
        cells = cells.assign(index=golden.cumsum() - 1)
    where = "the golden runs"
    scores = _scores(cells, metric, golden)
    index, count = _coordinates(cells, "index", golden, runs, where)
    _check_unique({"index": index}, scores, where)
    result = np.full(count, np.nan)
    scored = np.isfinite(scores)
    result[index[scored]] = scores[scored]
    return result


def swap_scores(cells: pd.DataFrame, factor: str, metric: str, *, rows: int | None = None) -> FloatArray:
    """Return the swaps of one factor of a radial design, shape (n, 1); parameters and errors as `score_table`."""
    return _row_scores(cells, metric, "swap", rows, factor)[:, np.newaxis]


def base_scores(cells: pd.DataFrame, metric: str, *, rows: int | None = None) -> FloatArray:
    """Return the base runs of a radial design, shape (n,); parameters and errors as :func:`score_table`."""
    return _row_scores(cells, metric, "base", rows, None)


def layout_of(cells: pd.DataFrame) -> Layout:
    """Return ``radial`` where there are base or swap runs, else ``crossed``: the phases tell no more."""
    _require(cells, "phase")
    return "radial" if cells["phase"].isin(["base", "swap"]).any() else "crossed"


def _row_scores(cells: pd.DataFrame, metric: str, phase: str, rows: int | None, factor: str | None) -> FloatArray:
    _require(cells, "phase")
    own = cells["phase"].isin([phase])
    if own.any():
        _require(cells, "row", *(["factor"] if factor else []))
        if factor:
            own &= cells["factor"].isin([factor])
    where = f"the swaps of {factor}" if factor else "the base runs"
    scores = _scores(cells, metric, own)
    row, count = _coordinates(cells, "row", own, rows, where)
    _check_unique({"row": row}, scores, where)
    result = np.full(count, np.nan)
    scored = np.isfinite(scores)
    result[row[scored]] = scores[scored]
    return result


def _require(cells: pd.DataFrame, *names: str) -> None:
    missing = [name for name in names if name not in cells]
    if missing:
        fix = f"Needed are {', '.join(COORDINATES)} and the metric."
        raise ParameterError("cells", ", ".join(map(str, cells.columns)), f"must have a column {missing[0]}", fix)


def _scores(cells: pd.DataFrame, metric: str, chosen: pd.Series[bool]) -> FloatArray:
    """Return the metric of the chosen runs, nan where it is missing or not finite."""
    if metric not in cells or metric in COORDINATES:
        numeric = cells.select_dtypes("number").columns
        raise unknown_name("metric", metric, [str(name) for name in numeric if name not in COORDINATES])
    scores = _numbers(cells, metric, chosen)
    return np.where(np.isfinite(scores), scores, np.nan)


def _coordinates(
    cells: pd.DataFrame, name: str, chosen: pd.Series[bool], planned: int | None, where: str
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    """Return one coordinate of the chosen runs and how many there are of it in the plan."""
    if name not in cells:
        return np.empty(0, dtype=np.int64), planned or 0
    numbers = _numbers(cells, name, chosen)
    count = planned if planned is not None else int(np.nanmax(numbers, initial=-1)) + 1
    if count > LARGEST_TABLE:
        raise ParameterError(name, count - 1, f"must be below {LARGEST_TABLE} in {where}", NUMBERED)
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < count) & (numbers == np.trunc(numbers))))
    if len(wrong):
        value = float(numbers[wrong[0]])
        raise ParameterError(name, f"{value:.15g}", f"must be a whole number from 0 to {max(count - 1, 0)} in {where}")
    return numbers.astype(np.int64), count


def _numbers(cells: pd.DataFrame, name: str, chosen: pd.Series[bool]) -> FloatArray:
    """Return a column of the chosen runs as floats, nan where missing."""
    column = cells.loc[chosen, name]
    numbers = pd.to_numeric(column, errors="coerce")
    lost = column.notna() & numbers.isna()
    if lost.any():
        raise ParameterError(name, repr(column[lost].iloc[0]), "must be a number")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _check_unique(place: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]], scores: FloatArray, where: str) -> None:
    """Raise where two runs with a score stand at the same place; a failed run may stand beside its repetition."""
    frame = pd.DataFrame(place)[np.isfinite(scores)]
    twice = frame[frame.duplicated()]
    if len(twice):
        name = " ".join(f"{key} {value}" for key, value in twice.iloc[0].items())
        fix = "Keep one finished run of each cell."
        raise ParameterError("cells", name, f"must occur once in {where}", fix)
