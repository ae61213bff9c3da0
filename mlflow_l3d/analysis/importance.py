"""The importance score of a randomness factor, from its table of scores and the golden runs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.components import ROUNDING, crossed_components, effects
from mlflow_l3d.analysis.intervals import crossed_interval
from mlflow_l3d.analysis.results import FloatArray, Importance

LARGEST_SCORE: Final = 1e50
"""Scores beyond this are missing: tracking servers hold infinity as the largest float."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What one table and its golden runs give; the names are those of the parent metrics."""

    importance: float
    contributed_std: float
    mitigated_std: float
    golden_std: float
    importance_corrected: float
    importance_ci_low: float
    importance_ci_high: float


PATH_COLUMNS: Final = ("rows", *_Numbers.__dataclass_fields__)
"""Columns of the frame that :func:`importance_path` returns."""


def importance(
    table: npt.ArrayLike, golden: npt.ArrayLike, *, factor: str = "", classes: int | None = None
) -> Importance:
    """Return the importance score of one factor with its corrected estimate and interval.

    Parameters
    ----------
    table
        Shape (M, N): rows are mitigation runs, columns investigation runs; nan (or infinite) where a score is missing.
    golden
        Shape (L,): scores of the golden runs, likewise.
    factor
        Name of the investigated factor.
    classes
        Number of classes, if a score below ``1 / classes`` is a collapse.

    Returns
    -------
    Importance
        Standard deviations and importance come from the rows without a missing cell; `score_mean`, `score_std` and
        `collapsed_share` from every cell that has a score. What cannot be computed is nan: the importance of a
        constant table, of equal golden scores, and of fewer than two complete rows, columns or golden runs; the
        interval below three rows or columns.

    Raises
    ------
    ValueError
        If `table` has not two axes, `golden` not one, or `classes` is below 1.

    Notes
    -----
    Pecher et al. 2024, Algorithm 1, population standard deviations (ddof=0): contributed = mean over rows of the std
    within a row, mitigated = std of the row means, importance = (contributed - mitigated) / golden std. The corrected
    score is :attr:`mlflow_l3d.analysis.components.Components.importance`, its interval
    :func:`mlflow_l3d.analysis.intervals.crossed_interval`.
    """
    scores, golden_scores = as_table(table), as_golden(golden)
    if classes is not None and classes < 1:
        msg = f"classes must be at least 1, got {classes}"
        raise ValueError(msg)
    complete = scores[np.isfinite(scores).sum(axis=1) == max(scores.shape[1], 1)]
    known = scores[np.isfinite(scores)]
    numbers = _numbers(complete, golden_scores[np.isfinite(golden_scores)])
    collapsed = math.nan if classes is None or not len(known) else float((known < 1 / classes).mean())
    return Importance(
        factor=factor,
        **asdict(numbers),
        score_mean=float(known.mean()) if len(known) else math.nan,
        score_std=_std(known) if len(known) else math.nan,
        collapsed_share=collapsed,
        table=scores,
        golden=golden_scores,
        rows_used=len(complete),
        cells_missing=scores.size - len(known),
        golden_missing=len(golden_scores) - int(np.isfinite(golden_scores).sum()),
    )


def importance_path(table: npt.ArrayLike, golden: npt.ArrayLike) -> pd.DataFrame:
    """Return the score as it was after 2, 3, ..., M rows, for a figure of its convergence.

    Parameters
    ----------
    table, golden
        As for :func:`importance`.

    Returns
    -------
    pandas.DataFrame
        One row for each number of rows from 2 to M; columns are :data:`PATH_COLUMNS`. The golden runs count in
        proportion, the first ``ceil(L * rows / M)`` of them, as the design runs them. The last row is what
        :func:`importance` returns.
    """
    scores, golden_scores = as_table(table), as_golden(golden)
    total, golden_total = len(scores), len(golden_scores)
    complete = np.isfinite(scores).sum(axis=1) == max(scores.shape[1], 1)
    known = np.isfinite(golden_scores)
    path: list[dict[str, float]] = []
    for rows in range(2, total + 1):
        golden_done = -(-golden_total * rows // total)
        numbers = _numbers(scores[:rows][complete[:rows]], golden_scores[:golden_done][known[:golden_done]])
        path.append({"rows": rows, **asdict(numbers)})
    frame = pd.DataFrame(path, columns=list(PATH_COLUMNS))
    return frame.astype({name: "int64" if name == "rows" else "float64" for name in PATH_COLUMNS})


def as_table(table: npt.ArrayLike) -> FloatArray:
    """Return a copy of a table, shape (M, N), with nan for every score that is not a usable number.

    Raises
    ------
    ValueError
        If it has not two axes.
    """
    scores = _usable(table)
    if scores.ndim != 2:
        msg = f"the table must have two axes, mitigation runs x investigation runs, got shape {scores.shape}"
        raise ValueError(msg)
    return scores


def as_golden(golden: npt.ArrayLike) -> FloatArray:
    """Return a copy of the golden scores, shape (L,), with nan for every score that is not a usable number.

    Raises
    ------
    ValueError
        If they have not one axis.
    """
    scores = _usable(golden)
    if scores.ndim != 1:
        msg = f"the golden scores must have one axis, got shape {scores.shape}"
        raise ValueError(msg)
    return scores


def _usable(scores: npt.ArrayLike) -> FloatArray:
    values = np.array(scores, dtype=np.float64)
    values[~(np.abs(values) < LARGEST_SCORE)] = np.nan
    return values


def _numbers(table: FloatArray, golden: FloatArray) -> _Numbers:
    """Return the numbers of a complete table (rows, columns) and the golden scores that are not missing."""
    rows, columns = table.shape
    golden_std = _std(golden) if len(golden) >= 2 else math.nan
    contributed = _mean_row_std(table) if rows >= 1 and columns >= 2 else math.nan
    mitigated = _std(table.mean(axis=1)) if rows >= 2 and columns >= 1 else math.nan
    constant = not (contributed > 0 or mitigated > 0)
    published = (contributed - mitigated) / golden_std if golden_std > 0 and not constant else math.nan
    components = crossed_components(table)
    if components is None or constant:
        return _Numbers(published, contributed, mitigated, golden_std, math.nan, math.nan, math.nan)
    low, high = crossed_interval(effects(table), components)
    return _Numbers(published, contributed, mitigated, golden_std, components.importance, low, high)


def _std(values: FloatArray) -> float:
    """Return the population standard deviation (ddof=0); exactly zero where the values differ by rounding alone."""
    if float(np.ptp(values)) <= ROUNDING * float(np.abs(values).max()):
        return 0.0
    return float(values.std())


def _mean_row_std(table: FloatArray) -> float:
    """Return the mean over rows of the population standard deviation within the row."""
    stds = table.std(axis=1)
    stds[np.ptp(table, axis=1) <= ROUNDING * np.abs(table).max(axis=1)] = 0.0
    return float(stds.mean())
