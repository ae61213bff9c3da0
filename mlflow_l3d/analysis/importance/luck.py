"""How far apart two runs may lie by luck alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.checks.shape import tails
from mlflow_l3d.analysis.importance.estimators import TableModel
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import known_std
from mlflow_l3d.analysis.intervals import FloatArray, t_quantile

FEWEST: Final = 20
"""Fewer runs do not show a quantile of their distances."""
MOST: Final = 2000
"""Of more runs every second, third, ... one is compared: all pairs would take gigabytes."""


def single_run_limit(
    scores: FloatArray, std: float | None = None, degrees: float | None = None, *, span: float = math.inf
) -> float:
    """Return the distance that two runs which differ by luck alone exceed one time in twenty.

    Parameters
    ----------
    scores
        Shape (n,): at least two finite scores.
    std, degrees
        Standard deviation of a run and its degrees of freedom, if the scores are not independent; else those of the
        scores, with ddof=1.
    span
        Largest distance that the metric allows.

    Returns
    -------
    float
        t √2 standard deviations, t being Student's quantile: few runs barely show their spread. For scores with long
        tails or in two groups, the 95 % quantile of the distances of all pairs.

    Examples
    --------
    >>> round(single_run_limit(np.array([0.7, 0.8])), 3)
    1.271
    """
    shape = tails(scores) if len(scores) >= FEWEST else None
    if shape is None or not (shape.long or shape.two_groups):
        std = known_std(scores, ddof=1) if std is None else std
        return min(t_quantile(len(scores) - 1 if degrees is None else degrees) * math.sqrt(2) * std, span)
    some = scores[:: -(-len(scores) // MOST)]
    first, second = np.triu_indices(len(some), 1)
    return float(np.quantile(np.abs(some[first] - some[second]), 0.95))


def dependent_spread(records: Sequence[Importance], model: TableModel) -> tuple[float, float] | None:
    """Return standard deviation and degrees of freedom of a run, from tables whose runs share rows and columns.

    Both are means over the factors, whose tables may share runs (Satterthwaite 1946); None if no table has them.
    """
    tables = [record.table[np.isfinite(record.table).any(axis=1)] for record in records]
    estimates = [estimate for table in tables if (estimate := model.estimate(table)) is not None]
    parts = [squares for each in estimates if (squares := each.squares) is not None and squares.total > 0]
    if not parts:
        return None
    return math.sqrt(np.mean([each.total for each in parts])), float(np.mean([each.total_degrees for each in parts]))
