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


class Slope(NamedTuple):
    """A weighted line over the logarithm of the size: slope, its standard error, and degrees of freedom."""

    value: float
    error: float
    degrees: float


def slope(sizes: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> Slope:
    """Return the weighted slope of values over log(size); nan below two sizes, or if an error is unknown.

    If the points lie further from a line than their errors allow, the error of the slope grows accordingly.
    """
    x, y, weights = np.log(sizes), np.asarray(values), 1 / np.asarray(errors, dtype=np.float64)
    if len(np.unique(sizes)) < 2 or not (np.isfinite(y) & np.isfinite(weights)).all():
        return Slope(math.nan, math.nan, math.nan)
    line, covariance = np.polyfit(x, y, 1, w=weights, cov="unscaled")
    degrees = len(x) - 2
    excess = float(np.square(weights * (y - np.polyval(line, x))).sum()) / degrees if degrees else 1.0
    error = math.sqrt(max(1.0, excess) * covariance[0, 0])
    return Slope(float(line[0]), error, degrees if excess > 1 and degrees else math.inf)


def more_data(points: Sequence[Point], *, setting: str, now: int, sizes: Sequence[int]) -> list[Prediction]:
    """Return what other values of `setting` (``num_labelled``) would do, from points of the same context.

    Parameters
    ----------
    points
        At different sizes, each with intervals of 95 %.
    now
        The size of the investigation, one of the points.
    sizes
        The sizes to predict.

    Notes
    -----
    Straight lines: the logarithm of the spread, and the mean, over the logarithm of the size. Beyond the points the
    interval widens with each doubling; of two sizes, which cannot show that scores level off, it reaches to no change.
    """
    here = next((point for point in points if point.size == now), None)
    normal = t_quantile(math.inf)
    with_std = [point for point in points if point.std.low > 0 and math.isfinite(point.std.high)]
    logs = [math.log(point.std.value) for point in with_std]
    of_std = slope([p.size for p in with_std], logs, [math.log(p.std.high / p.std.low) / 2 / normal for p in with_std])
    means = [point for point in points if point.mean.high > point.mean.low]
    of_mean = slope(
        [p.size for p in means], [p.mean.value for p in means], [(p.mean.high - p.mean.low) / 2 / normal for p in means]
    )
    predictions = []
    for size in sizes:
        remedy = Remedy("more_data", changes={setting: size}, words=f"{setting} {size:,} in place of {now:,}")
        before = here.std.value if here else math.nan
        if here is None or math.isnan(of_std.value):
            why = f"one {setting} only, or no intervals: a second one shows the slope"
            predictions.append(Prediction(remedy=remedy, basis="unknown", std_before=before, reason=why))
            continue
        step = math.log(size / now)
        beyond = math.log2(max(size / max(p.size for p in points), min(p.size for p in points) / size, 1.0))
        doubt = DOUBT * beyond
        half = math.hypot(
            t_quantile(of_std.degrees) * of_std.error * abs(step),
            math.log(here.std.high / here.std.low) / 2,
            normal * doubt,
        )
        std = before * math.exp(of_std.value * step)
        change, half_change = of_mean.value * step, t_quantile(of_mean.degrees) * of_mean.error * abs(step)
        flat = 0.0 if beyond and len(points) < 3 else change
        predictions.append(
            Prediction(
                remedy=remedy,
                basis="extrapolated",
                std=Range(std, std * math.exp(-half), std * math.exp(half)),
                mean_change=Range(change, min(change, flat) - half_change, max(change, flat) + half_change),
                std_before=before,
            )
        )
    return predictions


def more_tests(golden_std: Range, *, luck: float, test_size: int, sizes: Sequence[int]) -> list[Prediction]:
    """Return what other numbers of test examples would do to the spread: a closed form.

    Parameters
    ----------
    luck
        Variance of a score that the choice of its `test_size` examples causes: of the accuracy a, ``a (1 - a) /
        test_size``, on average over runs; nan if unknown. Above the whole, within its interval, it is the whole.
    """
    predictions = []
    reason = "unknown, as all runs share their test examples, or none tell how the metric varies with them"
    if math.isfinite(luck):
        is_part = 0 <= luck <= max(golden_std.value, golden_std.high) ** 2
        reason = "" if is_part else "the test examples seem to cause more than all of the spread"
        luck = min(luck, golden_std.value**2)
    for size in sizes:
        change = luck * (test_size / size - 1)
        ends = [math.sqrt(max(0.0, end**2 + change)) if math.isfinite(end) else math.nan for end in golden_std]
        words = f"{size:,} test examples in place of {test_size:,}"
        remedy = Remedy("more_data", changes={"test_size": size}, words=words)
        predictions.append(
            Prediction(
                remedy=remedy,
                basis="unknown" if reason else "exact",
                std=UNKNOWN if reason else Range(*ends),
                ratio=UNKNOWN if reason else Range(*(one / end for one, end in zip(ends, golden_std, strict=True))),
                mean_change=Range(0.0, 0.0, 0.0),
                std_before=golden_std.value,
                reason=reason,
            )
        )
    return predictions
