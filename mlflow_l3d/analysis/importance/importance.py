"""The importance score of a randomness factor, from its table of scores and the golden runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.checks.long_run import published_interval, uneven_rows
from mlflow_l3d.analysis.importance.estimate import Estimate
from mlflow_l3d.analysis.importance.estimators import CROSSED, TableModel
from mlflow_l3d.analysis.importance.estimators.nested import nested_components, radial_estimate, variance_without_each
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
    rows, finite_golden = with_scores(scores), golden_scores[np.isfinite(golden_scores)]
    published = _published(rows, finite_golden)
    record = _record(factor, published, scores, golden_scores, len(rows), chance, model.name, level)
    low, high = std_interval(finite_golden, level=level)
    record = replace(record, golden_std_ci_low=low, golden_std_ci_high=high)
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
    std_low, std_high = ratio_interval(golden_std, spread, level=level)
    records = {}
    for place, name in enumerate(swaps, start=1):
        table = sets[:, [0, place]]
        complete = table[np.isfinite(table).all(axis=1)]
        pairs, estimate = nested_components(complete), radial_estimate(sets, place)
        contributed = mitigated = score = math.nan
        varies = pairs is not None and pairs.total > 0
        if pairs is not None:
            contributed, mitigated = math.sqrt(pairs.contributed), math.sqrt(max(0.0, pairs.mitigated))
            if golden_std > 0 and varies:
                score = (contributed - mitigated) / golden_std
        published = _Published(score, contributed, mitigated, golden_std)
        record = _record(name, published, table, golden, len(complete), chance, "radial", level)
        record = replace(record, golden_std_ci_low=std_low, golden_std_ci_high=std_high)
        records[name] = record.estimated(estimate) if estimate is not None and varies else record
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
    varies = contributed > 0 or mitigated > 0
    score = (contributed - mitigated) / golden_std if golden_std > 0 and varies else math.nan
    return _Published(score, contributed, mitigated, golden_std)


def _estimate(table: FloatArray, published: _Published, model: TableModel) -> Estimate | None:
    """Return the corrected importance of a table; None if all its scores are equal."""
    return model.estimate(table) if published.contributed_std > 0 or published.mitigated_std > 0 else None


def _record(
    factor: str,
    published: _Published,
    table: FloatArray,
    golden: FloatArray,
    rows_used: int,
    chance: float | None,
    design: str,
    level: float,
) -> Importance:
    """Return the record of a factor without a corrected importance."""
    finite_scores, finite_golden = table[np.isfinite(table)], golden[np.isfinite(golden)]
    return Importance(
        factor,
        *published,
        importance_corrected=math.nan,
        importance_corrected_ci_low=math.nan,
        importance_corrected_ci_high=math.nan,
        score_mean=float(finite_scores.mean()) if len(finite_scores) else math.nan,
        score_std=known_std(finite_scores) if len(finite_scores) else math.nan,
        collapsed_share=math.nan
        if chance is None or not len(finite_scores)
        else float((finite_scores < chance).mean()),
        table=table,
        golden=golden,
        rows_used=rows_used,
        cells_missing=table.size - len(finite_scores),
        golden_missing=len(golden) - len(finite_golden),
        design=design,
        level=level,
        score_iqr=quartile_distance(finite_scores),
        golden_iqr=quartile_distance(finite_golden),
    )
