"""The interval of one estimate, at any level, however skewed the error is."""

import math

import numpy as np
import pytest
from drawn_tables import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.importance.estimate import Jackknife, Skewed, importance_of_logit
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_estimate

SHARES = st.one_of(st.sampled_from([1e-12, 1.0, 1.0 + 1e-15]), st.floats(1e-6, 1.0))


def jackknife(centre, error, degrees, share, part):
    return Jackknife(centre, error, degrees, Skewed(share, part))


@settings(deadline=None)
@given(st.floats(-5, 5), st.floats(1e-3, 3), st.floats(1, 200), SHARES, st.floats(0, 3), st.floats(1e-9, 0.5))
def test_intervals_grow_with_the_level_and_hold_the_centre(centre, error, degrees, share, part, alpha):
    found = jackknife(centre, error, degrees, share, part)
    ends = [found.interval(1 - each) for each in (alpha, alpha / 10)]
    assert ends[1][0] <= ends[0][0] <= importance_of_logit(centre) <= ends[0][1] <= ends[1][1]
    assert np.isfinite(ends).all()


def test_a_part_that_is_all_is_the_plain_logit():
    for quantile in (-800.0, -2.0, 3.0, 900.0):
        assert jackknife(0.3, 1.5, 9.0, 1.0, 1.5).shift(quantile) == pytest.approx(1.5 * quantile)


def test_a_part_of_a_half_by_hand():
    """Half of the variance may be e times itself: the sum is (1 + e) / 2 times itself, or (1 + 1/e) / 2."""
    found = jackknife(0.0, 0.5, 9.0, 0.5, 1.0)
    assert found.shift(1.0) == pytest.approx(math.log((1 + math.e) / 2))
    assert found.shift(-1.0) == pytest.approx(math.log((1 + 1 / math.e) / 2))


def test_columns_and_interaction_make_the_upper_side_longer():
    found = crossed_estimate(drawn(np.random.default_rng(2), (100, 10), (1.0, 0.25, 0.25))).jackknife
    assert found.skewed.share > 0.2
    assert found.shift(2.0) > -found.shift(-2.0)


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_an_interval_is_the_same_in_any_unit(unit):
    table = drawn(np.random.default_rng(2), (20, 10), (1.0, 0.25, 0.25))
    assert crossed_estimate(unit * table).interval() == pytest.approx(crossed_estimate(table).interval())
