"""Scores of one set of predicted numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.stability.regression_agreement import numbers, pearson_consistency
from mlflow_l3d.analysis.typing import FloatArray


def regression_metrics(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> dict[str, float]:
    """Return the scores of predicted numbers against the true ones.

    Parameters
    ----------
    labels, predictions
        Shape (n,): finite numbers.

    Returns
    -------
    dict
        ``pearson`` and ``spearman`` in [-1, 1], 0 where one side is one number only (as Matthews' correlation of one
        class); ``mse`` and ``mae`` in the (squared) unit of the labels. They equal scipy's and scikit-learn's.

    Raises
    ------
    ValueError
        If the arrays are empty, differ in length, or a number is not finite.
    """
    truth, guess = numbers(labels, "labels", 1), numbers(predictions, "predictions", 1)
    if truth.shape != guess.shape or not truth.size:
        msg = f"labels and predictions must be equally many, at least one, got {len(truth)} and {len(guess)}"
        raise ValueError(msg)
    return {
        "pearson": _correlation(truth, guess),
        "spearman": _correlation(_ranks(truth), _ranks(guess)),
        "mse": float(np.square(truth - guess).mean()),
        "mae": float(np.abs(truth - guess).mean()),
    }


def _ranks(values: FloatArray) -> FloatArray:
    ranks: FloatArray = np.asarray(pd.Series(values).rank().to_numpy(), dtype=np.float64)
    return ranks


def _correlation(one: FloatArray, other: FloatArray) -> float:
    value = pearson_consistency(np.stack((one, other)))
    return 0.0 if np.isnan(value) else float(np.clip(value, -1.0, 1.0))
