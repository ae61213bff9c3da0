"""How far apart two runs may lie by luck: one time in twenty they lie further apart, however few runs were seen."""

import math

import numpy as np
import pytest
from scipy import stats

from mlflow_l3d.analysis.importance.estimators import CROSSED, NESTED, RADIAL
from mlflow_l3d.analysis.importance.estimators.crossed import crossed_components
from mlflow_l3d.analysis.importance.shape import single_run_limit

TIMES = 4000
TABLES = 1000
"""Of these the limit is slower; one time in twenty has a standard error of 0.7 % then."""
NONE = np.empty(0)


def exceeded(limits, rng):
    """Return how often two further runs, whose standard deviation is 1, differ by more than the limits."""
    return np.mean(np.abs(rng.normal(0, math.sqrt(2), len(limits))) > limits)


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_two_runs_exceed_the_limit_one_time_in_twenty(runs):
    rng = np.random.default_rng(runs)
    samples = rng.standard_normal((TIMES, runs))
    exact = stats.t.ppf(0.975, runs - 1) * math.sqrt(2) * samples.std(axis=1, ddof=1)
    assert [single_run_limit(scores) for scores in samples[:100]] == pytest.approx(exact[:100])
    assert exceeded(exact, rng) == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / TIMES))


def test_no_limit_is_wider_than_the_metric():
    assert single_run_limit(np.array([0.5, 0.9]), span=1.0) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("of_rows", [0.0, 0.9])
@pytest.mark.parametrize("model", [CROSSED, NESTED])
def test_runs_of_a_table_count_for_fewer_than_they_are(model, of_rows):
    rng = np.random.default_rng(int(10 * of_rows))
    limits = []
    for _ in range(TABLES):
        columns = rng.standard_normal((1, 5)) if model is CROSSED else rng.standard_normal((4, 5))
        table = math.sqrt(of_rows) * rng.standard_normal((4, 1)) + math.sqrt(1 - of_rows) * columns
        limits.append(single_run_limit(NONE, *model.dependent_spread([table])))
    assert 0.03 < exceeded(np.array(limits), rng) < 0.07


@pytest.mark.slow
def test_runs_of_pairs_count_for_fewer_than_they_are():
    rng = np.random.default_rng(3)
    limits = []
    for _ in range(TABLES):
        base, swap = rng.standard_normal((2, 5, 3)) / math.sqrt(3)  # no factor redraws the last part of the score
        pairs = [np.column_stack([base.sum(1), base.sum(1) - base[:, at] + swap[:, at]]) for at in range(2)]
        spread = RADIAL.dependent_spread(pairs)
        limits.append(single_run_limit(NONE, *spread))
    assert 0.03 < exceeded(np.array(limits), rng) < 0.07


def test_several_tables_have_the_mean_of_their_variances_and_tables_without_spread_none():
    equal, *tables = np.ones((6, 5)), *np.random.default_rng(4).standard_normal((2, 6, 5))
    variances, degrees = zip(
        *((each.total, each.total_degrees) for each in map(crossed_components, tables)), strict=True
    )
    found = CROSSED.dependent_spread([*tables, equal, equal[:1]])
    assert found == pytest.approx((math.sqrt(np.mean(variances)), np.mean(degrees)))
    assert CROSSED.dependent_spread([equal]) is None
