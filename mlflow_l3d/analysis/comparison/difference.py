"""The difference of two systems, how sure it is, and what it would take to be surer."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Protocol

import numpy as np

from mlflow_l3d.analysis.comparison.predictions import least_error
from mlflow_l3d.analysis.comparison.system import Means
from mlflow_l3d.analysis.intervals import LEVEL, FloatArray, t_p_value, t_quantile

POWERS: Final = (0.80, 0.95)
MOST_NEEDED: Final = 10_000_000
"""Where more runs than this are needed, no number of runs is enough."""
_CERTAIN: Final = 30.0
"""Standard errors beyond which a difference is found whatever the degrees of freedom (2 and more) are."""
_ROUNDING: Final = 1e-9
"""Part of a score that is not a difference."""


class Uncertain(Protocol):
    """What a difference varies by: standard error and degrees of freedom, now and with so many runs (or rows)."""

    @property
    def error(self) -> float:
        """Standard error."""

    @property
    def degrees(self) -> float:
        """Degrees of freedom."""

    def with_runs(self, runs: float) -> tuple[float, float]:
        """Return both with so many runs of each system."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance of a difference of means.

    Attributes
    ----------
    of_runs, of_examples
        From runs (with the rest between a run and an example), and from test examples; they add up. Runs bring at
        least the square of :func:`mlflow_l3d.analysis.comparison.predictions.least_error`, and so do test examples if
        the two are alike on all of them.
    runs_raw
        What the spread of the runs alone says of `of_runs`.
    step
        What one run that departs from the others moves the difference by: one test example; if the difference is the
        same in all runs as much as two runs of these systems differ by, if that is more.
    unpaired
        What it would be if the two systems shared neither runs nor test examples; nan if runs show too little spread.
    shared_runs
        What is taken away by runs that they share; below 0 where these add some.
    a_run
        Variance of the difference that one run of each brings, so that L runs of each have ``a_run / L``.
    degrees_runs, degrees_examples
        Degrees of freedom.
    examples
        How many test examples any run saw.
    examples_raw
        What examples bring together with the rest between a run and an example: how uncertain `of_examples` is.
    """

    of_runs: float
    of_examples: float
    runs_raw: float
    step: float
    unpaired: float
    shared_runs: float
    a_run: float
    degrees_runs: float
    degrees_examples: float
    examples: int
    examples_raw: float

    @property
    def error(self) -> float:
        """Standard error."""
        return math.sqrt(self.of_runs + self.of_examples)

    @property
    def degrees(self) -> float:
        """Degrees of freedom by Welch and Satterthwaite, of the variances of runs and examples together; 1 at least."""
        return _degrees(self.of_runs, self.degrees_runs, self.examples_raw, self.degrees_examples, self.error**2)

    @property
    def saved(self) -> float:
        """Share of the variance that pairing takes away; below 0 if it adds some."""
        return 1 - self.error**2 / self.unpaired if self.unpaired > 0 else math.nan

    @property
    def saved_by_runs(self) -> float:
        """The part of `saved` that comes from shared runs; the rest comes from shared test examples."""
        return self.shared_runs / self.unpaired if self.unpaired > 0 else math.nan

    def with_runs(self, runs: float) -> tuple[float, float]:
        """Return standard error and degrees of freedom with so many runs of each, all shared if any are."""
        of_runs = max(self.a_run / runs, least_error(self.step, runs) ** 2)
        raw = self.of_examples + max(0.0, self.examples_raw - self.of_examples) * of_runs / self.of_runs
        variance = of_runs + self.of_examples
        return math.sqrt(variance), _degrees(of_runs, runs - 1, raw, self.degrees_examples, variance)


def _degrees(of_runs: float, degrees_runs: float, examples: float, degrees_examples: float, variance: float) -> float:
    uncertain = of_runs**2 / max(degrees_runs, 1.0) + examples**2 / max(degrees_examples, 1.0)
    return max(1.0, variance**2 / uncertain) if uncertain else max(degrees_runs, 1.0)


def spread(means: Means, first: int, second: int) -> Spread:
    """Return the variance of the difference of two systems, by their numbers, the smaller first."""
    one, other = means.systems[first], means.systems[second]
    pairs, others, _ = means.pairings[first, second]
    variances = [
        (part[first, first], part[second, second], -2 * part[first, second])
        for part in (means.of_runs, means.of_examples)
    ]
    of_runs, of_examples = (max(0.0, float(sum(each))) for each in variances)
    added = [(each.scores - each.scores.mean()) / each.runs for each in (one, other)]
    where = [each.setting if len(each.setting) else np.zeros(each.runs, dtype=np.int64) for each in (one, other)]
    parts = [(added[0][pairs] - added[1][others], where[0][pairs])]
    parts += [(np.delete(added[at], each), np.delete(where[at], each)) for at, each in enumerate((pairs, others))]
    groups = [values[at == each] for values, at in parts for each in np.unique(at)]
    kinds = np.array([max(1.0, len(group) - 1) for group in groups])
    squares = np.array([float(group @ group) * len(group) for group in groups]) / kinds
    total = float(squares.sum())
    degrees = total**2 / float((squares**2 / kinds).sum()) if total > 0 else 1.0
    covariance = float(means.of_runs[first, second])
    a_run = one.runs * means.of_runs[first, first] + other.runs * means.of_runs[second, second]
    if len(pairs):
        a_run -= 2 * covariance * one.runs * other.runs / len(pairs)
    unpaired = sum(max(0.0, float(variance)) for each in variances for variance in each[:2])
    scores = np.concatenate([one.scores, other.scores])
    scale = float(np.abs(scores).max())
    nothing, step = _ROUNDING * scale, max(one.step, other.step)
    if of_runs <= nothing**2:  # no departure is seen: one may be as large as runs, or else the two systems, lie apart
        step = max(step, math.hypot(one.scores.std(ddof=1), other.scores.std(ddof=1)))
        step = next(size for size in (step, float(np.ptp(scores)), scale, 1.0) if size > nothing)
    step *= 1.0 if len(pairs) == one.runs == other.runs else math.sqrt(2)
    least, runs = least_error(step, min(one.runs, other.runs)) ** 2, of_runs
    if least > of_runs:
        of_runs, degrees, unpaired = least, min(one.runs, other.runs) - 1.0, math.nan
    units, raw, examples = 0.0, 0.0, 0
    if len(one.run) and len(other.run):
        units = float((np.bincount(np.concatenate([one.unit, other.unit])) > 0).sum())
        raw = float(np.square(one.of_units - other.of_units).sum())
        examples = int((one.seen | other.seen).sum())
        if raw <= nothing**2:
            of_examples = least_error(one.width or step, examples) ** 2
    return Spread(
        of_runs,
        of_examples,
        runs_raw=runs,
        step=step,
        unpaired=unpaired,
        shared_runs=2 * covariance,
        a_run=max(0.0, float(a_run)),
        degrees_runs=degrees,
        degrees_examples=units - 1,
        examples=examples,
        examples_raw=max(raw, of_examples),
    )


def interval(difference: float, found: Uncertain, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a difference: Student's t."""
    half = t_quantile(found.degrees, level) * found.error
    return difference - half, difference + half


def p_value(difference: float, found: Uncertain) -> float:
    """Return the two-sided p-value of "no difference"."""
    return t_p_value(difference, found.error, found.degrees)


def probability_better(difference: float, found: Spread) -> float:
    """Return the share of the confidence distribution of the difference that lies above 0.

    One less half the two-sided p-value where the difference is above 0: the posterior probability that the first system
    is better on average, if all differences were equally probable before (Xie and Singh 2013, "Confidence distribution,
    the frequentist distribution estimator of a parameter", International Statistical Review 81).
    """
    share = p_value(difference, found) / 2
    return 1 - share if difference > 0 else share


def runs_needed(effect: float, found: Uncertain, power: float, level: float = LEVEL) -> float:
    """Return how many runs of each system settle the sign of a difference, with a probability.

    Parameters
    ----------
    effect
        The difference, above or below 0.
    found
        What it varies by.
    power
        The probability that the interval leaves out 0.
    level
        Level of the interval.

    Returns
    -------
    float
        inf where test examples are too few for any number of runs.
    """
    from scipy.special import nctdtr

    size = abs(effect)

    def enough(runs: int) -> bool:
        error, degrees = found.with_runs(runs)
        if error * _CERTAIN <= size:
            return True
        return float(nctdtr(degrees, size / error, t_quantile(degrees, level))) <= 1 - power

    if not size > 0 or not enough(MOST_NEEDED):
        return math.inf
    return float(3 + bisect_left(range(3, MOST_NEEDED), True, key=enough))


def runs_to_settle(difference: float, found: Spread, smallest_effect: float, level: float = LEVEL) -> float:
    """Return how many runs of each settle a comparison with 80 % if the true difference is the one found.

    By its sign, or as equivalent by what it lies within the smallest effect (nan for none); inf if no number does.
    """
    return runs_needed(_easiest(difference, smallest_effect), found, POWERS[0], level)


def examples_to_settle(difference: float, found: Spread, smallest_effect: float, level: float = LEVEL) -> float:
    """Return how many test examples settle a comparison, as :func:`runs_to_settle`, with infinitely many runs.

    inf if no number does, or no run has predictions.
    """
    from scipy.special import ndtri

    effect = _easiest(difference, smallest_effect)
    if not effect > 0 or not found.examples:
        return math.inf
    quantiles = float(ndtri((1 + level) / 2) + ndtri(POWERS[0]))
    return math.ceil(max(2.0, (quantiles / effect) ** 2 * found.of_examples * found.examples))


def _easiest(difference: float, smallest_effect: float) -> float:
    """Return the size of a difference, or what it lies within the smallest effect if that is more."""
    return float(np.nanmax([abs(difference), smallest_effect - abs(difference)]))


def contrasts(count: int) -> tuple[list[tuple[int, int]], FloatArray]:
    """Return all pairs of so many systems, and the matrix that makes their differences out of means."""
    pairs = list(combinations(range(count), 2))
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return pairs, np.eye(count)[first] - np.eye(count)[second]


def correlations(means: Means, spreads: Sequence[Spread]) -> FloatArray:
    """Return how the differences of all pairs hang together: estimated correlations, shape (pairs, pairs)."""
    _, matrix = contrasts(len(means.systems))
    covariance = matrix @ (means.of_runs + means.of_examples) @ matrix.T
    errors = np.array([each.error for each in spreads])
    np.fill_diagonal(covariance, errors**2)
    return covariance / np.outer(errors, errors)
