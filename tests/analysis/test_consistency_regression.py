"""Agreement of predicted numbers: numpy's correlations, Lin's coefficient by its definition, constants."""

import itertools
import math
import statistics

import numpy as np
import pytest
from analysis_oracle import regression_consistency
from hypothesis import given, settings
from hypothesis import strategies as st


def lin(one, other):
    a, b = one.tolist(), other.tolist()
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    shared = statistics.fmean((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    return 2 * shared / (statistics.pvariance(a) + statistics.pvariance(b) + (mean_a - mean_b) ** 2)


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(2, 12), st.sampled_from([1e-6, 1.0, 1e8]))
@settings(max_examples=60, deadline=None)
def test_equal_to_the_definitions_over_pairs(seed, runs, examples, scale):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=examples) * scale
    values = truth + rng.normal(size=(runs, examples)) * scale + rng.normal(size=(runs, 1)) * scale
    found = regression_consistency(values)
    pairs = list(itertools.combinations(range(runs), 2))
    pearson = [np.corrcoef(values[i], values[j])[0, 1] for i, j in pairs]
    lins = [lin(values[i], values[j]) for i, j in pairs]
    assert found.pearson == pytest.approx(statistics.fmean(pearson), abs=1e-9)
    assert found.pearson_std == pytest.approx(statistics.pstdev(pearson), abs=1e-7)
    assert found.concordance == pytest.approx(statistics.fmean(lins), abs=1e-9)
    assert found.concordance_std == pytest.approx(statistics.pstdev(lins), abs=1e-7)
    assert found.per_run_pearson.mean() == pytest.approx(found.pearson)
    own = [share for pair, share in zip(pairs, lins, strict=True) if 0 in pair]
    assert found.per_run_concordance[0] == pytest.approx(statistics.fmean(own), abs=1e-9)
    distances = [np.abs(values[i] - values[j]).mean() for i, j in pairs]
    assert found.absolute_difference == pytest.approx(statistics.fmean(distances))


def test_constant_predictions_have_no_correlation():
    found = regression_consistency([[0.1, 0.1, 0.1], [1.0, 2.0, 3.0]])
    assert math.isnan(found.pearson)
    assert math.isnan(found.pearson_std)
    assert found.concordance == 0
    assert math.isnan(regression_consistency([[0.1] * 3] * 2).concordance)
    assert regression_consistency([[0.1] * 3, [0.2] * 3]).concordance == pytest.approx(0)


def test_too_little_is_nan():
    for values in (np.ones((1, 3)), np.zeros((0, 3))):
        found = regression_consistency(values)
        assert math.isnan(found.pearson)
        assert math.isnan(found.concordance)
        assert math.isnan(found.absolute_difference)


def test_a_run_that_diverges_leaves_the_correlations_of_the_others():
    runs = np.random.default_rng(0).normal(size=(3, 20))
    expected = regression_consistency(runs).pearson
    runs[0] *= 1e120
    assert regression_consistency(runs).pearson == pytest.approx(expected)
