"""Agreement of predicted numbers between runs: Pearson's and Lin's correlation, averaged over pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.metrics.regression import numbers, unit_length

BLOCK: Final = 256
"""Runs whose correlations with all others are held at once."""


@dataclass(frozen=True, slots=True)
class RegressionAgreement:
    """Agreement of predicted numbers between S runs on the same n examples.

    Attributes
    ----------
    runs, examples
        S and n.
    pearson, pearson_std
        CON-PEAR: Pearson's correlation of two runs' predictions, mean and population standard deviation over pairs
        (Zhou et al. 2025, their CON of STS-B). Blind to shift and scale. nan where a run predicts one number only.
    concordance, concordance_std
        Lin's concordance correlation coefficient, mean and standard deviation over pairs: 1 only where predictions are
        the same. nan where two runs both predict one number, the same one; 0 where only one of them does.
    pearson_truth, concordance_truth
        Mean over pairs of the mean of both runs' correlation with the truth (their Table 2), which is the mean over
        runs; nan without truth.
    absolute_difference
        Mean over pairs and examples of the difference between two predictions, in the unit of the predictions.
    constant_runs
        How many runs predict one number only.
    per_run_pearson, per_run_concordance
        Shape (S,): mean with all other runs.
    per_example_std
        Shape (n,): population standard deviation of an example's predictions over runs; the largest are fragile.
    """

    runs: int
    examples: int
    pearson: float
    pearson_std: float
    concordance: float
    concordance_std: float
    pearson_truth: float
    concordance_truth: float
    absolute_difference: float
    constant_runs: int
    per_run_pearson: FloatArray
    per_run_concordance: FloatArray
    per_example_std: FloatArray

    def to_frame(self) -> pd.DataFrame:
        """Return one row a run."""
        columns = {"pearson": self.per_run_pearson, "concordance": self.per_run_concordance}
        return pd.DataFrame({"run": np.arange(self.runs), **columns})


def concordance(predictions: npt.ArrayLike, truth: npt.ArrayLike) -> FloatArray:
    """Return Lin's concordance correlation coefficient of each run with the truth.

    Parameters
    ----------
    predictions, truth
        Shapes (S, n) and (n,): finite numbers.

    Returns
    -------
    numpy.ndarray
        Shape (S,): in [-1, 1]; nan where both are one number, the same one.

    Notes
    -----
    ``2 s_ab / (s_a^2 + s_b^2 + (mean_a - mean_b)^2)`` with ddof=0 (Lin 1989).
    """
    runs, real = numbers(predictions, "predictions", 2), numbers(truth, "truth", 1)
    if runs.shape[1] != len(real):
        msg = f"predictions must have one column for each of {len(real)} true values: {runs.shape}"
        raise ValueError(msg)
    if not len(real):
        return np.full(len(runs), math.nan)
    return _concordance(runs, real[None, :])[:, 0]


def regression_consistency(predictions: npt.ArrayLike, truth: npt.ArrayLike | None = None) -> RegressionAgreement:
    """Return all that can be said about the agreement of predicted numbers.

    Parameters
    ----------
    predictions
        Shape (S, n): finite numbers.
    truth
        Shape (n,), if known.

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is not finite.

    Notes
    -----
    Time S^2 n; memory S n and 256 S.
    """
    values = numbers(predictions, "predictions", 2)
    runs, examples = values.shape
    units = unit_length(values)
    pearson_rows, concordance_rows = np.full(runs, math.nan), np.full(runs, math.nan)
    squares = [0.0, 0.0]
    for start in range(0, runs if runs > 1 and examples else 0, BLOCK):
        block = slice(start, start + BLOCK)
        here = np.arange(start, min(start + BLOCK, runs))
        matrices = (units[block] @ units.T, _concordance(values[block], values))
        for kind, (matrix, rows) in enumerate(zip(matrices, (pearson_rows, concordance_rows), strict=True)):
            # Distances from 1, which runs that hardly differ keep exactly.
            distances = 1 - matrix
            distances[here - start, here] = 0.0
            rows[block] = 1 - distances.sum(axis=1) / (runs - 1)
            squares[kind] += float(np.square(distances).sum())
    means = [float(rows.mean()) if runs > 1 else math.nan for rows in (pearson_rows, concordance_rows)]
    stds = [_std(total, 1 - mean, runs) for total, mean in zip(squares, means, strict=True)]
    with_truth = [math.nan, math.nan]
    if truth is not None:
        of_truth = concordance(values, truth)
        real = numbers(truth, "truth", 1)
        if runs and examples:
            with_truth = [float((units @ unit_length(real[None, :])[0]).mean()), float(of_truth.mean())]
    return RegressionAgreement(
        runs=runs,
        examples=examples,
        pearson=means[0],
        pearson_std=stds[0],
        concordance=means[1],
        concordance_std=stds[1],
        pearson_truth=with_truth[0],
        concordance_truth=with_truth[1],
        absolute_difference=absolute_difference(values),
        constant_runs=int((np.ptp(values, axis=1) == 0).sum()) if examples else 0,
        per_run_pearson=pearson_rows,
        per_run_concordance=concordance_rows,
        per_example_std=values.std(axis=0) if runs else np.full(examples, math.nan),
    )


def correlation_matrices(predictions: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return Pearson's and Lin's correlation of every pair of runs.

    Parameters
    ----------
    predictions
        Shape (S, n): finite numbers.

    Returns
    -------
    tuple of numpy.ndarray
        Shape (S, S) twice, symmetric; nan where a pair has no value. The diagonal means nothing.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    values = numbers(predictions, "predictions", 2)
    units = unit_length(values)
    return units @ units.T, _concordance(values, values)


def _concordance(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return Lin's coefficient of each run of `one` (A, n) with each of `other` (B, n), shape (A, B)."""
    means_one, means_other = one.mean(axis=1, keepdims=True), other.mean(axis=1, keepdims=True)
    shared = (one - means_one) @ (other - means_other).T / one.shape[1]
    # The variance of one number only is exactly 0, whatever rounding makes of its mean.
    variances = [np.where(np.ptp(values, axis=1) > 0, values.var(axis=1), 0.0) for values in (one, other)]
    below = variances[0][:, None] + variances[1][None, :] + np.square(means_one - means_other.T)
    values = np.full(shared.shape, math.nan)
    np.divide(2 * shared, below, out=values, where=below > 0)
    return values


def _std(sum_of_squares: float, mean: float, runs: int) -> float:
    """Return the standard deviation over pairs from the sum of squares over ordered pairs."""
    if runs < 2 or math.isnan(mean):
        return math.nan
    return math.sqrt(max(0.0, sum_of_squares / (runs * (runs - 1)) - mean**2))


def absolute_difference(values: FloatArray) -> float:
    """Return the mean difference over pairs and examples, from sorted values in time S n log S."""
    runs, examples = values.shape
    if runs < 2 or not examples:
        return math.nan
    weights = 2 * np.arange(runs) - (runs - 1)
    return float((weights @ np.sort(values, axis=0)).sum() / (examples * runs * (runs - 1) / 2))
