"""The part of a standard deviation that a finite test set makes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def population_variance(accuracies: npt.ArrayLike, correct_consistency: float, examples: int) -> float:
    """Return the variance of the accuracy that a test set without end would leave.

    Parameters
    ----------
    accuracies
        Shape (S,): accuracy of each run on the same n examples, fractions; nan where a run is missing.
    correct_consistency
        CCON of the same runs: mean over pairs of runs of the share of examples that both have right.
    examples
        n.

    Returns
    -------
    float
        In squared units of the accuracy; below zero where runs differ less than the test set alone lets expect. nan
        below two runs or examples.

    Notes
    -----
    ``s2_pop = (n s2 - (Abar - CCON)) / (n - 1)`` with the sample variance s2 (ddof=1) and the mean accuracy Abar.
    Unbiased where the examples are drawn independently of each other: equally good runs have 0 on average, though s2
    does not. For the accuracy only, and for one test set that all runs share.
    """
    values = np.asarray(accuracies, dtype=np.float64).reshape(-1)
    known = values[np.isfinite(values)]
    if len(known) < 2 or examples < 2 or not math.isfinite(correct_consistency):
        return math.nan
    spread = examples * float(known.var(ddof=1))
    return (spread - (float(known.mean()) - correct_consistency)) / (examples - 1)


def population_std(accuracies: npt.ArrayLike, correct_consistency: float, examples: int) -> float:
    """Return the root of :func:`population_variance`, 0 where that is below zero."""
    variance = population_variance(accuracies, correct_consistency, examples)
    return math.nan if math.isnan(variance) else math.sqrt(max(0.0, variance))
