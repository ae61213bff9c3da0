"""One test that is run with several seeds: whether it meets its requirement, and whether it has changed.

Three numbers decide. Runs of this suite alone show that the requirement is not met; runs of this suite and those that
are remembered show that it is. Remembered runs say nothing about a change since then, so a third number compares the
runs of this suite with the remembered ones: it does not bound any error, and only decides how many runs there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from mlflow_l3d.analysis.planning.evidence import (
    Estimate,
    confidence_sequence,
    evidence_of_gain,
    evidence_of_lower_rate,
    rate_sequence,
)

Verdict: TypeAlias = Literal["passed", "failed", "undecided"]
_OTHER = 0.2
"""Share of runs with another score that equal scores are evidence against: twenty of them, at 5 %."""
_DROP = 4.0
"""How many times the odds of a failure are those of the bound, in a change that is looked for: from 80 to 50 %."""


class Reading(NamedTuple):
    """What the runs of a case say.

    Attributes
    ----------
    below
        E-value of the runs of this suite against "the requirement is met".
    met
        E-value of these and of the remembered runs against "the requirement is not met".
    changed
        Bayes factor of the runs of this suite: that the requirement is no longer met, compared with "as remembered".
    clear
        The largest such factor with which the case is taken for unchanged.
    """

    below: float
    met: float
    changed: float
    clear: float

    def verdict(self, needed: float, alpha: float) -> Verdict:
        """Return what may be claimed, if failing needs the e-value `needed` and passing one of 1 / `alpha`."""
        if self.below >= needed:
            return "failed"
        return "passed" if self.met >= 1 / alpha and self.changed <= self.clear else "undecided"


@lru_cache(maxsize=2**12)
def read_outcomes(passed: int, failed: int, others: tuple[int, int], bound: float, checks: int) -> Reading:
    """Return the evidence of runs that pass or fail.

    Parameters
    ----------
    passed, failed
        Runs of this suite.
    others
        Remembered runs, with seeds that were not run in this suite, that passed and failed.
    bound
        Rate of passed runs that is required, above 0 and below 1.
    checks
        A case that is known to meet it is done after so many runs if all pass.

    Examples
    --------
    >>> read_outcomes(1, 0, (30, 0), 0.8, 1).verdict(2000, 0.05)
    'passed'
    >>> read_outcomes(0, 1, (30, 0), 0.8, 1).verdict(2000, 0.05)
    'undecided'
    >>> read_outcomes(0, 7, (30, 0), 0.8, 1).verdict(2000, 0.05)
    'failed'
    """
    below = evidence_of_lower_rate(passed, failed, bound)
    met = evidence_of_lower_rate(failed + others[1], passed + others[0], 1 - bound)
    if not sum(others):
        return Reading(below, met, 0.0, 0.0)
    changed = _changed_rate(passed, failed, others, bound)
    return Reading(below, met, changed, _changed_rate(checks, 0, others, bound) * (1 + 1e-9))


def _changed_rate(passed: int, failed: int, others: tuple[int, int], bound: float) -> float:
    from scipy.special import betaln

    lower = bound / (bound + _DROP * (1 - bound))
    changed = passed * math.log(lower) + failed * math.log1p(-lower)
    remembered = betaln(others[0] + passed + 1, others[1] + failed + 1) - betaln(others[0] + 1, others[1] + 1)
    return math.exp(min(changed - float(remembered), 700.0))


def read_scores(
    values: Sequence[float], others: Sequence[float], bound: float, checks: int, *, is_difference: bool = False
) -> Reading:
    """Return the evidence of runs that give scores, of which more is better.

    Parameters
    ----------
    values
        Of the runs of this suite, one or more.
    others
        Of remembered runs, with seeds that were not run in this suite.
    bound
        Mean that is required.
    checks
        A case whose scores are far above the bound is done after one run; one that is close to it needs more if this
        is larger.
    is_difference
        Whether they are differences to other runs of the same seeds.

    Notes
    -----
    Scores of 0 and 1 alone are outcomes, and their mean a rate. Other scores are taken to be normal, those that pass
    with a correction for a lower tail, unless all are equal: then the mean is taken to be this score if fewer than one
    run in five has another one. What these would score is NOT known: of runs that rarely score much better or worse,
    equal ones claim a wrong mean.

    Examples
    --------
    >>> read_scores([0.86], [0.85, 0.87, 0.86, 0.88, 0.84], 0.8, 1).verdict(2000, 0.05)
    'passed'
    >>> read_scores([0.70, 0.71], [0.85, 0.87, 0.86, 0.88, 0.84] * 4, 0.8, 1).verdict(2000, 0.05)
    'undecided'
    >>> read_scores([0.70, 0.71] * 4, [0.85, 0.87, 0.86, 0.88, 0.84] * 4, 0.8, 1).verdict(2000, 0.05)
    'failed'
    """
    every, clear, changed = [*values, *others], 0.8**checks / (checks + 1), 0.0
    shift = None if is_difference else shift_of_outcomes(every, bound)
    if shift is not None:
        passed, before = (round(math.fsum(runs) + shift * len(runs)) for runs in (values, others))
        return read_outcomes(passed, len(values) - passed, (before, len(others) - before), bound + shift, checks)
    # Remembered runs do not lend their spread: one that rarely diverges would look as if it could not by chance.
    below = _evidence(_estimate(values), -1.0, bound)
    met = _evidence(_unskewed(every, bound), 1.0, bound)
    if len(others) > 1 and len(set(every)) > 1:
        changed = _changed_mean(_estimate(values, others), others, bound)
    return Reading(below, met, changed, clear)


def shift_of_outcomes(scores: Iterable[float], bound: float) -> float | None:
    """Return what is added to scores that pass or fail to make them 1 and 0; None of other scores."""
    shift = 0.0 if bound > 0 else 1.0  # losses of 0 and 1 come as 0 and -1
    is_rate = 0 < bound + shift < 1 and {score + shift for score in scores} <= {0.0, 1.0}
    return shift if is_rate else None


def _evidence(estimate: Estimate, sign: float, bound: float) -> float:
    """Return the e-value that a mean lies above the bound, or below it with the sign -1."""
    difference = sign * (estimate.difference - bound)
    if estimate.std > 0:
        return evidence_of_gain(estimate._replace(difference=difference), estimate.std)
    is_met = difference > 0 or (difference == 0 and sign > 0)
    return evidence_of_lower_rate(0, round(1 / estimate.variance), _OTHER) if is_met and estimate.degrees else 0.0


def _estimate(values: Sequence[float], others: Sequence[float] = ()) -> Estimate:
    """Return the mean of `values`, with the standard deviation within both; equal others have none to share."""
    squares, degrees = 0.0, 0
    for group in (values, others) if len(set(others)) > 1 else (values,):
        mean, degrees = _mean(group), degrees + len(group) - 1
        squares += math.fsum((value - mean) ** 2 for value in group)
    std = math.sqrt(squares / degrees) if degrees else math.nan
    return Estimate(_mean(values), 1 / len(values), std, degrees)


def _unskewed(values: Sequence[float], bound: float) -> Estimate:
    """Return the mean, closer to the bound if few lower scores would be: a lower tail is seen too rarely.

    Hall's transformation (1992, "On the removal of skewness by transformation", Journal of the Royal Statistical
    Society B 54), with a skewness that is half of its standard error lower than the estimated one.
    """
    estimate, runs = _estimate(values), len(values)
    if not estimate.std > 0:
        return estimate
    third = math.fsum((value - estimate.difference) ** 3 for value in values) / runs
    skewness = third / estimate.std**3 - 0.5 * math.sqrt(6 / runs)
    gain = (estimate.difference - bound) / estimate.std
    if gain > 0 > skewness:
        bent = ((1 + skewness * gain / 3) ** 3 - 1) / skewness + skewness / 6 / runs
        return estimate._replace(difference=bound + min(gain, bent) * estimate.std)
    return estimate


def _mean(values: Sequence[float]) -> float:
    """Return the mean; that of equal scores is the score, to the last digit."""
    return values[0] if min(values) == max(values) else math.fsum(values) / len(values)


def _changed_mean(now: Estimate, others: Sequence[float], bound: float) -> float:
    """Return the density of a mean below the bound, by about one standard deviation, relative to the remembered one."""
    from scipy.special import ndtr

    if not now.std > 0:
        return math.inf
    mean = _mean(others)
    same = now.variance + 1 / len(others)
    distance, lower = (now.difference - mean) / now.std, (now.difference - bound) / now.std
    wide = now.variance + 1
    below = 2 * float(ndtr(-lower / math.sqrt(now.variance * wide))) * math.exp(-(lower**2) / wide / 2)
    exponent = min(distance**2 / same / 2, 700.0)
    return below * math.sqrt(same / wide) * math.exp(exponent)


def read_estimate(
    values: Sequence[float], others: Sequence[float], level: float, *, is_rate: bool
) -> tuple[float, float, float]:
    """Return the mean of runs, and the limits of an interval that holds at every look together; nan if unknown.

    Parameters
    ----------
    values
        The runs: scores, or 1 and 0.
    others
        Further scores that have the same spread.
    level
        Such as 0.95.
    is_rate
        Whether runs pass or fail.

    Examples
    --------
    >>> [round(number, 2) for number in read_estimate([1.0] * 20, [], 0.95, is_rate=True)]
    [1.0, 0.74, 1.0]
    """
    if not values:
        return math.nan, math.nan, math.nan
    if is_rate:
        passed = round(math.fsum(values))
        return passed / len(values), *rate_sequence(passed, len(values) - passed, level)
    estimate = _estimate(values, others)
    if not estimate.degrees or not estimate.std:
        return estimate.difference, math.nan, math.nan
    return estimate.difference, *confidence_sequence(estimate, estimate.std, level)
