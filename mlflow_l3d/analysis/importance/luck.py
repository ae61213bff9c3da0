"""How far apart two runs may lie by luck alone."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlflow_l3d.analysis.importance.checks.shape import tails
from mlflow_l3d.analysis.importance.tables import known_std
from mlflow_l3d.analysis.intervals import FloatArray

DEVIATIONS: Final = 1.96 * math.sqrt(2)
"""Two normal scores of equal mean differ by more than this many standard deviations one time in twenty."""
FEWEST: Final = 20
"""Fewer runs do not show a quantile of their distances."""
MOST: Final = 2000
"""Of more runs every second, third, ... one is compared: all pairs would take gigabytes."""


def single_run_limit(scores: FloatArray, std: float | None = None) -> float:
    """Return the distance that two runs which differ by luck alone exceed one time in twenty.

    Parameters
    ----------
    scores
        Shape (n,): at least two finite scores.
    std
        Standard deviation of a run, if the scores are not independent; else that of the scores with ddof=1.

    Returns
    -------
    float
        1.96 √2 standard deviations; for scores with long tails or in two groups, the 95 % quantile of the distances of
        all pairs.

    Examples
    --------
    >>> round(single_run_limit(np.array([0.7, 0.8])), 3)
    0.196
    """
    shape = tails(scores) if len(scores) >= FEWEST else None
    if shape is None or not (shape.long or shape.two_groups):
        return DEVIATIONS * (known_std(scores, ddof=1) if std is None else std)
    some = scores[:: -(-len(scores) // MOST)]
    first, second = np.triu_indices(len(some), 1)
    return float(np.quantile(np.abs(some[first] - some[second]), 0.95))
