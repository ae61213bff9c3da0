"""Which choice moves which factor: one test a choice and factor, with errors that points share, adjusted for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, IntArray, Measured
from mlflow_l3d.studies.sweep.numbers.point import Choice, Choices, SweptPoint, blocks_of, groups, value_of

_MOST: Final = 1e6
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class LevelTest:
    """A test that a number is the same at all levels.

    Attributes
    ----------
    levels
        Numbers of the levels that were compared.
    means
        The number at each of them, averaged over the other choices.
    errors
        Standard errors of these means.
    statistic, numerator, denominator
        The statistic and its degrees of freedom.
    p
        Probability of as large a statistic if all levels were alike.
    spread, spread_low, spread_high
        Standard deviation (ddof=1) of the true numbers over levels, without what errors add, and its interval.
    points
        How many points it rests on.
    """

    levels: tuple[int, ...]
    means: FloatArray
    errors: FloatArray
    statistic: float
    numerator: float
    denominator: float
    p: float
    spread: float
    spread_low: float
    spread_high: float
    points: int


def level_test(
    level_of: Sequence[int], measured: Measured, blocks: Sequence[IntArray], confidence: float
) -> LevelTest | None:
    """Return the test that a number is the same at all levels.

    Parameters
    ----------
    level_of
        Level of each point, a number from 0.
    measured
        The numbers.
    blocks
        Places of points that are alike in all other choices. A block with one level says nothing, one that lacks a
        level counts for those that it has (least squares, additive).
    confidence
        Level of the interval of the spread.

    Returns
    -------
    LevelTest or None
        None if no two levels can be compared.

    Notes
    -----
    The sum of squares of the levels' distances from their mean over its expectation if there are none, referred to F
    (Brunner, Dette and Munk 1997). Its degrees of freedom come from Box's approximation with the covariances of
    the levels, which points share, each estimated with the degrees of freedom of its source. It is about these points:
    whether other tasks or models would show the same is another question.
    """
    from scipy.special import chndtr, fdtrc, ncfdtr

    labels = np.asarray(level_of)
    usable = [block for block in blocks if len(set(labels[block].tolist())) > 1]
    if not usable:
        return None
    usable = _connected(usable, labels)
    places = np.concatenate(usable)
    numbers, own = measured.at(places), labels[places]
    levels = np.unique(own)
    effects = _effects(own[:, None] == levels, np.repeat(np.arange(len(usable)), [len(each) for each in usable]))
    found, parts = numbers.combined(effects)
    total = sum(part for part, _ in parts) if parts else np.zeros((len(levels), len(levels)))
    expected = float(np.trace(total))
    means, mean_parts = numbers.combined(effects + 1 / len(places))
    errors = np.sqrt(np.sum([np.diag(part) for part, _ in mean_parts], axis=0)) if parts else np.zeros(len(levels))
    squares, count = float(found @ found), len(levels) - 1
    # Runs that are equal at all levels differ in nothing, which has no error either.
    known = expected > _ROUNDING * float(np.square(numbers.errors()).sum())
    statistic = squares / expected if known else math.nan
    numerator, denominator = _degrees(parts, count)
    p = float(fdtrc(numerator, denominator, statistic)) if known else math.nan
    spread = math.sqrt(max(0.0, squares - expected) / count)
    low = high = math.nan
    if known:
        tail = (1 - confidence) / 2

        def below(noncentrality: float) -> float:
            value = ncfdtr(numerator, denominator, noncentrality, statistic)
            # scipy has no value for some very large statistics with many degrees of freedom: then it is a chi-squared
            return float(chndtr(numerator * statistic, numerator, noncentrality) if math.isnan(value) else value)

        ends = (_noncentrality(below, 1 - tail), _noncentrality(below, tail))
        low, high = (math.sqrt(end / numerator * expected / count) for end in ends)
    return LevelTest(
        tuple(levels.tolist()), means, errors, statistic, numerator, denominator, p, spread, low, high, len(places)
    )


def _effects(at_level: FloatArray, block: FloatArray) -> FloatArray:
    """Return the weights, shape (levels, points), that make the levels' distances from their mean."""
    count = at_level.shape[1]
    blocks = (block[:, None] == np.arange(block.max() + 1)).astype(np.float64)
    columns = np.hstack([at_level.astype(np.float64), blocks])
    centred: FloatArray = (np.eye(count) - 1 / count) @ np.linalg.pinv(columns)[:count]
    return centred


def _connected(blocks: Sequence[IntArray], labels: IntArray) -> list[IntArray]:
    """Return the blocks that levels tie together: those of the largest group."""
    from scipy.sparse.csgraph import connected_components

    has_level = np.array([np.isin(np.unique(labels), labels[block]) for block in blocks], dtype=int)
    _, group_of = connected_components(has_level @ has_level.T, directed=False)
    tied = [
        [block for block, number in zip(blocks, group_of, strict=True) if number == group]
        for group in range(max(group_of) + 1)
    ]
    return max(tied, key=lambda each: (len(np.unique(labels[np.concatenate(each)])), sum(map(len, each))))


def _degrees(parts: Sequence[tuple[FloatArray, float]], count: int) -> tuple[float, float]:
    """Return the degrees of freedom of the statistic: of its numerator, and of the variance that it is set against."""
    total = sum(float(np.trace(part)) for part, _ in parts)
    if not total > 0:
        return float(count), _MOST
    whole = np.sum([part for part, _ in parts], axis=0)
    squares = float((whole * whole).sum())
    error = 0.0
    for part, degrees in parts:
        trace, own = float(np.trace(part)), float((part * part).sum())
        error += own / degrees
        if math.isfinite(degrees) and degrees > 1:
            # The square of an estimated covariance is too large on average, by what is known of Wishart matrices.
            true = degrees**2 / ((degrees - 1) * (degrees + 2)) * (own - trace**2 / degrees)
            true = min(own, max(true, trace**2 / count))
            squares += true - own
    numerator = min(float(count), max(1.0, total**2 / squares))
    return numerator, min(_MOST, total**2 / error) if error > 0 else _MOST


def _noncentrality(below: Callable[[float], float], wanted: float) -> float:
    """Return the noncentrality at which the statistic falls below the one found with probability `wanted`."""
    from scipy.optimize import brentq

    if below(0.0) <= wanted:
        return 0.0
    top = 1.0
    while below(top) > wanted and top < _MOST:
        top *= 2
    return float(brentq(lambda by: below(by) - wanted, 0.0, top))


@dataclass(frozen=True, slots=True)
class Interaction:
    """Whether a choice moves the importance of a factor, or the golden standard deviation.

    Attributes
    ----------
    choice
        The choice.
    of
        A factor (its corrected importance), or ``golden_std`` (the natural log of it).
    values
        The values of the choice that were compared.
    test
        The test of whether these values differ.
    p_holm
        Its p-value, adjusted for all choices and factors (Holm).
    """

    choice: str
    of: str
    values: tuple[Choice, ...]
    test: LevelTest
    p_holm: float

    def extremes(self) -> tuple[tuple[Choice, float], tuple[Choice, float]]:
        """Return the value of the choice with the lowest mean, and that with the highest, each with its mean."""
        means = self.test.means
        low, high = int(means.argmin()), len(means) - 1 - int(means[::-1].argmax())  # of equal ones two
        return (self.values[low], float(means[low])), (self.values[high], float(means[high]))


def interaction(
    points: Sequence[SweptPoint], choices: Choices, choice: str, of: str, measured: tuple[IntArray, Measured]
) -> Interaction | None:
    """Return whether a choice moves a number; None if no two points differ in it and are alike in all others.

    Parameters
    ----------
    points, choices, choice, of, measured
        As in :func:`mlflow_l3d.studies.sweep.numbers.trends.trend`; the values of the choice may be texts.
    """
    places, numbers = measured
    here = [points[at] for at in places]
    if len(here) < 2:
        return None
    labels: dict[object, int] = {value: at for at, value in enumerate(choices[choice])}
    own = [labels.setdefault(value_of(point, choice), len(labels)) for point in here]
    test = level_test(own, numbers, groups(blocks_of(here, choices, choice)), LEVEL)
    if test is None:
        return None
    named = list(labels)
    return Interaction(choice, of, tuple(named[at] for at in test.levels), test, test.p)  # type: ignore[misc]
