"""How the spread and the mean of scores change with more labelled or more test examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlflow_l3d.analysis.cure.extrapolate import DOUBT
from mlflow_l3d.analysis.cure.remedy import UNKNOWN, Prediction, Range, Remedy
from mlflow_l3d.analysis.intervals import t_quantile


class Point(NamedTuple):
    """The spread and the mean of scores, with their intervals, at one number of examples."""

    size: int
    std: Range
    mean: Range


def slope(sizes: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Return the weighted slope of values over log(size), and half its interval; nan below two sizes or with nan.

    If the points lie further from a line than their errors allow, the error of the slope grows accordingly.
    """
    x, y, weights = np.log(sizes), np.asarray(values), 1 / np.asarray(errors, dtype=np.float64)
    if len(np.unique(sizes)) < 2 or not (np.isfinite(y) & np.isfinite(weights)).all():
        return math.nan, math.nan
    line, covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    degrees = len(x) - 2
    excess = float(np.square(weights * (y - np.polyval(line, x))).sum()) / degrees if degrees else 1.0
    error = math.sqrt(max(1.0, excess) * covariance[0, 0])
    return float(line[0]), t_quantile(degrees if excess > 1 and degrees else math.inf) * error


def other_labels(now: int, size: int) -> Remedy:
    """Return another number of labelled examples as a remedy."""
    return Remedy("more_data", changes={"num_labelled": size}, words=f"{size:,} labelled examples in place of {now:,}")


def more_labels(points: Sequence[Point], *, now: int, size: int, unknown: str) -> Prediction:
    """Return what another number of labelled examples would do, from points of the same context.

    Parameters
    ----------
    points
        At different sizes, each with intervals of 95 %.
    now
        The size of the investigation, one of the points.
    size
        The size to predict.
    unknown
        The reason if nothing is: a single size, or one without an interval.

    Notes
    -----
    Straight lines: the logarithm of the spread, and the mean, over the logarithm of the size. Beyond the points the
    interval widens with each doubling; of two sizes, which cannot show a bend, it reaches to no change of the mean and
    to twice the change, and to a spread that falls by the root of the size.
    """
    here = next((point for point in points if point.size == now), None)
    normal = t_quantile(math.inf)
    with_std = [point for point in points if point.std.low > 0 and math.isfinite(point.std.high)]
    logs = [math.log(point.std.value) for point in with_std]
    of_std, half_std = slope(
        [p.size for p in with_std], logs, [math.log(p.std.high / p.std.low) / 2 / normal for p in with_std]
    )
    means = [point for point in points if point.mean.high > point.mean.low]
    of_mean, half_mean = slope(
        [p.size for p in means], [p.mean.value for p in means], [(p.mean.high - p.mean.low) / 2 / normal for p in means]
    )
    remedy = other_labels(now, size)
    before = here.std.value if here else math.nan
    if here is None or math.isnan(of_std):
        return Prediction(remedy=remedy, basis="unknown", std_before=before, reason=unknown)
    step = math.log(size / now)
    beyond = math.log2(max(size / max(p.size for p in points), min(p.size for p in points) / size, 1.0))
    half = math.hypot(half_std * step, math.log(here.std.high / here.std.low) / 2, normal * DOUBT * beyond)
    std = before * math.exp(of_std * step)
    change, half_change = of_mean * step, half_mean * abs(step)
    doubt, law = (abs(change), before * math.sqrt(now / size)) if beyond and len(points) < 3 else (0.0, std)
    return Prediction(
        remedy=remedy,
        basis="extrapolated",
        std=Range(std, min(std, law) * math.exp(-half), max(std, law) * math.exp(half)),
        mean_change=Range(change, change - doubt - half_change, change + doubt + half_change),
        std_before=before,
    )


def more_tests(golden_std: Range, *, luck: float, now: int, size: int) -> Prediction:
    """Return what another number of test examples would do to the spread: a closed form.

    Parameters
    ----------
    luck
        Variance of a score that the choice of its `now` examples causes: of the accuracy a, ``a (1 - a) / now``, on
        average over runs; nan if unknown. Above the whole, within its interval, it is the whole.
    """
    reason = "unknown, as all runs share their test examples, or none tell how the metric varies with them"
    if math.isfinite(luck):
        is_part = 0 <= luck <= max(golden_std.value, golden_std.high) ** 2
        reason = "" if is_part else "the test examples seem to cause more than all of the spread"
        luck = min(luck, golden_std.value**2)
    change = luck * (now / size - 1)
    ends = [math.sqrt(max(0.0, end**2 + change)) if math.isfinite(end) else math.nan for end in golden_std]
    words = f"{size:,} test examples in place of {now:,}"
    return Prediction(
        remedy=Remedy("more_data", changes={"test_size": size}, words=words),
        basis="unknown" if reason else "exact",
        std=UNKNOWN if reason else Range(*ends),
        ratio=UNKNOWN if reason else Range(*(one / end for one, end in zip(ends, golden_std, strict=True))),
        mean_change=Range(0.0, 0.0, 0.0),
        std_before=golden_std.value,
        reason=reason,
    )
