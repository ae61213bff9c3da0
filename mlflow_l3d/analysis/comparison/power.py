"""Power of a group-sequential comparison, before its first run: what its looks would say of simulated runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlflow_l3d.analysis.comparison.predictions import least_error
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.analysis.planning.spending import FEWEST, Measured, SequentialPlan, decisions

DRAWS: Final = 20_000
"""Simulated comparisons: a power of 80 % is known to 0.3 points."""
_ROUGH_DRAWS: Final = 4000
"""The same while a budget is looked for: to 0.6 points."""
_AT_ONCE: Final = 500_000
"""Simulated differences that are held at once."""
_SEED: Final = 20_221_122
"""Of the simulations behind a stated power: the same question has the same answer."""
MOST_AUTO: Final = 200
"""Runs that are never exceeded unless more are asked for."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What a difference varies by.

    Attributes
    ----------
    std
        Standard deviation of the difference of one run of each.
    of_examples
        Variance of the mean difference that comes from the choice of test examples, whatever the number of runs; 0
        where they are taken as given.
    degrees_examples
        Degrees of freedom that it is known with.
    step
        What one test example moves the score of a run by; 0 if not known.
    degrees
        Degrees of freedom of `std`, if it is the standard deviation of some runs; infinite if it is the true one.
    """

    std: float
    of_examples: float = 0.0
    degrees_examples: float = math.inf
    step: float = 0.0
    degrees: float = math.inf

    def fractions(self, looks: tuple[int, ...]) -> list[float]:
        """Return the information at each look as a fraction of that at the last one."""
        if not self.of_examples:
            return [runs / looks[-1] for runs in looks]
        variances = [self.of_examples + self.std**2 / runs for runs in looks]
        return [variances[-1] / each for each in variances]


RUNS_ALONE: Final = Noise(1.0)
"""Test examples are taken as given."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What comes of a comparison, if the true difference is a certain one.

    Attributes
    ----------
    better, worse, equivalent, undecided
        Probability of each decision.
    runs
        Runs of either system when it is made, on average.
    """

    better: float
    worse: float
    equivalent: float
    undecided: float
    runs: float


@dataclass(frozen=True)
class Forecast:
    """What was to be expected.

    Attributes
    ----------
    std
        Of the difference of one run of each.
    same, worse
        What comes of the gate, if there is no difference, and if the candidate is worse by the smallest effect.
    """

    std: float
    same: Outlook
    worse: Outlook


def outlook(
    plan: SequentialPlan, difference: float, noise: Noise, generator: np.random.Generator, draws: int = DRAWS
) -> Outlook:
    """Return what comes of a comparison of normal scores.

    Parameters
    ----------
    plan
        Looks and bounds.
    difference
        The true one.
    noise
        What single differences vary by.
    generator
        Of the simulated runs.
    draws
        How many comparisons are simulated.
    """
    most = plan.looks[-1]
    counts = dict.fromkeys(("better", "worse", "equivalent", "undecided"), 0)
    runs = 0.0
    left = draws
    while left:
        now = min(left, max(1, _AT_ONCE // most))
        shift = math.sqrt(noise.of_examples) * generator.standard_normal(now)
        std: float | FloatArray = noise.std
        if math.isfinite(noise.degrees):  # what the true one may be
            std = std * np.sqrt(noise.degrees / generator.chisquare(noise.degrees, (now, 1)))
        differences = difference + std * generator.standard_normal((now, most))
        decided, when = simulate(plan, differences, noise, shift)
        for name, count in zip(*np.unique(decided, return_counts=True), strict=True):
            counts[str(name)] += int(count)
        runs += float(when.sum())
        left -= now
    return Outlook(**{name: count / draws for name, count in counts.items()}, runs=runs / draws)


def simulate(
    plan: SequentialPlan, differences: FloatArray, noise: Noise = RUNS_ALONE, shift: float | FloatArray = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the decision of each of many comparisons, and how many runs it took.

    Parameters
    ----------
    plan
        Looks and bounds.
    differences
        Shape (comparisons, runs): of single runs; as many runs as the last look has.
    noise
        Its part of the test examples counts.
    shift
        Shape (comparisons,): what the choice of test examples adds.
    """
    decided = np.full(len(differences), "undecided", dtype="U10")
    runs = np.full(len(differences), plan.looks[-1])
    for look, level in zip(plan.looks, plan.levels_at(noise.fractions(plan.looks)), strict=True):
        open_ = np.flatnonzero(decided == "undecided")
        measured = measured_pairs(differences[open_, :look], noise)
        shifted = measured.difference + np.broadcast_to(shift, decided.shape)[open_]
        found = decisions(measured._replace(difference=shifted), level, plan.smallest_effect)
        decided[open_], runs[open_] = found, look
    return decided, runs


def measured_pairs(differences: FloatArray, noise: Noise = RUNS_ALONE) -> Measured:
    """Return what the differences of pairs of runs say: shape (..., pairs), two pairs or more."""
    pairs = differences.shape[-1]
    mean = differences.mean(axis=-1)
    rest = differences - mean[..., None]
    square = np.square(rest).mean(axis=-1)
    runs_raw, of_examples = square / (pairs - 1), noise.of_examples
    of_runs = np.maximum(runs_raw, least_error(noise.step, pairs) ** 2)
    error = np.sqrt(of_runs + of_examples)
    with np.errstate(divide="ignore", invalid="ignore"):
        cubed = (rest**3).mean(axis=-1) / square**1.5
        skewness = np.nan_to_num(cubed / math.sqrt(pairs) * (np.sqrt(runs_raw) / error) ** 3)
        own = of_runs**2 / (pairs - 1) + of_examples**2 / noise.degrees_examples
        degrees = np.where(own > 0, error**4 / own, pairs - 1.0)
    return Measured(mean, error, degrees, skewness)


def power(plan: SequentialPlan, noise: Noise, draws: int = DRAWS) -> Forecast:
    """Return what comes of it if there is no difference, and if the candidate is worse by the smallest effect."""
    differences = 0.0, -plan.smallest_effect
    same, worse = (outlook(plan, each, noise, np.random.default_rng(_SEED), draws) for each in differences)
    return Forecast(noise.std, same, worse)


def runs_for_power(wanted: float, plan: Callable[[int], SequentialPlan], noise: Noise) -> int:
    """Return the smallest budget with which both answers of :func:`power` are found so often, or :data:`MOST_AUTO`.

    Parameters
    ----------
    wanted
        The probability.
    plan
        Budget to plan.
    noise
        As for :func:`outlook`.
    """

    def enough(budget: int) -> bool:
        expected = power(plan(budget), noise, _ROUGH_DRAWS)
        return min(expected.same.equivalent, expected.worse.worse) >= wanted

    low, high = FEWEST - 1, FEWEST
    while not enough(high):
        if high >= MOST_AUTO:
            return MOST_AUTO
        low, high = high, min(MOST_AUTO, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
