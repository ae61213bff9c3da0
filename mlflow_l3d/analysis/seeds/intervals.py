"""Intervals of what seeds say together: kappa, robust and fragile examples, distance of predicted numbers."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlflow_l3d.analysis.jackknife import ratio_interval, share_interval
from mlflow_l3d.analysis.stability.pair_spread import MOST_RUNS
from mlflow_l3d.analysis.stability.prediction_matrix import IntArray, PredictionMatrix
from mlflow_l3d.analysis.stability.regression_agreement import absolute_difference
from mlflow_l3d.analysis.stability.votes import count_votes, fleiss_kappa
from mlflow_l3d.analysis.typing import FloatArray

Interval = tuple[float, float]
_FEWEST_RUNS: Final = 4
_UNKNOWN: Final = (math.nan, math.nan)


def vote_intervals(predictions: IntArray, labels: IntArray) -> dict[str, Interval]:
    """Return 95 % intervals, over seeds, of what S seeds with one test set say together.

    Parameters
    ----------
    predictions
        Shape (S, n): class numbers, or -1.
    labels
        Shape (n,): true class numbers.

    Returns
    -------
    dict
        ``fleiss_kappa``, ``robust_share``, ``fragile_share`` and ``never_right_share`` -> lower and upper end. nan
        where there are fewer than four seeds or more than 200, or leaving one out changes nothing.

    Notes
    -----
    One seed at a time is left out (jackknife; kappa on Fisher's scale, shares on the logit scale). What is robust
    depends on how many seeds there are: the interval is of the share that S other seeds would give on these examples.
    The jackknife serves functions like these, too: up to (S - 1) / S its variance is on average at least that of any
    symmetric function of S - 1 seeds (Efron and Stein 1981). In simulations with 10 seeds on 300 examples the
    intervals of shares cover in 93 to 99 % of cases and that of kappa in 93 to 97 %; where one seed in ten collapses
    in 38 to 94 % and 62 %, for a third of such studies sees no collapse.
    """
    runs = len(predictions)
    names = ("fleiss_kappa", "robust_share", "fragile_share", "never_right_share")
    if not _FEWEST_RUNS <= runs <= MOST_RUNS:
        return dict.fromkeys(names, _UNKNOWN)
    right = predictions == labels
    counts = right.sum(axis=0)
    without = counts - right
    robust, never = (without == runs - 1).mean(axis=1), (without == 0).mean(axis=1)
    whole = float((counts == runs).mean()), float((counts == 0).mean())
    kappas = np.array([_kappa(np.delete(predictions, run, axis=0), labels) for run in range(runs)])
    low, high = share_interval((1 + _kappa(predictions, labels)) / 2, (1 + kappas) / 2)
    shares = (
        share_interval(whole[0], robust),
        share_interval(1 - sum(whole), 1 - robust - never),
        share_interval(whole[1], never),
    )
    return dict(zip(names, ((2 * low - 1, 2 * high - 1), *shares), strict=True))


def number_intervals(predictions: FloatArray) -> dict[str, Interval]:
    """Return the 95 % interval of ``absolute_difference``, over seeds, on the log scale.

    Parameters
    ----------
    predictions
        Shape (S, n), finite.

    Notes
    -----
    As :func:`vote_intervals`; it covers in 92 to 93 % of cases.
    """
    runs = len(predictions)
    if not _FEWEST_RUNS <= runs <= MOST_RUNS:
        return {"absolute_difference": _UNKNOWN}
    without = np.array([absolute_difference(np.delete(predictions, run, axis=0)) for run in range(runs)])
    return {"absolute_difference": ratio_interval(absolute_difference(predictions), without)}


def _kappa(predictions: IntArray, labels: IntArray) -> float:
    votes = count_votes(PredictionMatrix.from_arrays(predictions, labels))
    return fleiss_kappa(votes, *predictions.shape)
