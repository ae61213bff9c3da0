"""Agreement of predicted numbers between runs whose test sets differ."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.typing import FloatArray

BLOCK: Final = 256
"""Runs that are compared with all others at once."""


def overlap_correlations(predictions: npt.ArrayLike) -> tuple[float, float, bool]:
    """Compare every pair of runs on the examples that both saw.

    Parameters
    ----------
    predictions
        Shape (S, n): numbers, nan where a run did not see an example.

    Returns
    -------
    tuple
        Mean over pairs of Pearson's correlation (CON-PEAR, Zhou et al. 2025) and of Lin's concordance correlation
        coefficient (Lin 1989, ddof=0), and whether there is a pair with at least two common examples: the others are in
        no mean. A mean is nan where a pair in it has no value: for Pearson's where a run is constant on the common
        examples, for Lin's where both are, at the same number.

    Notes
    -----
    Sums over common examples are products of matrices that hold 0 where a run saw nothing. Time S^2 n.
    """
    given: FloatArray = np.array(predictions, dtype=np.float64)
    held = ~np.isnan(given)
    if not given.size or not held.any():
        return math.nan, math.nan, False
    # On one scale and each run around 0, so that products neither overflow nor cancel.
    largest = float(np.abs(given[held]).max())
    given /= largest if largest > 0 else 1.0
    centres = np.array([_centre(run[here]) for run, here in zip(given, held, strict=True)])
    values = np.where(held, given - centres[:, None], 0.0)
    ones, squares = held.astype(np.float64), np.square(values)
    sums, pairs = np.zeros(2), 0
    for start in range(0, len(values), BLOCK):
        block = slice(start, start + BLOCK)
        common = ones[block] @ ones.T
        compared = (common > 1) & (np.arange(len(values)) > np.arange(len(values))[block, None])
        if not compared.any():
            continue
        count = common[compared]
        one, other = (values[block] @ ones.T)[compared] / count, (ones[block] @ values.T)[compared] / count
        first = _variance((squares[block] @ ones.T)[compared] / count, one)
        second = _variance((ones[block] @ squares.T)[compared] / count, other)
        distance = one - other + (centres[block, None] - centres)[compared]
        shared = (values[block] @ values.T)[compared] / count - one * other
        sums += [
            _sum_of_ratios(shared, np.sqrt(first * second)),
            _sum_of_ratios(2 * shared, first + second + np.square(distance)),
        ]
        pairs += len(count)
    if not pairs:
        return math.nan, math.nan, False
    return float(sums[0] / pairs), float(sums[1] / pairs), True


def _centre(run: FloatArray) -> float:
    """Return the mean; of equal numbers exactly the number."""
    if not len(run):
        return 0.0
    return float(run[0]) if np.ptp(run) == 0 else float(run.mean())


def _variance(mean_square: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the variances; exactly 0 where rounding alone makes them differ from it."""
    variance = mean_square - np.square(mean)
    values: FloatArray = np.where(variance > 1e-13 * mean_square, variance, 0.0)
    return values


def _sum_of_ratios(above: FloatArray, below: FloatArray) -> float:
    """Return the sum, nan where something is divided by 0."""
    if not (below > 0).all():
        return math.nan
    return float(np.clip(above / below, -1.0, 1.0).sum())
