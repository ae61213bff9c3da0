"""From the cells of one investigation to everything that is reported about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.checks import all_checks
from mlflow_l3d.analysis.importance.estimate import LEVEL
from mlflow_l3d.analysis.importance.frames import (
    base_scores,
    factors_in,
    golden_scores,
    layout_of,
    score_table,
    swap_scores,
)
from mlflow_l3d.analysis.importance.multiplicity import Ranking, important_factors, rank_factors
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.score_tables import Missing, Tables, importances_of, strategies_of
from mlflow_l3d.analysis.importance.searched import searched_split_checks
from mlflow_l3d.analysis.importance.variances import Layout
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.metrics.known import named


def tables_of(
    cells: pd.DataFrame,
    *,
    metric: str,
    design: Layout | None = None,
    factors: Sequence[str] | None = None,
    rows: int | None = None,
    columns: int | None = None,
    golden_runs: int | None = None,
    pooled: bool = False,
) -> Tables:
    """Return the tables of scores of an investigation; parameters and errors as :func:`analyse`."""
    layout = layout_of(cells) if design is None else design
    names = list(factors_in(cells) if factors is None else factors)
    if layout == "radial":
        base = base_scores(cells, metric, rows=rows)
        swaps = {name: swap_scores(cells, name, metric, rows=rows) for name in names}
        # Where the plan is not known, one set may lack its last runs.
        most = max([len(base), *(len(each) for each in swaps.values())])
        padded = {name: _padded(each, most) for name, each in swaps.items()}
        return Tables(layout, padded, np.empty(0), _padded(base, most))
    if layout in ("random", "fixed"):
        columns = None if rows is None or columns is None else rows * columns
        rows = 1
    tables = {name: score_table(cells, name, metric, rows=rows, columns=columns) for name in names}
    golden = np.empty(0) if pooled else golden_scores(cells, metric, runs=golden_runs)
    return Tables(layout, tables, golden, pooled=pooled)


def analyse(
    cells: pd.DataFrame,
    *,
    metric: str,
    design: Layout | None = None,
    factors: Sequence[str] | None = None,
    rows: int | None = None,
    columns: int | None = None,
    golden_runs: int | None = None,
    pooled: bool = False,
    missing: Missing = "drop",
    classes: int | None = None,
    consistencies: Mapping[str, Consistency] | None = None,
    mitigated: bool = False,
    product: bool = False,
    searched_splits: Sequence[Mapping[str, int]] = (),
    level: float = LEVEL,
) -> Analysis:
    """Return the importance of every factor, and the checks.

    Parameters
    ----------
    cells
        One row a run, see :mod:`mlflow_l3d.analysis.importance.frames`.
    metric
        Column whose spread is investigated.
    design
        How the cells are laid out; None means radial where there are base or swap runs, else crossed.
    factors
        The investigated factors in the order to report; None means all that are found.
    rows, columns, golden_runs
        M, N and L of the plan; None means as many as are found, for every factor.
    pooled
        Whether the cells of all tables take the place of golden runs.
    missing
        What to do with rows of a crossed table that lack cells: ``drop`` or ``reml``.
    classes
        Number of classes, for the share of collapsed runs; None where it is not known.
    consistencies
        Factor or ``golden`` -> agreement of single predictions, from
        :class:`mlflow_l3d.analysis.stability.stability.Stability`.
    mitigated
        Whether a mitigation strategy holds in the tables, so that golden runs vary more than they do.
    product
        Whether the columns of joint factors are the product of their configurations.
    searched_splits
        Splits that the hyperparameters were searched on, see :mod:`mlflow_l3d.analysis.importance.searched`.
    level
        Confidence level of the intervals.

    Returns
    -------
    Analysis
        `cells_failed` counts the cells and golden runs of the plan that have no score.

    Raises
    ------
    ParameterError
        If the frame lacks a column, or a place in the plan is wrong or taken twice.
    """
    scores = tables_of(
        cells,
        metric=metric,
        design=design,
        factors=factors,
        rows=rows,
        columns=columns,
        golden_runs=golden_runs,
        pooled=pooled,
    )
    chance = named(metric).chance_level(classes)
    importances = importances_of(scores, chance=chance, missing=missing, level=level)
    return Analysis(
        metric=metric,
        importances=importances,
        consistencies=dict(consistencies or {}),
        checks=all_checks(
            importances,
            scores.golden_scores(),
            chance=chance,
            mitigated=mitigated,
            product=product,
            reml=missing == "reml",
            others=searched_split_checks(cells, searched_splits),
        ),
        cells_failed=scores.missing,
        design=scores.layout,
        p_holm=_adjusted(importances),
        ranking=_ranking(importances, level),
        strategies=strategies_of(importances, scores.layout),
    )


def _padded(scores: FloatArray, rows: int) -> FloatArray:
    """Return the scores with nan after their end, up to `rows`."""
    missing = np.full((rows - len(scores), *scores.shape[1:]), np.nan)
    padded: FloatArray = np.concatenate([scores, missing])
    return padded


def _adjusted(importances: Mapping[str, Importance]) -> dict[str, float]:
    frame = important_factors(importances)
    return dict(zip(frame["factor"], frame["p_holm"].astype("float64"), strict=True))


def _ranking(importances: Mapping[str, Importance], level: float) -> Ranking | None:
    """Return the ranking where there are several factors on the same rows, and one at least can be ranked."""
    records = list(importances.values())
    alike = len({(record.design, len(record.table)) for record in records}) == 1
    known = any(np.isfinite(record.importance_corrected) for record in records)
    return rank_factors(importances, level=level) if len(records) > 1 and alike and known else None
