"""Group-sequential bounds: equal to published tables, exact at one look, and false claims at most alpha."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from mlflow_l3d.analysis.comparison.power import (
    MOST_AUTO,
    Noise,
    measured_pairs,
    outlook,
    power,
    runs_for_power,
    simulate,
)
from mlflow_l3d.analysis.planning.spending import (
    Measured,
    SequentialPlan,
    alpha_spent,
    decisions,
    limits,
    nominal_levels,
    planned_looks,
)

SPENDINGS = ("pocock", "obrien_fleming")


def stream():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("spending", "expected"),
    [
        # Bounds for five equal steps at one-sided alpha 0.025, of the gsDesign and ldbounds packages.
        ("obrien_fleming", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_bounds_are_the_published_ones(spending, expected):
    levels = nominal_levels([0.2, 0.4, 0.6, 0.8, 1.0], 0.025, spending)
    assert stats.norm.isf(levels) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("spending", SPENDINGS)
def test_one_look_spends_all_of_alpha_at_its_nominal_level(spending):
    assert nominal_levels([1.0], 0.025, spending) == pytest.approx([0.025])
    assert alpha_spent(1.0, 0.1, spending) == 0.1
    assert alpha_spent(0.0001, 0.1, spending) < 1e-4


def test_where_information_has_not_grown_nothing_is_spent():
    levels = nominal_levels([0.5, 0.5, 0.4, 1.0], 0.05, "pocock")
    assert levels[1] == levels[2] == 0
    assert levels[[0, 3]] == pytest.approx(nominal_levels([0.5, 1.0], 0.05, "pocock"))


@pytest.mark.parametrize("spending", SPENDINGS)
def test_levels_so_far_do_not_depend_on_looks_to_come(spending):
    early = nominal_levels([0.3, 0.6], 0.05, spending)
    assert nominal_levels([0.3, 0.6, 0.7, 1.0], 0.05, spending)[:2] == pytest.approx(early)


def test_looks_grow_by_the_same_factor_and_end_with_the_budget():
    assert planned_looks(5, 5) == (5,)
    assert planned_looks(80, 5) == (10, 17, 28, 48, 80)
    assert planned_looks(200, 1) == (200,)
    for most in range(5, 120):
        looks = planned_looks(most, 5)
        assert looks[-1] == most
        assert all(later > earlier for earlier, later in pairwise(looks))


def test_without_skewness_limits_are_those_of_students_t():
    found = measured_pairs(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) + 0.5)
    expected = stats.ttest_1samp([-1.5, -0.5, 0.5, 1.5, 2.5], 0).confidence_interval(0.95)
    assert limits(found, 0.025) == pytest.approx(tuple(expected))


def test_skewness_moves_one_limit_outward_and_none_inward(rng):
    for skewness, moved in ((-0.5, 0), (0.5, 1)):
        plain = limits(Measured(0.0, 1.0, 20.0, 0.0), 0.025)
        bent = limits(Measured(0.0, 1.0, 20.0, skewness), 0.025)
        assert abs(bent[moved]) > abs(plain[moved]) + 0.3
        assert bent[1 - moved] == pytest.approx(plain[1 - moved])
    # The limit solves Hall's cubic: T + a T^2 + a^2 T^3 / 3 + skewness / 6 is the quantile, a being skewness / 3.
    low, _ = limits(Measured(0.0, 1.0, 20.0, -0.3), 0.025)
    a = -0.3 / 3
    assert -low + a * low**2 + a**2 * (-low) ** 3 / 3 - 0.3 / 6 == pytest.approx(stats.t.isf(0.025, 20))


def test_skewness_of_few_runs_makes_no_endless_interval():
    # Five differences, one far off: the sample skewness is near its bound, 1.5, whatever the population's is.
    found = measured_pairs(np.array([0.0, 0.1, 0.2, 0.3, -9.0]))
    low, high = limits(found, 0.005)
    half = stats.t.isf(0.005, 4) * found.error
    assert (found.difference - low, high - found.difference) == pytest.approx((2 * half, half))


def test_without_a_level_or_a_spread_limits_are_what_they_must_be():
    assert limits(Measured(1.0, 2.0, 9.0, 0.0), 0.0) == (-np.inf, np.inf)
    assert limits(Measured(1.0, 0.0, 9.0, 0.0), 0.025) == (1.0, 1.0)


def test_decisions_by_where_the_interval_lies():
    plan = SequentialPlan((20,), 1.0)
    found = Measured(np.array([0.0, 2.0, -2.0, 0.0, -0.5]), np.array([0.2, 0.5, 0.5, 1.0, 0.1]), np.full(5, 19.0), 0.0)
    decided = decisions(found, plan.levels[0], 1.0)
    # The last is certain to be lower, by less than what matters.
    assert decided.tolist() == ["equivalent", "better", "worse", "undecided", "equivalent"]


@pytest.mark.slow
@pytest.mark.parametrize("spending", SPENDINGS)
@pytest.mark.parametrize("budget", [5, 20, 50])
def test_false_claims_are_at_most_alpha(budget, spending, rng):
    differences = rng.standard_normal((10_000, budget))
    slack = 2.5 * np.sqrt(0.025 * 0.975 / 10_000)
    decided, _ = simulate(SequentialPlan(planned_looks(budget, 5), 1e-9, 0.05, spending), differences)
    assert (decided == "worse").mean() <= 0.025 + slack
    assert (decided == "better").mean() <= 0.025 + slack
    effect = 4 / np.sqrt(budget)
    decided, _ = simulate(SequentialPlan(planned_looks(budget, 5), effect, 0.05, spending), differences - effect)
    assert (decided == "equivalent").mean() <= 0.05 + 2 * slack


@pytest.mark.parametrize("spending", SPENDINGS)
@pytest.mark.parametrize("budget", [10, 20, 43])
@pytest.mark.parametrize(("examples", "flips"), [(50, 0.1), (50, 0.25), (200, 0.25)])
def test_one_answer_that_flips_in_some_runs_is_not_taken_for_none(examples, flips, budget, spending, rng):
    effect, noise = flips / examples, Noise(1.0, step=1 / examples)
    plan = SequentialPlan(planned_looks(budget, 5), effect, 0.05, spending)
    differences = -1.0 * (rng.random((600, budget)) < flips) / examples
    assert (simulate(plan, differences, noise)[0] == "equivalent").mean() <= 0.06
    held = np.ones(600, dtype=bool)
    for look, level in zip(plan.looks, plan.levels, strict=True):
        low, high = limits(measured_pairs(differences[:, :look], noise), level.difference)
        held &= (low <= -effect) & (-effect <= high)
    assert held.mean() >= 0.93


@pytest.mark.slow
def test_skewed_scores_of_one_system_make_no_more_false_regressions_than_alpha(rng):
    baseline = 1 - rng.exponential(size=(10_000, 20))
    differences = rng.standard_normal((10_000, 20)) - baseline
    decided, _ = simulate(SequentialPlan(planned_looks(20, 5), 1e-9), differences)
    assert (decided == "worse").mean() <= 0.05
    plain = differences.mean(axis=1) / (differences.std(axis=1, ddof=1) / np.sqrt(20)) < stats.t.ppf(0.025, 19)
    assert plain.mean() > 0.03  # one look at Student's t alone is wrong more often than it says


@pytest.mark.slow
def test_power_is_what_scores_drawn_anew_give(rng):
    plan = SequentialPlan(planned_looks(30, 5), 1.0)
    stated_power = power(plan, Noise(1.7))
    candidate, baseline = rng.standard_normal((2, 10_000, 30)) * 1.7 / np.sqrt(2)
    for stated, shift in ((stated_power.same.equivalent, 0.0), (stated_power.worse.worse, -1.0)):
        decided, _ = simulate(plan, candidate - baseline + shift)
        assert (decided == ("worse" if shift else "equivalent")).mean() == pytest.approx(stated, abs=0.02)


@pytest.mark.slow
def test_power_from_few_runs_is_the_mean_over_what_the_true_deviation_may_be():
    """Its square is s² times the degrees of freedom over a chi-squared number."""
    plan = SequentialPlan(planned_looks(20, 3), 1.0)
    stds = 1.2 * np.sqrt(9 / stats.chi2.ppf((np.arange(40) + 0.5) / 40, 9))
    each = np.mean([outlook(plan, -1.0, Noise(std), stream(), 1000).worse for std in stds])
    assert outlook(plan, -1.0, Noise(1.2, degrees=9.0), stream(), 20_000).worse == pytest.approx(each, abs=0.02)
    assert each < outlook(plan, -1.0, Noise(1.2), stream(), 20_000).worse - 0.04


@pytest.mark.slow
def test_luck_of_test_examples_is_counted_and_does_not_shrink_with_runs(rng):
    plan = SequentialPlan(planned_looks(50, 5), 1e-9)
    noise = Noise(1.0, 0.2, 499.0)
    gap, shift = rng.standard_normal((10_000, 50)), np.sqrt(0.2) * rng.standard_normal(10_000)
    decided, _ = simulate(plan, gap, noise, shift)
    assert np.isin(decided, ("better", "worse")).mean() <= 0.055
    ignored, _ = simulate(plan, gap + shift[:, None])
    assert np.isin(ignored, ("better", "worse")).mean() > 0.4
    assert outlook(SequentialPlan((1000,), 0.5), 0.0, noise, stream(), 2000).equivalent == 0


@pytest.mark.slow
def test_the_budget_is_what_power_takes():
    def plan(most):
        return SequentialPlan(planned_looks(most, 3), 1.0)

    found = runs_for_power(0.8, plan, Noise(1.0))
    for budget, enough in ((found, True), (found - 2, False)):
        stated = power(plan(budget), Noise(1.0))
        assert (min(stated.same.equivalent, stated.worse.worse) >= 0.79) is enough
    assert runs_for_power(0.8, plan, Noise(100.0)) == MOST_AUTO
    assert runs_for_power(0.8, plan, Noise(0.01)) == 5
