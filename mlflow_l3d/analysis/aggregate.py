"""From the cells of one investigation to everything that is reported about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.checks import all_checks
from mlflow_l3d.analysis.frames import factors_in, golden_scores, score_table
from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.results import Analysis, Consistency

CHANCE_METRICS: Final = ("f1_macro", "accuracy")
"""Metrics of which a score below 1 / classes is worse than guessing, and so a collapse."""


def analyse(
    cells: pd.DataFrame,
    *,
    metric: str,
    factors: Sequence[str] | None = None,
    rows: int | None = None,
    columns: int | None = None,
    golden_runs: int | None = None,
    classes: int | None = None,
    consistencies: Mapping[str, Consistency] | None = None,
) -> Analysis:
    """Return the importance of every factor, and the checks.

    Parameters
    ----------
    cells
        One row a run, see :mod:`mlflow_l3d.analysis.frames`.
    metric
        Column whose spread is investigated.
    factors
        The investigated factors in the order to report; None means all that are found.
    rows, columns, golden_runs
        M, N and L of the plan; None means as many as are found, for every factor.
    classes
        Number of classes, for the share of collapsed runs; None where it is not known.
    consistencies
        Factor or ``golden`` -> agreement of single predictions, from a
        :class:`mlflow_l3d.analysis.consistency.VoteCounter`.

    Returns
    -------
    Analysis
        `cells_failed` counts the cells and golden runs of the plan that have no score.

    Raises
    ------
    ParameterError
        If the frame lacks a column, or a place in the plan is wrong or taken twice.
    """
    golden = golden_scores(cells, metric, runs=golden_runs)
    names = list(factors_in(cells) if factors is None else factors)
    limit = classes if metric in CHANCE_METRICS else None
    importances = {
        name: importance(
            score_table(cells, name, metric, rows=rows, columns=columns), golden, factor=name, classes=limit
        )
        for name in names
    }
    failed = sum(record.cells_missing for record in importances.values()) + int(np.isnan(golden).sum())
    return Analysis(
        metric=metric,
        importances=importances,
        consistencies=dict(consistencies or {}),
        checks=all_checks(importances, golden, classes=limit),
        cells_failed=failed,
    )
