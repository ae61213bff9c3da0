"""Intervals of variance components: of rows by leaving rows out, of judges and prompts as few draws."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, jackknife_variance, t_quantile
from mlflow_l3d.analysis.judged.moments import Effects, Moments, estimate_moments
from mlflow_l3d.analysis.judged.table import level_codes

SETS: Final = 6
"""Judges are left out one at a time up to this number, else in so many sets; so are levels of other factors."""
MOST_LEVELS: Final = 30
"""Of more judges it does not matter which were drawn."""
NOTHING: Final = 1e-12
"""Part of the mean square of all values that counts as no variance."""
_MOST: Final = 3.0
"""Upper limits are not stretched beyond exp(3) times the estimate."""
_KNOWN: Final = 1e6
"""Degrees of freedom of what does not vary."""


def variance_limits(moments: Moments, values: FloatArray, effects: Effects) -> tuple[FloatArray, FloatArray]:
    """Return the limits of the variances of :class:`Moments`, at least 0; the upper is nan if nothing varied.

    Notes
    -----
    A variance is the difference of a mean square and the noise in it. Both have limits of their own, which are joined
    as in the modified large-sample intervals of Graybill and Wang (1980), with the correlation that leaving rows out
    shows (Zou and Donner 2008). Mean squares of effects nested in rows have chi-square limits with the degrees of
    freedom that fit their jackknife variance over rows, so rows need not be normal. Those of judges and other crossed
    factors have one degree less than levels, interactions the product of these; they are noise in those of their
    factors, of which they are few draws, too. Which judges were drawn also moves the other variances if values are 0
    and 1: the jackknife variance over levels, less what rows explain of it, widens their limits
    (for 0 and 1 less half of what rows explain, by simulation).
    """
    from scipy.special import chdtri

    squares, noises, squares_without, noises_without = moments.parts()
    scale = NOTHING * float(np.square(values).mean())
    tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    drawn = [each for name in effects.crossed if (each := _luck_of_levels(values, effects, name)) is not None]
    nested = len(effects.nested)
    few = 2 * np.square(moments.noise[:, nested:] * moments.variances[nested:]) @ (1 / moments.degrees)
    limits = []
    for place, variance in enumerate(moments.variances):
        without = squares_without[:, place], noises_without[:, place]
        spreads = [jackknife_variance(without[0]), jackknife_variance(without[1]) + few[place]]
        correlation = 0.0
        if place < nested and min(spreads) > 0:
            together = jackknife_variance(without[0] + without[1]) - sum(spreads)
            correlation = together / 2 / math.sqrt(spreads[0] * spreads[1])
        reach = []
        for which, size in enumerate((squares[place], noises[place])):
            size = max(float(size), 0.0)
            degrees = max(0.5, 2 * size**2 / spreads[which]) if spreads[which] > 0 else _KNOWN
            if place >= nested and which == 0:
                degrees = float(moments.degrees[place - nested])
            below, above = (abs(size - size * degrees / float(chdtri(degrees, tail))) for tail in tails)
            for errors in drawn if place < nested and size > scale else ():
                ratio = errors[which][place] / size
                below = math.hypot(below, size * -math.expm1(-ratio))
                above = math.hypot(above, size * math.expm1(min(ratio, _MOST)))
            reach.append((below, above))
        (below, above), (noise_below, noise_above) = reach
        down = below**2 + noise_above**2 - 2 * correlation * below * noise_above
        up = above**2 + noise_below**2 - 2 * correlation * above * noise_below
        # A variance below 0 is luck, so the upper limit takes it as 0.
        high = max(0.0, variance) + math.sqrt(max(0.0, up)) if squares[place] > scale else math.nan
        low = variance - math.sqrt(max(0.0, down))
        limits.append((low if low > scale else 0.0, high))
    lows, highs = np.array(limits).T
    return lows, highs


def _luck_of_levels(values: FloatArray, effects: Effects, name: str) -> FloatArray | None:
    """Return half-widths of mean squares and noises from which levels were drawn; None for few or many levels."""
    code = effects.crossed[name]
    levels = int(code.max()) + 1
    if not 3 <= levels <= MOST_LEVELS:
        return None
    set_of = np.arange(levels) * min(SETS, levels) // levels
    sets = int(set_of.max()) + 1
    parts = []
    for left_out in range(sets):
        kept = set_of[code] != left_out
        fewer = [{each: level_codes(of[kept]) for each, of in every.items()} for every in effects[:2]]
        try:
            parts.append(estimate_moments(values[kept], Effects(fewer[0], fewer[1], effects.pairs)).parts())
        except np.linalg.LinAlgError:  # without these levels some sources cannot be separated
            return None
    # Which judges were drawn moves shares in a skewed way, which few judges understate: half of it makes up for that.
    overlap = 0.5 if np.isin(values, (0, 1)).all() else 1.0
    groups = min(len(each[2]) for each in parts)
    if groups < max(len(each[2]) for each in parts):  # some rows have no other judge: what rows explain is not known
        overlap = 0.0
    half_widths = []
    for which in (0, 1):
        estimates = np.array([each[which] for each in parts])
        without, shrink = np.array([each[which + 2][:groups] for each in parts]), (sets - 1) / sets
        apart = without - without.mean(axis=0)
        of_rows = np.square(apart - apart.mean(axis=1, keepdims=True)).sum(axis=(0, 1)) * (groups - 1) / groups
        of_levels = np.square(estimates - estimates.mean(axis=0)).sum(axis=0)
        half_widths.append(t_quantile(sets - 1) * np.sqrt(np.maximum(0.0, shrink * (of_levels - overlap * of_rows))))
    return np.array(half_widths)
