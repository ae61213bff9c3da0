"""The importance score of a randomness factor, from its table of scores and the golden runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators import CROSSED, TableModel
from mlflow_l3d.analysis.importance.estimators.nested import radial_estimate, variance_without_each
from mlflow_l3d.analysis.importance.long_run import published_interval, uneven_rows
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import (
    known_std,
    mean_row_std,
    quartile_distance,
    std_interval,
    usable,
    with_scores,
)
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, ratio_interval, with_interval


class _Published(NamedTuple):
    """What the published method makes of one table and its golden runs; the parent's metrics have the same names."""

    importance: float
    contributed_std: float
    mitigated_std: float
    golden_std: float

    @classmethod
    def of(cls, contributed: float, mitigated: float, golden: float) -> _Published:
        """Return the standard deviations with the importance that they make."""
        varies = golden > 0 and (contributed > 0 or mitigated > 0)
        return cls((contributed - mitigated) / golden if varies else math.nan, contributed, mitigated, golden)

    @property
    def varies(self) -> bool:
        """Whether the scores of the table are not all equal."""
        return self.contributed_std > 0 or self.mitigated_std > 0


PATH_COLUMNS: Final = ("rows", *_Published._fields, *with_interval("importance_corrected"))
"""Columns of the frame that :func:`importance_path` returns."""


def importance(
    table: npt.ArrayLike,
    golden: npt.ArrayLike,
    *,
    factor: str = "",
    chance: float | None = None,
    model: TableModel = CROSSED,
    level: float = LEVEL,
) -> Importance:
    """Return the importance of one factor, its corrected importance and the intervals of both.

    Parameters
    ----------
    table : array_like, shape (M, N)
        Scores: M rows (mitigation runs), N columns (investigation runs); nan or infinite marks a missing cell.
    golden : array_like, shape (L,)
        Scores of the golden runs, in the unit of `table`; nan or infinite if missing.
    factor : str
        Name of the factor.
    chance : float or None
        Chance level in the unit of `table`; lower scores count as collapsed. None if the metric has none.
    model : TableModel
        Relation between columns of different rows. For the radial design use :func:`radial_importance`.
    level : float
        Confidence level of the intervals, in (0, 1).

    Returns
    -------
    Importance
        Standard deviations in the unit of `table`. The importance is nan with fewer than two usable rows, columns or
        golden runs, or with constant scores; the interval is nan below 3 rows or columns (nested: 3 rows, 2 columns).

    Notes
    -----
    Pecher et al. (2024), Algorithm 1: (contributed - mitigated) / golden, with ddof=0. *contributed* is the mean
    standard deviation within rows; *mitigated* is the standard deviation of the row means. Missing cells are passed
    over, as in the authors' code; rows without a score are ignored. Corrected importance: sqrt(S_T) - sqrt(1 - S_T),
    with S_T from the variance components of the design. The published formula is the same in both designs; in the
    nested one `mitigated_std` holds all of ``tau2 / N``, not the part of the interaction alone.

    Examples
    --------
    >>> import mlflow_l3d
    >>> record = mlflow_l3d.importance([[0.6, 0.8], [0.4, 0.8]], golden=[0.5, 0.9])
    >>> round(record.contributed_std, 2), round(record.mitigated_std, 2), round(record.importance, 2)
    (0.15, 0.05, 0.5)
    """
    scores, golden_scores = usable(table), usable(golden)
    rows = with_scores(scores)
    finite_golden = golden_scores[np.isfinite(golden_scores)]
    published = _published(rows, finite_golden)
    ends = std_interval(finite_golden, level=level)
    record = _record(factor, published, scores, golden_scores, ends, len(rows), chance, model.name, level)
    if (estimate := _estimate(rows, published, model)) is not None:
        record = record.estimated(estimate)
    low, high = published_interval(rows, finite_golden, model, level=level)
    low, high = min(low, published.importance), max(high, published.importance)
    return replace(record, importance_ci_low=low, importance_ci_high=high, unevenness=uneven_rows(rows, model)[0])


def radial_importance(
    base: npt.ArrayLike, swaps: Mapping[str, npt.ArrayLike], *, chance: float | None = None, level: float = LEVEL
) -> dict[str, Importance]:
    """Return the importance of every factor of a radial design.

    Parameters
    ----------
    base : array_like, shape (n,)
        Scores of the base runs; nan or infinite if missing.
    swaps : mapping of str to array_like, shape (n,)
        Factor -> scores of the same runs with that factor alone drawn again.
    chance, level
        As for :func:`importance`.

    Returns
    -------
    dict of str to Importance
        `table` holds base and swap in two columns, shape (n, 2); `golden` holds all base and swap runs, n (K + 1).

    Notes
    -----
    The importance needs many columns a row; with two, its standard deviations would be far too small and not
    comparable (a factor of 0.56 for `contributed_std` alone). So the three numbers are what they tend to with many
    columns, without bias (ddof=1): ``contributed_std = sqrt(tau2_k)``, from base and swap; ``mitigated_std``, the
    standard deviation of the expected score of a row, from the same pairs as a nested table; ``golden_std``, the root
    of the mean variance of the K + 1 sets, each of which is n independent draws of all factors. The corrected
    importance differs from the published one only in that it takes the total variance from all sets, and so is the more
    precise.

    Examples
    --------
    >>> import mlflow_l3d
    >>> base = [0.5, 0.7, 0.6, 0.8]
    >>> swaps = {"data_order": [0.6, 0.7, 0.5, 0.8], "data_split": [0.7, 0.5, 0.9, 0.6]}
    >>> records = mlflow_l3d.radial_importance(base, swaps)
    >>> {factor: round(record.importance_corrected, 2) for factor, record in records.items()}
    {'data_order': -0.59, 'data_split': 1.0}
    """
    sets = usable(np.column_stack([base, *swaps.values()]))
    golden = sets.T.reshape(-1)
    finite_sets = [values for column in sets.T if len(values := column[np.isfinite(column)]) >= 2]
    variances = [known_std(values, ddof=1) ** 2 for values in finite_sets]
    golden_std = math.sqrt(sum(variances) / len(variances)) if variances else math.nan
    rows = sets[np.isfinite(sets).any(axis=1)]
    spread = np.sqrt(variance_without_each(rows)) if len(rows) >= 3 else np.empty(0)
    ends = ratio_interval(golden_std, spread, level=level)
    records = {}
    for place, name in enumerate(swaps, start=1):
        table = sets[:, [0, place]]
        complete = table[np.isfinite(table).all(axis=1)]
        estimate = radial_estimate(sets, place)
        contributed = mitigated = math.nan
        if estimate is not None and (pairs := estimate.squares) is not None:
            contributed = math.sqrt(pairs.contributed)
            mitigated = math.sqrt(max(0.0, pairs.mitigated))
        published = _Published.of(contributed, mitigated, golden_std)
        record = _record(name, published, table, golden, ends, len(complete), chance, "radial", level)
        records[name] = record.estimated(estimate) if estimate is not None and published.varies else record
    return records


def importance_path(
    table: npt.ArrayLike, golden: npt.ArrayLike, *, model: TableModel = CROSSED, level: float = LEVEL, start: int = 2
) -> pd.DataFrame:
    """Return the score as it was after 2, 3, ..., M rows, for a figure of its convergence.

    Parameters
    ----------
    table, golden, model, level
        As for :func:`importance`.
    start
        Number of rows to begin with.

    Returns
    -------
    pandas.DataFrame
        One row for each number of rows from `start` to M; columns are :data:`PATH_COLUMNS`. The golden runs count in
        proportion, the first ``ceil(L * rows / M)`` of them, as the design runs them. The last row is what
        :func:`importance` returns.
    """
    scores, golden_scores = usable(table), usable(golden)
    total, golden_total = len(scores), len(golden_scores)
    finite_golden = np.isfinite(golden_scores)
    path: list[tuple[float, ...]] = []
    for rows in range(max(2, start), total + 1):
        golden_done = -(-golden_total * rows // total)
        done = with_scores(scores[:rows])
        published = _published(done, golden_scores[:golden_done][finite_golden[:golden_done]])
        estimate = _estimate(done, published, model)
        corrected = (math.nan,) * 3 if estimate is None else (estimate.importance, *estimate.interval(level))
        path.append((rows, *published, *corrected))
    frame = pd.DataFrame(path, columns=list(PATH_COLUMNS))
    return frame.astype({name: "int64" if name == "rows" else "float64" for name in PATH_COLUMNS})


def _published(table: FloatArray, golden: FloatArray) -> _Published:
    """Return the numbers of a table whose rows and columns have scores, and of the golden scores that are there."""
    rows, columns = table.shape
    golden_std = known_std(golden) if len(golden) >= 2 else math.nan
    contributed = mean_row_std(table) if rows >= 1 and columns >= 2 else math.nan
    mitigated = known_std(np.nanmean(table, axis=1)) if rows >= 2 and columns >= 1 else math.nan
    return _Published.of(contributed, mitigated, golden_std)


def _estimate(table: FloatArray, published: _Published, model: TableModel) -> Estimate | None:
    """Return the corrected importance of a table; None if all its scores are equal."""
    return model.estimate(table) if published.varies else None


def _record(
    factor: str,
    published: _Published,
    table: FloatArray,
    golden: FloatArray,
    golden_ends: tuple[float, float],
    rows_used: int,
    chance: float | None,
    design: str,
    level: float,
) -> Importance:
    """Return the record of a factor without a corrected importance."""
    scores, finite_golden = table[np.isfinite(table)], golden[np.isfinite(golden)]
    return Importance(
        factor,
        *published,
        score_mean=float(scores.mean()) if len(scores) else math.nan,
        score_std=known_std(scores) if len(scores) else math.nan,
        collapsed_share=float((scores < chance).mean()) if chance is not None and len(scores) else math.nan,
        table=table,
        golden=golden,
        rows_used=rows_used,
        cells_missing=table.size - len(scores),
        golden_missing=len(golden) - len(finite_golden),
        design=design,
        level=level,
        score_iqr=quartile_distance(scores),
        golden_iqr=quartile_distance(finite_golden),
        golden_std_ci_low=golden_ends[0],
        golden_std_ci_high=golden_ends[1],
    )
