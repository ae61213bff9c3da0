"""Confidence intervals of shares from leaving one unit out at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlflow_l3d.analysis.importance.estimate import LEVEL
from mlflow_l3d.analysis.typing import FloatArray


def share_interval(estimate: float, *left_out: FloatArray) -> tuple[float, float]:
    """Return the 95 % jackknife interval of a share.

    Parameters
    ----------
    estimate
        The share, in [0, 1].
    left_out
        For each kind of unit that was sampled (runs, examples), the share without one unit at a time. Their variances
        are added: both kinds are random.

    Returns
    -------
    tuple of float
        Both nan where a kind has fewer than three units, or leaving units out changes nothing: then there is nothing to
        learn from it.

    Notes
    -----
    On the logit scale, where all shares lie between 0 and 1, else on their own, cut at 0 and 1. t quantiles with one
    degree of freedom less than units of the smallest kind.
    """
    if not left_out or min(len(values) for values in left_out) < 3:
        return math.nan, math.nan
    everything = np.concatenate(left_out)
    if not np.isfinite(everything).all() or np.ptp(everything) <= 1e-12:
        return math.nan, math.nan
    logits = bool(everything.min() > 0 and everything.max() < 1 and 0 < estimate < 1)
    scaled = [np.log(values) - np.log1p(-values) for values in left_out] if logits else list(left_out)
    half = quantile(scaled) * math.sqrt(sum(variance(values) for values in scaled))
    if logits:
        centre = math.log(estimate) - math.log1p(-estimate)
        return _share(centre - half), _share(centre + half)
    return max(0.0, estimate - half), min(1.0, estimate + half)


def ratio_interval(estimate: float, *left_out: FloatArray) -> tuple[float, float]:
    """Return the 95 % jackknife interval of a positive ratio, on the scale of its logarithm.

    Parameters
    ----------
    estimate
        The ratio.
    left_out
        As in :func:`share_interval`.

    Returns
    -------
    tuple of float
        Both nan where a kind has fewer than three units, or a ratio is not above 0.
    """
    if not left_out or min(len(values) for values in left_out) < 3:
        return math.nan, math.nan
    everything = np.concatenate(left_out)
    if not (np.isfinite(everything).all() and everything.min() > 0 and estimate > 0):
        return math.nan, math.nan
    scaled = [np.log(values) for values in left_out]
    half = quantile(scaled) * math.sqrt(sum(variance(values) for values in scaled))
    return estimate * math.exp(-half), estimate * math.exp(half)


def variance(left_out: FloatArray) -> float:
    """Return the jackknife's variance of an estimate from its values without one unit at a time."""
    count = len(left_out)
    return (count - 1) / count * float(np.square(left_out - left_out.mean()).sum())


def quantile(left_out: Sequence[FloatArray]) -> float:
    """Return the t quantile for the smallest kind of unit."""
    from scipy.special import stdtrit

    return float(stdtrit(min(len(values) for values in left_out) - 1, 1 - (1 - LEVEL) / 2))


def _share(logit: float) -> float:
    part = math.exp(-abs(logit))
    return (1 if logit >= 0 else part) / (1 + part)
