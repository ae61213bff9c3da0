"""Group-sequential comparison: when to look, how large a difference must be there, and what may then be claimed.

Better and worse are tests at alpha/2 each, equivalence is two one-sided tests at alpha each (Schuirmann 1987). Each
spends its alpha over the looks by a function of the information so far (Lan and DeMets 1983, "Discrete sequential
boundaries for clinical trials", Biometrika 70), without regard to the others: to stop for one of them can only make
false claims of another rarer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.intervals import FloatArray

Spending: TypeAlias = Literal["pocock", "obrien_fleming"]
Decision: TypeAlias = Literal["better", "worse", "equivalent", "undecided"]
Numbers: TypeAlias = float | FloatArray
FEWEST: Final = 5
"""Runs before the first look at least: the variance of fewer is barely known."""
GROWTH: Final = 1.25
"""How many times as many runs the next look has at least."""
MOST_BENT: Final = 2.0
"""Skewness moves a limit outward to so many times its distance at most: few runs show little of it (by simulation)."""
_NOTHING: Final = 1e-12
"""Alpha that is too small to be spent."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)


class Measured(NamedTuple):
    """A mean difference at one look, or at the same look of many simulated comparisons.

    Attributes
    ----------
    difference
        Candidate minus baseline, above 0 if the candidate is better.
    error, degrees
        Its standard error and the degrees of freedom of that.
    skewness
        Of the mean difference, not of single ones.
    """

    difference: Numbers
    error: Numbers
    degrees: Numbers
    skewness: Numbers


class Levels(NamedTuple):
    """One-sided levels at one look: of a claim that one is better, and of one bound of equivalence."""

    difference: float
    equivalence: float


@dataclass(frozen=True)
class SequentialPlan:
    """What was fixed before the first run.

    Attributes
    ----------
    looks
        Runs of either system at each look, increasing; the last is the budget.
    smallest_effect
        The smallest difference that matters, in the unit of the scores.
    alpha
        Probability of a false claim: that one is better where the means are equal, and that they are equivalent where
        they differ by `smallest_effect`.
    spending
        ``pocock`` spends about the same at every look, ``obrien_fleming`` little at the first ones.
    """

    looks: tuple[int, ...]
    smallest_effect: float
    alpha: float = 0.05
    spending: Spending = "pocock"

    @cached_property
    def levels(self) -> tuple[Levels, ...]:
        """Levels at each look, where information grows with the runs."""
        return self.levels_at([runs / self.looks[-1] for runs in self.looks])

    def levels_at(self, fractions: Sequence[float]) -> tuple[Levels, ...]:
        """Return the levels at the looks so far, from the information at each as a fraction of that at the end."""
        one, two = (nominal_levels(fractions, alpha, self.spending) for alpha in (self.alpha / 2, self.alpha))
        return tuple(map(Levels, one, two))


def planned_looks(most: int, count: int) -> tuple[int, ...]:
    """Return how many runs there are at each look: `count` looks at most, each later by the same factor.

    Parameters
    ----------
    most
        Runs at the last one, :data:`FEWEST` or more.
    count
        Fewer where runs would grow by less than :data:`GROWTH` from one look to the next.
    """
    first = min(most, max(FEWEST, math.ceil(most / 8)))
    count = max(1, min(count, 1 + int(math.log(most / first) / math.log(GROWTH) + 1e-9)))
    if count == 1:
        return (most,)
    return tuple(round(first * (most / first) ** (look / (count - 1))) for look in range(count))


def alpha_spent(fraction: float, alpha: float, spending: Spending) -> float:
    """Return how much of a one-sided alpha is spent at a fraction of the information (Lan and DeMets 1983)."""
    from scipy.special import ndtr, ndtri

    if fraction >= 1:
        return alpha
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    return 2 * float(ndtr(ndtri(alpha / 2) / math.sqrt(fraction)))


def nominal_levels(fractions: Iterable[float], alpha: float, spending: Spending) -> FloatArray:
    """Return the one-sided level at each look that together spend `alpha`.

    Parameters
    ----------
    fractions
        Information at each look as a fraction of that at the last one. If it has not grown, there is no test.
    alpha, spending
        As of :func:`alpha_spent`.

    Notes
    -----
    The looks have the joint distribution of a Brownian motion at the fractions, whose density below the
    bounds so far is integrated numerically from look to look (Armitage, McPherson and Rowe 1969; Jennison and Turnbull
    2000, chapter 19).
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    spent, at, levels = 0.0, 0.0, []
    places, mass = np.zeros(1), np.ones(1)
    for fraction in fractions:
        now = alpha_spent(fraction, alpha, spending)
        if fraction <= at or now - spent < _NOTHING:
            levels.append(0.0)
            continue
        step, root = math.sqrt(fraction - at), math.sqrt(fraction)

        def left(bound: float) -> float:
            return float(mass @ ndtr((places - bound * root) / step)) - (now - spent)  # noqa: B023

        bound = brentq(left, -8.0, 12.0)
        low, high = -8 * root, bound * root
        new = (high - low) / 2 * _NODES + (high + low) / 2
        density = np.exp(-np.square((new[:, None] - places) / step) / 2) / (step * math.sqrt(2 * math.pi))
        places, mass = new, (high - low) / 2 * _WEIGHTS * (density @ mass)
        spent, at = now, fraction
        levels.append(float(ndtr(-bound)))
    return np.array(levels)


def limits(measured: Measured, level: float) -> tuple[Any, Any]:
    """Return both one-sided limits at a level, which together are the repeated confidence interval of a look.

    Notes
    -----
    Student's t, moved outward where the differences are skewed so that the limit would leave out the truth too often:
    the inverse of Hall's transformation (Hall 1992, "On the removal of skewness by transformation", Journal of the
    Royal Statistical Society B 54, section 2). It never moves a limit inward, so that to estimate the skewness costs no
    false claims, and never further than :data:`MOST_BENT`. Looks at few runs hang together a little less than a
    Brownian motion does; without skewness as well what the transformation takes is more than that gives.
    """
    from scipy.special import stdtrit

    quantile = np.full(np.shape(measured.degrees), math.inf) if level <= 0 else -stdtrit(measured.degrees, level)
    limits = []
    for side in (-1.0, 1.0):
        bend = -side * np.asarray(measured.skewness) / 3
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = (np.cbrt(1 + 3 * bend * (quantile - bend / 2)) - 1) / bend
            half = (
                np.where(np.abs(bend) > 1e-6, np.clip(moved, quantile, MOST_BENT * quantile), quantile) * measured.error
            )
        limits.append(measured.difference + side * np.where(np.isnan(half), math.inf if level <= 0 else 0.0, half))
    return limits[0], limits[1]


def decisions(measured: Measured, levels: Levels, smallest_effect: float) -> npt.NDArray[np.str_]:
    """Return what may be claimed at a look, of each comparison.

    Equivalence comes first: a difference that is certain to be too small to matter is not a regression, though it may
    be as certain that there is one.
    """
    low, high = limits(measured, levels.difference)
    inner_low, inner_high = limits(measured, levels.equivalence)
    within = (inner_low > -smallest_effect) & (inner_high < smallest_effect)
    return np.select([within, low > 0, high < 0], ["equivalent", "better", "worse"], "undecided")
