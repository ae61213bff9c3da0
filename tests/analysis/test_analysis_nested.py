"""Nested design: components by hand and against the truth, exact limits, and what bad tables give."""

import math
from functools import partial

import numpy as np
import pytest
from drawn_tables import drawn
from scipy import stats

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.estimate import smallest_tail
from mlflow_l3d.analysis.importance.estimators import NESTED, nested
from mlflow_l3d.analysis.importance.estimators.nested import nested_components, nested_estimate, nested_limits


def test_limits_invert_the_f_test():
    """At its limit a true ratio puts what was seen exactly into the tail."""
    found = nested_components(drawn(np.random.default_rng(4), (12, 3), (0.8, 0.2)))
    for level in (0.5, 0.95):
        low, high = nested_limits(found, level=level)
        for end, tail in ((low, stats.f.cdf), (high, stats.f.sf)):
            share = ((end + math.sqrt(2 - end**2)) / 2) ** 2
            ratio = (1 - share) / share
            seen = found.of_rows / found.residual / (1 + 3 * ratio)
            assert tail(seen, 11, 24) == pytest.approx((1 - level) / 2)


def test_limits_of_unequal_rows_invert_the_f_test_of_their_weighted_means():
    """The interval holds them and the jackknife's, which made false claims of 5.2 and 1.5 % of 2.5 % each."""
    table = drawn(np.random.default_rng(9), (20, 10), (0.8, 0.2))
    table[5:, 1:] = math.nan
    scores, means = np.isfinite(table).sum(axis=1), np.nanmean(table, axis=1)
    estimate, within = nested_estimate(table), np.nansum(np.square(table - means[:, None])) / 45
    for level in (0.5, 0.95):
        low, high = estimate.limits(level)
        for end, tail in ((low, stats.f.cdf), (high, stats.f.sf)):
            share = ((end + math.sqrt(2 - end**2)) / 2) ** 2
            weights = scores / (1 + scores * (1 - share) / share)
            seen = weights @ np.square(means - np.average(means, weights=weights)) / 19 / within
            assert tail(seen, 19, 45) == pytest.approx((1 - level) / 2)
        ends = [low, high, *estimate.jackknife.interval(level)]
        assert estimate.interval(level) == (min(ends), max(ends))


def test_smallest_tail():
    assert smallest_tail(lambda level: level < 0.9) == pytest.approx(0.05, rel=1e-3)
    assert smallest_tail(lambda level: False) == 1.0
    assert smallest_tail(lambda level: True) == 1e-12


def test_quartile_distance_by_hand():
    found = importance([[0.0, 1.0], [2.0, 3.0]], [0.0, 4.0, 8.0])
    assert (found.score_iqr, found.golden_iqr) == pytest.approx((1.5, 4))


@pytest.mark.parametrize(("ends", "corrected"), [((0.3, 0.3), math.nan), ((0.3, 0.9), -1.0)], ids=["all", "rows alone"])
@pytest.mark.parametrize("estimate", [nested_estimate, partial(nested.radial_estimate, place=1)])
def test_scores_that_differ_by_rounding_are_equal(ends, corrected, estimate):
    scores = np.repeat(np.linspace(*ends, 6)[:, None], 4, axis=1)
    found = estimate(np.where(np.arange(24).reshape(4, 6).T % 5 % 2, np.nextafter(scores, 1), scores))
    assert (found.importance, *found.interval()) == pytest.approx((corrected, math.nan, math.nan), abs=0, nan_ok=True)


def test_rows_without_effect():
    equal_rows = np.repeat(np.linspace(0.1, 0.9, 7)[None, :], 5, axis=0)
    found = importance(equal_rows, equal_rows[0], model=NESTED)
    assert found.importance_corrected == found.importance_corrected_ci_high == 1
    assert -0.5 < found.importance_corrected_ci_low < 0.5
    assert found.components.truncated == ("mitigated",)
