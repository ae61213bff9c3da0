"""How the spread and the mean of scores change with more labelled or more test examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mlflow_l3d.analysis.cure.remedy import UNKNOWN, Prediction, Range, Remedy


class Point(NamedTuple):
    """The spread and the mean of scores, with their intervals, at one number of examples."""

    size: int
    std: Range
    mean: Range


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
        The size to predict, above `now`.
    unknown
        The reason if nothing is: a single size, or one without an interval.

    Notes
    -----
    The line through the size of the investigation and the other one nearest to `size`: the logarithm of the spread, and
    the mean, over the logarithm of the size. Two sizes show no bend, and further ones mislead where it begins, so a
    line gives a range and no point (nan). The mean may stay (scores level off), or change twice as much (in proportion
    to the size), or times the growth of the variance: runs that begin to learn move the mean and the variance by one
    factor. Once most of them learn, the spread may fall in proportion to the size.
    """
    here = next((point for point in points if point.size == now), None)
    known = [point for point in points if point.std.low > 0 and math.isfinite(point.std.high)]
    others = [point for point in known if point.size != now]
    remedy = other_labels(now, size)
    before = here.std.value if here else math.nan
    if here not in known or here is None or not others:
        return Prediction(remedy=remedy, basis="unknown", std_before=before, reason=unknown)
    other = min(others, key=lambda point: abs(math.log(point.size / size)))
    step = math.log(size / now) / math.log(now / other.size)
    growth = (before / other.std.value) ** step
    wide_here, wide_other = (math.log(each.std.high / each.std.low) / 2 for each in (here, other))
    half = math.exp(math.hypot((1 + step) * wide_here, step * wide_other))
    half_change = abs(step) * math.hypot(*((each.mean.high - each.mean.low) / 2 for each in (here, other)))
    change = step * (here.mean.value - other.mean.value)
    std = low = high = before * growth
    ends = change, change
    if other.size != size:
        low, high = min(std, before * now / size), max(std, before * math.sqrt(now / size))
        ends = 0.0, change * max(2.0, growth**2)
        std = change = math.nan
    return Prediction(
        remedy=remedy,
        basis="extrapolated",
        std=Range(std, low / half, high * half),
        mean_change=Range(change, min(ends) - half_change, max(ends) + half_change),
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
    return Prediction(
        remedy=Remedy("more_data", changes={"test_size": size}, words=f"{size:,} test examples in place of {now:,}"),
        basis="unknown" if reason else "exact",
        std=UNKNOWN if reason else Range(*ends),
        ratio=UNKNOWN if reason else Range(*(one / end for one, end in zip(ends, golden_std, strict=True))),
        mean_change=Range(0.0, 0.0, 0.0),
        std_before=golden_std.value,
        reason=reason,
    )
