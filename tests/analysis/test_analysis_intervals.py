"""Intervals of the corrected importance: coverage of the truth, and why rows alone are not enough."""

import math

import numpy as np
import pytest
from drawn_tables import covered, drawn, importance_of
from scipy import stats

from mlflow_l3d.analysis.importance.estimate import importance_of_logit
from mlflow_l3d.analysis.importance.estimators.crossed import boundary_interval, crossed_components, crossed_estimate
from mlflow_l3d.analysis.importance.variances import MeanSquares

TRUTHS = [
    (0.5, 0.5, 0.0),
    (0.5, 0.0, 0.5),
    (0.9, 0.1, 0.0),
    (0.1, 0.9, 0.0),
    (0.1, 0.0, 0.9),
    (0.02, 0.5, 0.48),
    (0.0, 0.5, 0.5),
]


def crossed(table):
    return crossed_estimate(table).interval()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(20, 10), (10, 10), (5, 5)])
@pytest.mark.parametrize("truth", TRUTHS)
def test_crossed_interval_covers_the_truth(shape, truth):
    generator = np.random.default_rng(5)
    intervals = (crossed(drawn(generator, shape, truth)) for _ in range(300))
    assert covered(intervals, importance_of(1 - truth[0])) >= 0.92


def test_boundary_interval_where_rows_do_not_differ():
    """Row means agree more than the residuals allow: the estimate is 1, and the interval must not be a point."""
    table = np.random.default_rng(8).standard_normal((6, 8))
    table -= table.mean(axis=1, keepdims=True)
    whole = crossed_components(table)
    low, high = crossed(table)
    assert whole.variances().importance == 1.0
    assert high == 1.0
    assert 0 < low < 1
    assert (low, high) == boundary_interval(whole)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_boundary_interval_sets_limits_of_chi_squared_against_those_of_f(level):
    squares, ends = MeanSquares.complete(6, 8, of_rows=3.0, residual=1.0, of_columns=5.0), []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        contributed = 5.0 * 7 / stats.chi2.ppf(1 - tail, 7) / 6 + 5 / 6
        mitigated = max(0.0, 3.0 / stats.f.ppf(tail, 5, 35) - 1.0) / 8
        ends.append((math.sqrt(contributed) - math.sqrt(mitigated)) / math.sqrt(contributed + mitigated))
    assert boundary_interval(squares, level) == pytest.approx(tuple(ends))


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (2, 2)])
def test_no_interval_from_two_rows_or_columns(shape):
    low, high = crossed(np.random.default_rng(9).standard_normal(shape))
    assert math.isnan(low)
    assert math.isnan(high)


def test_importance_of_logit():
    assert importance_of_logit(0.0) == 0.0
    share = 0.8
    expected = math.sqrt(share) - math.sqrt(1 - share)
    assert importance_of_logit(math.log(share / (1 - share))) == pytest.approx(expected)
    assert importance_of_logit(-math.log(share / (1 - share))) == pytest.approx(-expected)
    assert (importance_of_logit(1e6), importance_of_logit(-1e6)) == (1.0, -1.0)
    assert (importance_of_logit(math.inf), importance_of_logit(-math.inf)) == (1.0, -1.0)
