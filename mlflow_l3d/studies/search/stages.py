"""The numbers of the two stages: few values far apart, then a narrow range around the best of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Final

from mlflow_l3d.approaches.hyperparameters import SearchRange

Number = int | float
_DIGITS: Final = 3
_FEW: Final = 3
"""Values of level 1 where the bounds do not give more."""


def coarse_values(searched: SearchRange) -> tuple[Number, ...]:
    """Return the values of level 1, rising.

    Those that the range names; else three evenly spaced ones, bounds included; with ``log`` the powers of ten inside
    the bounds (with the bounds themselves where these are fewer than three), or three in geometric progression where
    the range is less than two decades. Values between the bounds are rounded to three digits.
    """
    low, high = searched.low, searched.high
    if searched.coarse:
        values = list(searched.coarse)
    elif not searched.log:
        values = [low, _rounded(low + (high - low) / 2, searched), high]
    elif math.log10(high) - math.log10(low) < 2 - 1e-9:
        values = [low, _rounded(math.exp((math.log(low) + math.log(high)) / 2), searched), high]
    else:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        values = [min(max(float(f"1e{power}"), low), high) for power in range(first, last + 1)]
        values = values if len(values) >= _FEW else [low, *values, high]
    return tuple(sorted({_typed(value, searched) for value in values}))


def narrowed(searched: SearchRange, best: float) -> SearchRange | Number:
    """Return the range of level 2: one step of level 1 to both sides of `best`, within the bounds.

    Where `best` is a value of level 1, the steps are those to its neighbours (at an end, the only one there is, to both
    sides); between two values it is the step between them. With ``log`` a step is a factor.

    Parameters
    ----------
    searched
        The range of level 1.
    best
        Taken to the nearest bound where it lies outside.

    Returns
    -------
    SearchRange or number
        Without values of its own for level 1; a number where only one is left.
    """
    best = min(max(float(best), searched.low), searched.high)
    scale, back = (math.log, math.exp) if searched.log else (float, float)
    values = [scale(value) for value in coarse_values(searched)]
    below, above = _steps(values, scale(best))
    low = max(back(scale(best) - below), searched.low) if below else searched.low
    high = min(back(scale(best) + above), searched.high) if above else searched.high
    if searched.whole:
        low, high = float(round(low)), float(round(high))
    else:
        low, high = _rounded(low, searched), _rounded(high, searched)
    low, high = min(low, best), max(high, best)
    if low == high:
        return _typed(best, searched)
    return dataclasses.replace(searched, low=low, high=high, coarse=())


def _steps(values: list[float], best: float) -> tuple[float, float]:
    """Return the steps below and above `best` among rising values, 0 where there is but one value."""
    gaps = [after - before for before, after in itertools.pairwise(values)]
    if not gaps:
        return 0.0, 0.0
    tolerance = 1e-9 * max(gaps)
    under = sum(value < best - tolerance for value in values)  # values[under - 1] is the neighbour below
    over = sum(value <= best + tolerance for value in values)  # values[over] is the neighbour above
    below, above = min(max(under - 1, 0), len(gaps) - 1), min(max(over - 1, 0), len(gaps) - 1)
    return gaps[below], gaps[above]


def _rounded(value: float, searched: SearchRange) -> float:
    """Return `value` with few digits, where that hardly moves it, and within the bounds."""
    short = float(f"{value:.{_DIGITS}g}")
    near = abs(short - value) <= 0.01 * (searched.high - searched.low)
    return min(max(short if near else value, searched.low), searched.high)


def _typed(value: float, searched: SearchRange) -> Number:
    return int(min(max(round(value), searched.low), searched.high)) if searched.whole else float(value)
