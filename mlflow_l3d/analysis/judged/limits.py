"""Intervals of variance components: of rows by leaving rows out, of judges and prompts as few draws."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_quantile
from mlflow_l3d.analysis.judged.moments import Effects, Moments, estimate_moments
from mlflow_l3d.analysis.judged.table import level_codes

SETS: Final = 6
"""Judges are left out one at a time up to this number, else in so many sets; so are levels of other factors."""
MOST_LEVELS: Final = 30
"""Of more judges it does not matter which were drawn."""
NOTHING: Final = 1e-12
"""Part of the mean square of all values that counts as no variance."""
LEAST: Final = 0.8
"""Part of a spread over rows that is left if judges differ less than rows explain: by simulation."""
FEW: Final = 30.0, 5.0
"""Upper limits on the log scale take 1 + 30 / (levels + 5) times the spread: by simulation, for skewed rows, too."""
MOST: Final = 3.0
"""Upper limits are not stretched beyond exp(3) times the mean square."""
TAIL: Final = (1 - LEVEL) / 2
FEWEST_DEGREES: Final = 3.0
"""Of the spread of a mean square: with fewer its limits are useless and hold the truth no more often."""
_KNOWN: Final = 1e6
"""Degrees of freedom of what does not vary."""


def variance_limits(moments: Moments, values: FloatArray, effects: Effects) -> tuple[FloatArray, FloatArray]:
    """Return the limits of the variances of :class:`Moments`, at least 0; the upper is nan if nothing varied.

    Notes
    -----
    A variance is the difference of a mean square and the noise in it. Both have limits of their own, which are joined
    as in the modified large-sample intervals of Graybill and Wang (1980), with the correlation that leaving rows out
    shows (Zou and Donner 2008). Mean squares of effects nested in rows have chi-square limits with the degrees of
    freedom that fit their jackknife variance over rows, so rows need not be normal. That variance is raised for being
    an estimate: Student's quantile replaces the normal one, with the degrees of freedom that its own jackknife shows.
    Their upper limits lie on the log scale (as Bonett's of 2006): few skewed rows make chi-square ones endless.
    Mean squares of judges and other crossed factors have one degree less than levels, interactions the product of
    these, and fewer if levels are skewed (below five levels they are taken as normal). They are noise in those of their
    factors, of which they are few draws, too. Which judges were drawn also moves the other variances if values are 0
    and 1: the jackknife variance over levels, less what rows explain of it, widens their limits.
    """
    from scipy.special import chdtri, stdtrit

    nested, variances = len(effects.nested), moments.variances
    parts = moments.parts()
    scale, sizes, without = NOTHING * float(np.square(values).mean()), np.maximum(parts[:2], 0.0), np.array(parts[2:])
    groups = without.shape[1]
    apart = without - without.mean(axis=1, keepdims=True)
    squares = np.square(apart).sum(axis=1)
    # The spread of a mean square is an estimate, which a few rows may make up: its own jackknife shows that.
    rest = np.log(np.maximum(squares[:, None] - np.square(apart), np.finfo(np.float64).tiny))
    known = np.maximum(FEWEST_DEGREES, 2 / np.maximum((groups - 1) * rest.var(axis=1), 1 / _KNOWN))
    spreads = (groups - 1) / groups * squares * np.square(stdtrit(known, 1 - TAIL) / stdtrit(_KNOWN, 1 - TAIL))
    drawn, squared = sum(_luck_of_levels(values, effects, name) for name in effects.crossed) + np.zeros((2, 2, nested))
    spreads[:, :nested] = np.maximum(LEAST * spreads[:, :nested], spreads[:, :nested] + np.minimum(drawn, 0.0))
    spreads[1] += 2 * np.square(moments.noise[:, nested:] * variances[nested:]) @ (1 / moments.degrees)
    with np.errstate(invalid="ignore", divide="ignore"):
        degrees = np.where(spreads > 0, np.maximum(0.5, 2 * sizes**2 / spreads), _KNOWN)
        correlation = np.nan_to_num(apart.prod(axis=0).sum(axis=0) / np.sqrt(squares.prod(axis=0)))
    degrees[0, nested:], correlation[nested:] = moments.degrees, 0.0
    below, above = (np.abs(sizes - sizes * degrees / chdtri(degrees, tail)) for tail in (TAIL, 1 - TAIL))
    own = sizes[:, :nested]
    few = 1 + FEW[0] / (np.array([code.max() + 1 for code in effects.nested.values()]) + FEW[1])
    above[0, :nested] = own[0] * np.expm1(stdtrit(_KNOWN, 1 - TAIL) * np.sqrt(2 * few / degrees[0, :nested]))
    ratio = np.divide(np.sqrt(np.maximum(squared, 0.0)), own, out=np.zeros_like(own), where=own > scale)
    below[:, :nested] = np.hypot(below[:, :nested], own * -np.expm1(-ratio))
    above[:, :nested] = np.hypot(above[:, :nested], own * np.expm1(np.minimum(ratio, MOST)))
    down = below[0] ** 2 + above[1] ** 2 - 2 * correlation * below[0] * above[1]
    up = above[0] ** 2 + below[1] ** 2 - 2 * correlation * above[0] * below[1]
    # A variance below 0 is luck, so the upper limit takes it as 0.
    high = np.maximum(variances, 0.0) + np.sqrt(np.maximum(up, 0.0))
    low = variances - np.sqrt(np.maximum(down, 0.0))
    return np.where(low > scale, low, 0.0), np.where(parts[0] > scale, high, math.nan)


def _luck_of_levels(values: FloatArray, effects: Effects, name: str) -> FloatArray:
    """Return what the drawn levels add to nested mean squares and noises: variances, and squares of half-widths.

    Both are below 0 by chance if that is little, and 0 for few or many levels.
    """
    code = effects.crossed[name]
    levels = int(code.max()) + 1
    if not 3 <= levels <= MOST_LEVELS:
        return np.zeros((2, 2, len(effects.nested)))
    set_of = np.arange(levels) * min(SETS, levels) // levels
    sets = int(set_of.max()) + 1
    parts = []
    for left_out in range(sets):
        kept = set_of[code] != left_out
        fewer = [{each: level_codes(of[kept]) for each, of in every.items()} for every in effects[:2]]
        try:
            parts.append(estimate_moments(values[kept], Effects(fewer[0], fewer[1], effects.pairs)).parts())
        except np.linalg.LinAlgError:  # without these levels some sources cannot be separated
            return np.zeros((2, 2, len(effects.nested)))
    estimates, groups = np.array([each[:2] for each in parts]), min(len(each[2]) for each in parts)
    without = np.array([[of[:groups] for of in each[2:]] for each in parts])
    apart = without - without.mean(axis=0)
    of_rows = np.square(apart - apart.mean(axis=2, keepdims=True)).sum(axis=(0, 2)) * (groups - 1) / groups
    of_rows *= groups == max(len(each[2]) for each in parts)  # else some rows have no other judge
    of_levels = np.square(estimates - estimates.mean(axis=0)).sum(axis=0)
    every = (sets - 1) / sets * (of_levels - of_rows)[:, : len(effects.nested)]
    return np.array([every, t_quantile(sets - 1) ** 2 * every])
