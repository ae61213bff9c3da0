"""Evidence that may be looked at after every run: e-values, confidence sequences, and how much many claims need.

An e-value has mean 1 at most if there is nothing to be found, at whatever time one stops. So it exceeds 1/alpha ever
with probability alpha at most (Ville 1939), and the product of those of independent data is one again (Ramdas,
Grünwald, Vovk and Shafer 2023, "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38).

What this does not guarantee: scores of runs are taken to be normal, with a variance that the degrees of freedom
describe. Rates of passed and failed need no such assumption.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Estimate(NamedTuple):
    """A difference that more runs make more precise.

    Attributes
    ----------
    difference
        Estimated; above 0 if the candidate is better.
    variance
        Its variance in units of that of one run; falls with the runs.
    std
        Standard deviation of one run, in the unit of the difference.
    degrees
        Degrees of freedom that `std` is known with; inf if it is given.
    """

    difference: float
    variance: float
    std: float
    degrees: float

    @property
    def error(self) -> float:
        """Standard error of the difference."""
        return self.std * math.sqrt(self.variance)


def evidence_of_gain(estimate: Estimate, effect: float) -> float:
    """Return the e-value against "the difference is 0 or less".

    Parameters
    ----------
    estimate
        What the runs so far say.
    effect
        A difference that is worth finding, in the unit of the difference and above 0: the evidence grows fastest if
        the true one is about as large. The e-value is valid with any, if it does not depend on these runs.

    Notes
    -----
    A mixture of likelihood ratios over differences of half a normal distribution with standard deviation `effect`, and
    over the standard deviation of runs with its right Haar prior: the t-test that Pérez-Ortiz, Lardy, de Heide and
    Grünwald (2024, "E-statistics, group invariance and anytime-valid testing", Annals of Statistics 52) show to be
    valid at any time. For differences below 0 it is smaller still: the ratio is monotone in the difference.

    Examples
    --------
    >>> round(evidence_of_gain(Estimate(2.0, 1 / 10, 1.0, math.inf), 1.0))
    47489430
    >>> evidence_of_gain(Estimate(-2.0, 1 / 10, 1.0, math.inf), 1.0) < 0.1
    True
    """
    from scipy.special import log_ndtr, stdtr

    if estimate.std == 0:
        return math.inf if estimate.difference > 0 else 0.0
    share = estimate.variance / (estimate.variance + (effect / estimate.std) ** 2)
    t, degrees = estimate.difference / estimate.error, estimate.degrees
    sign = t * math.sqrt(1 - share)
    if math.isinf(degrees):
        two_sided = 0.5 * math.log(share) + t * t * (1 - share) / 2
        above = float(log_ndtr(sign))
    else:
        grown = math.log1p(t * t / degrees) - math.log1p(t * t * share / degrees)
        two_sided = 0.5 * math.log(share) + (degrees + 1) / 2 * grown
        scaled = sign * math.sqrt((degrees + 1) / (degrees + t * t * share))
        above = math.log(max(float(stdtr(degrees + 1, scaled)), 1e-300))
    return math.exp(min(two_sided + math.log(2) + above, 700.0))


def confidence_sequence(estimate: Estimate, effect: float, level: float) -> tuple[float, float]:
    """Return an interval of the difference that holds at every look together, with probability `level`.

    Parameters
    ----------
    estimate, effect
        As of :func:`evidence_of_gain`; the interval is narrowest if its half width is about the effect.
    level
        Such as 0.95.

    Notes
    -----
    All differences that two-sided evidence, over normal differences, does not exceed 1 / (1 - level) against.
    """
    if estimate.std == 0:
        return estimate.difference, estimate.difference
    width, degrees = (effect / estimate.std) ** 2, estimate.degrees
    share = estimate.variance / (estimate.variance + width)
    log_bound = -math.log1p(-level) - 0.5 * math.log(share)
    if math.isinf(degrees):
        square = 2 * log_bound / (1 - share)
    else:
        ratio = math.exp(2 * log_bound / (degrees + 1))
        square = degrees * (ratio - 1) / (1 - ratio * share) if ratio * share < 1 else math.inf
    half = estimate.error * math.sqrt(square)
    return estimate.difference - half, estimate.difference + half


def evidence_of_lower_rate(passed: int, failed: int, bound: float) -> float:
    """Return the e-value against "the rate of passed is `bound` or more".

    Parameters
    ----------
    passed, failed
        How many there are so far.
    bound
        Above 0 and below 1.

    Notes
    -----
    A bet on each outcome, mixed over all rates below the bound (Robbins 1970): no assumption but that outcomes are
    independent.

    Examples
    --------
    >>> evidence_of_lower_rate(0, 0, 0.8)
    1.0
    >>> round(evidence_of_lower_rate(1, 4, 0.8), 1)  # one of five passed
    32.5
    >>> round(evidence_of_lower_rate(4, 1, 0.8), 2)
    0.33
    """
    from scipy.special import betainc, betaln

    outcomes = math.log(float(betainc(passed + 1, failed + 1, bound))) + float(betaln(passed + 1, failed + 1))
    none = (passed + 1) * math.log(bound) + failed * math.log1p(-bound)
    return math.exp(min(outcomes - none, 700.0))


def rate_sequence(passed: int, failed: int, level: float) -> tuple[float, float]:
    """Return an interval of a rate that holds at every look together, with probability `level`.

    Notes
    -----
    All rates that a uniform mixture of bets does not exceed 1 / (1 - level) against.

    Examples
    --------
    >>> low, high = rate_sequence(20, 0, 0.95)
    >>> round(low, 2), high
    (0.74, 1.0)
    """
    from scipy.optimize import brentq
    from scipy.special import betaln, xlog1py, xlogy

    bound = float(betaln(passed + 1, failed + 1)) + math.log1p(-level)

    def over(rate: float) -> float:
        return bound - float(xlogy(passed, rate) + xlog1py(failed, -rate))

    middle = passed / (passed + failed) if passed + failed else 0.5
    low = brentq(over, 0.0, middle) if passed and over(0.0) > 0 else 0.0
    high = brentq(over, middle, 1.0) if failed and over(1.0) > 0 else 1.0
    return float(low), float(high)


def evidence_needed(number: int, kept: int, planned: int, alpha: float) -> float:
    """Return the e-value that a claim of a session needs, whose candidates come one after another.

    Parameters
    ----------
    number
        Of the candidate, from 1.
    kept
        How many candidates were kept before it.
    planned
        Candidates that the session is planned for; it may have fewer or more.
    alpha
        Expected share of false claims among all, at most.

    Notes
    -----
    e-LOND (Xu and Ramdas 2024, "Online multiple testing with e-values", AISTATS): 1 / (alpha gamma (kept + 1)), which
    controls the false discovery rate however the e-values depend on each other, as they do if they share the runs of a
    champion. The weights gamma are .9 / planned for the planned candidates; a tenth of that for the next
    stretch of twice as many, and so on. They add up to 1.

    Examples
    --------
    >>> round(evidence_needed(1, 0, 300, 0.05)), round(evidence_needed(300, 5, 300, 0.05))
    (6667, 1111)
    >>> round(evidence_needed(301, 0, 300, 0.05))
    133333
    """
    stretch, end = 0, planned
    while number > end:
        stretch += 1
        end += planned * 2**stretch
    weight: float = 0.9 * 0.1**stretch / (planned * 2**stretch)
    return 1 / (alpha * weight * (kept + 1))
