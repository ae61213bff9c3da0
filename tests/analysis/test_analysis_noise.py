"""Test-set noise: runs that are equally good vary on a finite test set, and the corrected variance says they do not."""

import math

import numpy as np
import pytest
from analysis_oracle import consistency_matrixwise

from mlflow_l3d.analysis.consistency.results import population_std, population_variance


def drawn(generator, runs, examples, spread):
    """Share right of each run and CCON, where true accuracies have a standard deviation of `spread`."""
    quality = 0.75 + spread * generator.choice([-1.0, 1.0], size=(runs, 1))
    right = generator.random((runs, examples)) < quality
    of_runs = right.sum(axis=0)
    return right, (of_runs * (of_runs - 1)).mean() / (runs * (runs - 1))


def test_the_share_of_pairs_that_are_both_right_is_ccon():
    right, ccon = drawn(np.random.default_rng(1), 5, 20, 0.03)
    found = consistency_matrixwise(np.where(right, 0, 1), np.zeros(20, dtype=np.int64))
    assert ccon == pytest.approx(found.correct_consistency, rel=1e-12)


@pytest.mark.parametrize("spread", [0.0, 0.03])
def test_mean_over_many_test_sets_is_the_true_variance(spread):
    generator = np.random.default_rng(0)
    plain, corrected = [], []
    for _ in range(300):
        right, ccon = drawn(generator, 8, 50, spread)
        accuracies = right.mean(axis=1)
        plain.append(accuracies.var(ddof=1))
        corrected.append(population_variance(accuracies, ccon, 50))
    error = np.std(corrected, ddof=1) / math.sqrt(len(corrected))
    assert abs(np.mean(corrected) - spread**2) <= 4 * error
    assert np.mean(plain) > spread**2 + 14 * error


def test_by_hand():
    # Runs right on (1, 1) and (1, 0) of two examples: s2 = 1/8, mean 3/4, both right on half of them.
    assert population_variance([1.0, 0.5], 0.5, 2) == pytest.approx(2 / 8 - (0.75 - 0.5))
    assert population_variance([1.0, 0.0], 0.0, 2) == pytest.approx(2 * 0.5 - 0.5)
    assert population_std([1.0, 0.0], 0.0, 2) == pytest.approx(math.sqrt(0.5))


def test_below_zero_is_kept_and_cut_in_the_root():
    assert population_variance([0.5, 0.5], 0.3, 10) == pytest.approx(-0.2 / 9)
    assert population_std([0.5, 0.5], 0.3, 10) == 0.0


def test_too_little_to_say():
    assert math.isnan(population_variance([0.5], 0.3, 10))
    assert math.isnan(population_std([0.5, np.nan], 0.3, 10))
    assert math.isnan(population_variance([0.5, 0.6], math.nan, 10))
    assert math.isnan(population_variance([0.5, 0.6], 0.3, 1))
