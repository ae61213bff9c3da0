"""Mean and spread of scores over seeds: how often the intervals cover the truth, for scores that are not normal too."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mlflow_l3d.analysis.consistency.runs import class_agreement
from mlflow_l3d.analysis.importance.tables import std_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.seeds.numbers.spread import mean_interval, metric_spread

SIMULATIONS = 1500


def collapse(rng, shape):
    """30 % of seeds fall from 85 to 50 %."""
    return np.where(rng.random(shape) < 0.3, 0.50, 0.85) + 0.01 * rng.normal(size=shape)


SCORES = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0, 1.0),
    "Laplace": (lambda rng, shape: rng.laplace(size=shape), 0.0, math.sqrt(2)),
    "t5": (lambda rng, shape: rng.standard_t(5, size=shape), 0.0, math.sqrt(5 / 3)),
    "uniform": (lambda rng, shape: rng.uniform(size=shape), 0.5, math.sqrt(1 / 12)),
    "collapse": (collapse, 0.85 - 0.3 * 0.35, math.sqrt(0.3 * 0.7 * 0.35**2 + 0.01**2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_intervals_of_ten_seeds_cover_mean_and_std(name):
    draw, mean, std = SCORES[name]
    drawn = draw(np.random.default_rng(12), (SIMULATIONS, 10))
    means = np.array([mean_interval(scores) for scores in drawn])
    stds = np.array([std_interval(scores) for scores in drawn])
    of_mean = ((means[:, 0] <= mean) & (mean <= means[:, 1])).mean()
    of_std = ((stds[:, 0] <= std) & (std <= stds[:, 1])).mean()
    assert 0.92 <= of_mean <= 0.99
    assert 0.93 <= of_std <= 1.0


def test_bonett_by_hand():
    scores = np.array([0.81, 0.83, 0.82, 0.86, 0.79, 0.84, 0.80, 0.82, 0.85, 0.70])
    count, z = 10, scipy.stats.norm.ppf(0.975)
    centre = scipy.stats.trim_mean(scores, 1 / (2 * math.sqrt(count - 4)))
    kurtosis = count * ((scores - centre) ** 4).sum() / ((scores - scores.mean()) ** 2).sum() ** 2
    factor = count / (count - z)
    error = factor * math.sqrt((kurtosis - 7 / 10) / 9)
    ends = np.log(factor * scores.var(ddof=1)) + np.array([-1, 1]) * scipy.stats.t.ppf(0.975, 9) * error
    assert std_interval(scores) == pytest.approx(tuple(np.exp(ends / 2)))


SCORE = Metric("score")


@given(
    arrays(np.float64, st.integers(5, 15), elements=st.integers(0, 50).map(float)), st.floats(0.1, 10), st.floats(-5, 5)
)
@settings(max_examples=60, deadline=None)
def test_scale_and_shift(scores, scale, shift):
    one, other = metric_spread(scores, SCORE), metric_spread(scale * scores + shift, SCORE)
    assert other.var == pytest.approx(scale * one.var, abs=1e-9)
    np.testing.assert_allclose(
        [other.std_ci_low, other.std_ci_high], [scale * one.std_ci_low, scale * one.std_ci_high], rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        [other.mean_ci_low, other.mean_ci_high],
        [scale * one.mean_ci_low + shift, scale * one.mean_ci_high + shift],
        rtol=1e-6,
        atol=1e-9,
    )


@pytest.mark.parametrize("scores", [[], [0.5], [math.nan, 0.5], [0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4]])
def test_too_few_or_equal_scores_claim_nothing(scores):
    found = metric_spread(scores, SCORE)
    assert math.isnan(found.std_ci_low)
    assert math.isnan(found.mean_ci_low) == (found.runs < 2 or found.var == 0)


def test_intervals_claim_nothing_that_cannot_be():
    scores = [0.98, 0.99, 0.97, 0.99, 0.2]
    wide = metric_spread(scores, SCORE)
    assert wide.mean_ci_high > 1
    assert wide.std_ci_high > 0.5
    found = metric_spread(scores, Metric("share", range=(0, 1)))
    assert (found.mean_ci_high, found.std_ci_high) == (1, 0.5)
    assert (found.mean_ci_low, found.std_ci_low) == (wide.mean_ci_low, wide.std_ci_low)
    errors = metric_spread([0.1, 0.2, 0.1, 0.2, 9.0], Metric("mse", greater_is_better=False, range=(0, math.inf)))
    assert errors.mean_ci_low == 0
    assert math.isfinite(errors.std_ci_high)


@pytest.mark.slow
def test_spread_over_pairs_covers():
    rng = np.random.default_rng(14)
    labels, difficulty = rng.integers(2, size=150), rng.normal(size=150)

    def draw(runs):
        quality = np.where(rng.random(runs) < 0.5, 1.5, 0.7)
        right = difficulty + quality[:, None] + rng.normal(size=(runs, 150)) > 0
        return class_agreement(np.where(right, labels, 1 - labels), labels).pairs["consistency"]

    whole, found = draw(1200), [draw(10) for _ in range(200)]
    assert np.mean([one.mean_ci_low <= whole.mean <= one.mean_ci_high for one in found]) >= 0.90
    assert np.mean([one.std_ci_low <= whole.std <= one.std_ci_high for one in found]) >= 0.90
