"""E-values and confidence sequences against integrals, and against what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.stats import binom, norm

from mlflow_l3d.analysis.planning.evidence import (
    Estimate,
    confidence_sequence,
    evidence_needed,
    evidence_of_gain,
    evidence_of_lower_rate,
    rate_sequence,
)


@pytest.mark.parametrize(("difference", "runs", "effect"), [(0.3, 4, 1.0), (-0.2, 9, 0.5), (1.1, 2, 2.0)])
def test_evidence_of_a_known_std_is_the_mean_likelihood_ratio(difference: float, runs: int, effect: float) -> None:
    error = 0.7 / math.sqrt(runs)

    def ratio(gain: float) -> float:
        prior = 2 * norm.pdf(gain, scale=effect)
        return float(prior * norm.pdf(difference, gain, error) / norm.pdf(difference, 0, error))

    expected = quad(ratio, 0, 12 * effect, epsabs=1e-12)[0]
    assert evidence_of_gain(Estimate(difference, 1 / runs, 0.7, math.inf), effect) == pytest.approx(expected, rel=1e-6)


def density(value: float, mean: float, std: float) -> float:
    """Return the normal density: that of scipy takes a hundred times as long for one number."""
    return math.exp(-((value - mean) ** 2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("difference", "degrees"), [(1.2, 4.0), (-0.5, 9.0)])
def test_evidence_of_an_estimated_std_is_the_ratio_of_two_integrals(difference: float, degrees: float) -> None:
    """Over the true deviation with density 1/sigma, and over gains in units of it."""
    variance, std, width = 0.25, 1.3, 0.8

    def joint(gain: float, sigma: float) -> float:
        of_std = sigma ** -(degrees + 1) * math.exp(-degrees * std**2 / (2 * sigma**2))
        return density(difference, gain * sigma, sigma * math.sqrt(variance)) * of_std

    against = quad(lambda sigma: joint(0.0, sigma), 1e-3, 60, limit=200)[0]
    both = dblquad(lambda gain, sigma: 2 * density(gain, 0, width) * joint(gain, sigma), 1e-3, 60, 0, 8 * width)[0]
    found = evidence_of_gain(Estimate(difference, variance, std, degrees), width * std)
    assert found == pytest.approx(both / against, rel=1e-3)


def test_an_interval_ends_where_two_sided_evidence_reaches_its_bound() -> None:
    for degrees in (6.0, math.inf):
        estimate = Estimate(0.4, 0.1, 1.0, degrees)
        low, high = confidence_sequence(estimate, 1.0, 0.95)
        assert (low + high) / 2 == pytest.approx(0.4)
        two_sided = sum(evidence_of_gain(estimate._replace(difference=sign * (0.4 - low)), 1.0) for sign in (1, -1)) / 2
        assert two_sided == pytest.approx(20, rel=1e-9)
    assert confidence_sequence(Estimate(0.4, 0.5, 1.0, 1.0), 1.0, 0.95) == (-math.inf, math.inf)


@pytest.mark.parametrize("degrees", [5, 19])
def test_whoever_looks_after_every_run_is_wrong_as_rarely_as_promised(degrees: int) -> None:
    """5 % of sequences at most may reach 20; with 2,000 sequences three standard errors are 1.5 points."""
    random, wrong, missed = np.random.default_rng(7), 0, 0
    for _ in range(600):
        std = math.sqrt(random.chisquare(degrees) / degrees)
        means = np.cumsum(random.standard_normal(25)) / np.arange(1, 26)
        looks = [Estimate(mean, 1 / runs, std, degrees) for runs, mean in enumerate(means, 1)]
        wrong += max(evidence_of_gain(look, 1.0) for look in looks) >= 20
        ends = [confidence_sequence(look, 1.0, 0.95) for look in looks]
        missed += any(not low <= 0 <= high for low, high in ends)
    assert wrong / 600 <= 0.05
    assert missed / 600 <= 0.06


def test_evidence_of_a_rate_is_the_mean_likelihood_ratio_of_lower_rates() -> None:
    for passed, failed, bound in ((3, 4, 0.8), (10, 0, 0.9), (0, 6, 0.5)):
        at_bound = binom.pmf(passed, passed + failed, bound)
        mean = quad(lambda rate: binom.pmf(passed, passed + failed, rate), 0, bound)[0] / bound  # noqa: B023
        assert evidence_of_lower_rate(passed, failed, bound) == pytest.approx(mean / at_bound, rel=1e-8)
    assert evidence_of_lower_rate(0, 5000, 0.8) > 1e300


def test_the_interval_of_a_rate_holds_at_every_look() -> None:
    """Exactly, by the distribution of all sequences of 40 outcomes that have not left it."""
    rate, inside = 0.9, {0: 1.0}
    for runs in range(1, 41):
        after: dict[int, float] = {}
        for passed, mass in inside.items():
            for more, chance in ((1, rate), (0, 1 - rate)):
                low, high = rate_sequence(passed + more, runs - passed - more, 0.95)
                if low <= rate <= high:
                    after[passed + more] = after.get(passed + more, 0.0) + mass * chance
        inside = after
    assert 0.95 <= sum(inside.values()) < 1
    assert rate_sequence(0, 0, 0.95) == (0.0, 1.0)
    least = (0.05 / 21) ** (1 / 20)  # of a uniform mixture of bets on 20 of 20, which gains 1 / (21 rate^20)
    assert rate_sequence(20, 0, 0.95) == pytest.approx((least, 1.0))
    assert rate_sequence(0, 20, 0.95) == pytest.approx((0.0, 1 - least))


def test_all_claims_of_a_session_together_spend_alpha() -> None:
    levels = [1 / evidence_needed(number, 0, 50, 0.05) for number in range(1, 3000)]
    assert 0.0449 <= sum(levels[:50]) < sum(levels) <= 0.05
    assert evidence_needed(7, 3, 50, 0.05) == pytest.approx(evidence_needed(7, 0, 50, 0.05) / 4)
