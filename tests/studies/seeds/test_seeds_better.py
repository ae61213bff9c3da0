"""Is there a better seed: scipy's statistic, exact p-values, false and true findings, effect size."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mlflow_l3d.designs.layout import PAPER_SEEDS
from mlflow_l3d.studies.seeds.numbers.better_seed import better_seed, friedman, normalised


def matrix_of(values, seeds=PAPER_SEEDS):
    values = np.asarray(values, dtype=float)
    return pd.DataFrame(
        values, index=[f"task{at}" for at in range(len(values))], columns=list(seeds)[: values.shape[1]]
    )


def ranks_of(scores):
    return scipy.stats.rankdata(-scores, axis=-1) - (scores.shape[-1] + 1) / 2


@given(arrays(np.float64, st.tuples(st.integers(2, 9), st.integers(3, 10)), elements=st.integers(0, 4).map(float)))
@settings(max_examples=80, deadline=None)
def test_statistic_equals_scipy_with_ties(scores):
    scores = scores[np.ptp(scores, axis=1) > 0]
    if not len(scores):
        return
    found = better_seed(matrix_of(scores))
    expected = scipy.stats.friedmanchisquare(*scores.T)
    assert found.kendall_w == pytest.approx(expected.statistic / (len(scores) * (scores.shape[1] - 1)))


def test_effect_size_is_the_mean_rank_correlation_of_tasks():
    scores = np.random.default_rng(0).normal(size=(6, 10))
    found = better_seed(matrix_of(scores))
    pairs = [scipy.stats.spearmanr(a, b).statistic for a, b in itertools.combinations(scores, 2)]
    assert found.rank_correlation == pytest.approx(np.mean(pairs))
    assert found.kendall_w == pytest.approx((1 + 5 * np.mean(pairs)) / 6)
    assert found.rank_correlation_ci_low < np.mean(pairs) < found.rank_correlation_ci_high
    assert found.kendall_w_ci_low < found.kendall_w < found.kendall_w_ci_high


def test_small_tables_have_the_exact_p_value():
    ranks = ranks_of(np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [2.0, 2.0, 1.0]]))
    orders = [list(itertools.permutations(row)) for row in ranks]
    null = [np.square(np.sum(rows, axis=0)).sum() for rows in itertools.product(*orders)]
    observed = np.square(ranks.sum(axis=0)).sum()
    assert friedman(ranks)[1] == pytest.approx(np.mean(np.array(null) >= observed - 1e-9))


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "tasks"), [(10, 12), (10, 5), (5, 8), (3, 4), (2, 6)])
def test_no_better_seed_is_found_in_five_percent_at_most(seeds, tasks):
    scores = np.random.default_rng(seeds * tasks).normal(size=(1500, tasks, seeds))
    assert 0.0 <= np.mean([friedman(ranks_of(one))[1] <= 0.05 for one in scores]) <= 0.066


def test_a_better_seed_is_found_and_named():
    scores = np.random.default_rng(2).normal(size=(12, 10))
    scores[:, 3] += 3
    found = better_seed(matrix_of(scores))
    assert found.found
    assert found.of_seeds.iloc[0]["seed"] == PAPER_SEEDS[3]


@pytest.mark.slow
def test_interval_of_the_effect_covers():
    rng = np.random.default_rng(6)
    better = np.linspace(-0.9, 0.9, 10)
    many = ranks_of(better + rng.normal(size=(20_000, 10))).mean(axis=0)
    truth = many @ many / (10 * 99 / 12)
    found = [better_seed(matrix_of(better + rng.normal(size=(8, 10)))) for _ in range(300)]
    inside = [one.rank_correlation_ci_low <= truth <= one.rank_correlation_ci_high for one in found]
    assert 0.91 <= np.mean(inside) <= 0.99


def test_tasks_that_say_nothing_are_left_out():
    scores = np.random.default_rng(7).normal(size=(5, 10))
    scores[1] = 0.5
    scores[3, 2] = math.nan
    found = better_seed(matrix_of(scores))
    assert found.left_out == ("task1", "task3")
    expected = scipy.stats.friedmanchisquare(*scores[[0, 2, 4]].T)
    assert found.kendall_w == pytest.approx(expected.statistic / (3 * 9))
    nothing = better_seed(matrix_of(np.full((3, 4), 0.5)))
    assert math.isnan(nothing.p)
    assert not nothing.found
    assert nothing.of_seeds["mean_rank"].isna().all()


def test_the_same_ranking_everywhere_is_the_largest_effect():
    found = better_seed(matrix_of(np.tile(np.arange(10.0), (4, 1))))
    assert found.kendall_w == pytest.approx(1)
    assert found.p < 1e-6


def test_scores_of_any_unit_give_the_same_answer():
    scores = np.random.default_rng(8).normal(size=(6, 10))
    scaled = scores * np.arange(1, 7)[:, None] + 100
    assert better_seed(matrix_of(scores)).metrics() == pytest.approx(better_seed(matrix_of(scaled)).metrics())
    np.testing.assert_allclose(normalised(matrix_of(scores)), normalised(matrix_of(scaled)))
    np.testing.assert_allclose(normalised(matrix_of(scores)).to_numpy().std(axis=1), 1)
