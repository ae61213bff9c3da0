"""Which run, and which system on which example, wins: equal to counting all choices."""

from itertools import combinations, product

import numpy as np
import pytest
from comparison_cases import answers, scored, system
from scipy.stats import beta, norm
from scipy.stats import t as student

from mlflow_l3d.analysis.comparison.system import Pairing, System, paired, within_settings
from mlflow_l3d.analysis.comparison.wins import _density, example_wins, pair_wins, run_wins
from mlflow_l3d.analysis.intervals import wilson_interval

NONE = Pairing(np.zeros(0, dtype=int), np.zeros(0, dtype=int), ())


def points(first, second):
    return (1 + np.sign(first - second)) / 2


def binomial_limits(won, draws):
    return beta.ppf(0.025, won, draws - won + 1), beta.ppf(0.975, won + 1, draws - won)


def test_runs_of_independent_draws_are_counted_pair_by_pair(rng):
    first, second = rng.integers(0, 6, 7) / 6, rng.integers(0, 6, 9) / 6
    wins = points(first[:, None], second)
    value, variance = wins.mean(), sum(wins.mean(axis=1 - side).var(ddof=1) / wins.shape[side] for side in (0, 1))
    count = value * (1 - value) / variance
    expected = value, *wilson_interval(value * count, count, student.ppf(0.975, 6))  # the fewer runs are seven
    assert run_wins(scored(first), scored(second), NONE, 1, 0, 0.95) == pytest.approx(expected)
    assert run_wins(scored(first), scored(second), NONE, -1, 0, 0.95).value == pytest.approx(1 - value)


def test_runs_of_the_same_configurations_are_counted_pair_by_pair(rng):
    first, second = rng.integers(0, 3, 8) / 3, rng.integers(0, 3, 8) / 3
    one, other = scored(first, range(8)), scored(second[::-1], range(7, -1, -1))
    found = pair_wins(one, other, paired(one, other), 1, 0, 0.95)
    assert found.value == pytest.approx(points(first, second).mean())
    assert found.low < found.value < found.high
    assert pair_wins(one, other, paired(one, other), 1, 0.01, 0.95).low < found.low


@pytest.mark.parametrize(("runs", "gap"), [(6, 0.7), (10, 0.0), (10, 1.5)])
def test_the_interval_of_few_shared_runs_holds(rng, runs, gap):
    """With the normal quantile and variances over L in place of L - 1, it held in 86, 91 and 90 % of cases."""
    truth, held = norm.cdf(gap / np.sqrt(2 * (1 + 0.8**2))), 0
    for _ in range(600):
        shared, first, second = rng.normal(size=(3, runs))
        one, other = scored(0.8 * shared + first + gap, range(runs)), scored(0.8 * shared + second, range(runs))
        found = run_wins(one, other, paired(one, other), 1, 0, 0.95)
        held += found.low <= truth <= found.high
    assert 0.92 <= held / 600 <= 0.99


def test_settings_with_seeds_of_their_own_add_their_variances():
    """Each setting loses a degree of freedom to its own share: of six runs in two settings four are left."""
    scores, setting, seeds = np.array([[3, 1, 5, 2, 9, 4], [2, 4, 1, 6, 3, 5.0]]), np.repeat([0, 1], 3), np.arange(6)

    def draws(moved):
        value = np.mean([wins.mean() for wins in moved[0]])
        variance = sum(wins.var(ddof=1) / 3 for side in moved for wins in side) / 2**2
        return value, value * (1 - value) / variance

    one, other = (within_settings(System("", each, {"seed": seeds}), setting, seeds) for each in scores)
    value, count = draws([points(*scores).reshape(2, 3)])
    count *= (student.ppf(0.975, 5) / student.ppf(0.975, 4)) ** 2
    expected = value, *binomial_limits(value * count, count)
    assert pair_wins(one, other, paired(one, other), 1, 0, 0.95) == pytest.approx(expected)
    one, other = (within_settings(System("", each), setting, seeds) for each in scores)
    wins = [points(first[:, None], second) for first, second in scores.reshape(2, 2, 3).swapaxes(0, 1)]
    moved = [[each.mean(axis=axis) for each in wins] for axis in (1, 0)]
    value, count = draws(moved)
    expected = value, *wilson_interval(value * count, count, student.ppf(0.975, 4))
    assert run_wins(one, other, NONE, 1, 0, 0.95) == pytest.approx(expected)


@pytest.mark.parametrize("shared", [4, 3])
def test_the_variance_is_that_of_leaving_out_a_run_with_its_partner(rng, shared):
    """Without the pairs that leave with the partner, that of four shared runs was 4/9 of this."""
    scores = rng.normal(size=(2, 4))
    one, other = scored(scores[0], range(4)), scored(scores[1], [*range(shared), *range(8, 12 - shared)])

    def wins(left_of_one, left_of_other):
        kept = [(i, j) for i, j in product(left_of_one, left_of_other) if i != j or i >= shared]
        return np.mean([points(scores[0][i], scores[1][j]) for i, j in kept])

    every = range(4)
    value, squares = wins(every, every), 0.0
    for run in every:
        rest = [each for each in every if each != run]
        kept = [(rest, rest)] if run < shared else [(rest, every), (every, rest)]
        squares += sum(3 / 4 * (wins(*each) - value) ** 2 for each in kept)
    count = value * (1 - value) / squares
    found = run_wins(one, other, paired(one, other), 1, 0, 0.95)
    assert found == pytest.approx((value, *wilson_interval(value * count, count, student.ppf(0.975, 3))))


def test_the_density_of_differences_is_that_of_normal_kernels():
    width = 1.06 * 2 / 10**0.2
    assert _density(np.array([-2.0, 2.0]), 10) == pytest.approx(norm.pdf(0, 2, width))


def test_four_wins_of_four_do_not_exclude_a_half():
    """The exact limit of four draws; Wilson's excludes one half, which holds in 88 % of pairs of equal systems."""
    one, other = scored(range(5, 9), range(4)), scored(range(4), range(4))
    assert pair_wins(one, other, paired(one, other), 1, 0, 0.95) == pytest.approx((1, 0.025**0.25, 1))


def test_the_interval_of_seeds_that_settings_share_holds(rng):
    """Four seeds in each of five settings; with the normal quantile and Wilson's limits it held in 89 %."""
    seeds, setting, held = np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4), 0
    for _ in range(400):
        luck = np.sqrt(0.2) * rng.normal(size=(2, 4, 1)) + np.sqrt(0.8) * rng.normal(size=(2, 4, 5))
        one, other = (within_settings(System("", each.ravel(), {"seed": seeds}), setting, seeds) for each in luck)
        found = pair_wins(one, other, paired(one, other), 1, 0, 0.95)
        held += found.low <= 0.5 <= found.high
    assert held / 400 >= 0.93


def test_seeds_that_are_first_in_settings_of_their_own_leave_a_degree_of_freedom():
    """Three seeds, two in each of three settings; no degree of freedom was left, and all six runs counted."""
    setting, seed = np.array([0, 1, 2, 2, 1, 0]), np.array([0, 1, 2, 0, 2, 1])
    scores = np.array([[3, 1, 2, 5, 4, 6], [1, 2, 3, 4, 5, 7.0]])
    one, other = (within_settings(System("", each, {"seed": seed}), setting, seed) for each in scores)
    assert len(np.unique(one.setting)) == one.runs == 3
    found = pair_wins(one, other, paired(one, other), 1, 0, 0.95)
    assert found.high - found.low > 0.9


def test_a_system_that_always_wins_has_a_share_of_one_and_an_open_interval():
    one, other = scored(range(10, 20), range(10)), scored(range(0, -10, -1), range(10))
    for found in (
        pair_wins(one, other, paired(one, other), 1, 1, 0.95),
        run_wins(one, other, paired(one, other), 1, 1, 0.95),
    ):
        assert found.value == 1
        assert 0.5 < found.low < found.high == pytest.approx(1)


def test_wins_on_examples_are_those_of_all_choices_of_ten_shared_runs(rng):
    one, other = answers(rng, 12, 15, (0.95, 0.8))
    first, second = system(one), system(other)
    found = example_wins(first, second, paired(first, second))

    def shares(runs):
        chosen = [list(each) for each in combinations(runs, 10)]
        ours, theirs = (np.array([side[each].all(axis=0) for each in chosen]) for side in (one, other))
        always = [(one[each] & ~other[each]).all(axis=0) for each in chosen]
        return np.array([(ours & ~theirs).mean(axis=0), (theirs & ~ours).mean(axis=0), np.mean(always, axis=0)])

    whole = shares(range(12))
    left_out = [shares([run for run in range(12) if run != out]).mean(axis=1) for out in range(12)]
    variances = whole.var(axis=1, ddof=1) / 15 + np.var(left_out, axis=0) * 11  # of examples, and of runs
    values = whole.mean(axis=1)
    for at, share in enumerate((found.first, found.second)):
        count = values[at] * (1 - values[at]) / variances[at]
        assert share == pytest.approx((values[at], *wilson_interval(values[at] * count, count)))
    assert (found.examples, found.first_always) == (15, pytest.approx(values[2]))


def test_without_shared_runs_ten_are_drawn_of_each(rng):
    one, other = answers(rng, 12, 10, (0.95, 0.8))
    first, second = system(one), system(other[:11], np.arange(100, 111))
    found = example_wins(first, second, paired(first, second))
    ours = np.mean([one[list(each)].all(axis=0) for each in combinations(range(12), 10)], axis=0)
    theirs = np.mean([other[list(each)].all(axis=0) for each in combinations(range(11), 10)], axis=0)
    wrong = np.mean([~other[list(each)].any(axis=0) for each in combinations(range(11), 10)], axis=0)
    assert found.first.value == pytest.approx((ours * (1 - theirs)).mean())
    assert found.first_always == pytest.approx((ours * wrong).mean())


def test_ten_runs_show_no_luck_of_runs_and_have_no_interval(rng):
    """The interval of 1,000 examples alone held the truth in 67 % of cases."""
    one, other = answers(rng, 10, 40, (0.95, 0.8))
    for first, second in ((system(one), system(other)), (system(one), system(other, np.arange(100, 110)))):
        found = example_wins(first, second, paired(first, second))
        assert 0 < found.first.value < 1
        assert np.isnan([*found.first[1:], *found.second[1:]]).all()


@pytest.mark.parametrize(("runs", "examples", "known"), [(12, 9, 9), (9, 10, 0)])
def test_fewer_than_ten_examples_or_runs_have_no_share(rng, runs, examples, known):
    one, other = map(system, answers(rng, runs, examples, (0.9, 0.8)))
    found = example_wins(one, other, paired(one, other))
    assert found.examples == known
    assert np.isnan([found.first.value, found.second.value, found.first_always]).all()
    assert example_wins(scored([1, 2, 3]), scored([1, 2, 3]), NONE).examples == 0
