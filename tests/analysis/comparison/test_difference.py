"""The difference of two systems: equal to textbook tests where these apply, and right about its own error."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from comparison_cases import answers, scored, system
from drawn_tables import covered
from scipy import stats

from mlflow_l3d.analysis.comparison.difference import (
    examples_to_settle,
    interval,
    p_value,
    probability_better,
    runs_needed,
    spread,
)
from mlflow_l3d.analysis.comparison.predictions import check_effect, least_error
from mlflow_l3d.analysis.comparison.system import System, mean_scores, paired, same_cells, within_settings
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named


def compared(one, other):
    means = mean_scores([one, other])
    return float(means.means[0] - means.means[1]), spread(means, 0, 1)


def test_without_predictions_shared_runs_are_a_paired_t_test(rng):
    first = rng.normal(size=12)
    second = first + 0.3 * rng.normal(size=12)
    gap, found = compared(scored(first, range(12)), scored(second[::-1], range(11, -1, -1)))
    expected = stats.ttest_rel(first, second)
    assert p_value(gap, found) == pytest.approx(expected.pvalue)
    assert interval(gap, found) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.saved == pytest.approx(1 - np.var(first - second) / (np.var(first) + np.var(second)))


def test_without_shared_runs_it_is_the_test_of_welch(rng):
    first, second = rng.normal(size=9), 3 * rng.normal(size=30)
    gap, found = compared(scored(first, range(9)), scored(second, range(100, 130)))
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert p_value(gap, found) == pytest.approx(expected.pvalue)
    assert interval(gap, found) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.saved == pytest.approx(0)


def test_on_one_test_set_it_is_the_two_way_analysis_of_variance(rng):
    one, other = answers(rng, 7, 11, (0.7, 0.6))
    _, found = compared(system(one), system(other))
    table = one * 1.0 - other
    rows, columns = table.shape
    residual = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    of_rows = table.mean(axis=1).var(ddof=1) / rows
    error = np.square(residual).sum() / (rows - 1) / (columns - 1) / rows / columns
    assert found.of_runs == pytest.approx(of_rows)
    assert found.of_examples == pytest.approx(max(0, table.mean(axis=0).var(ddof=1) / columns - error))
    assert found.degrees_runs == rows - 1
    assert found.degrees_examples == columns - 1
    assert replace(found, of_runs=1e-9, of_examples=0.0).degrees == 1, "below, intervals are wider than any score"


def test_the_order_of_two_systems_turns_the_sign_alone(rng):
    one, other = answers(rng, 10, 20, (0.7, 0.6))
    first, second = system(one[:8]), system(other)
    gap, found = compared(first, second)
    turned, same = compared(second, first)
    assert turned == -gap
    assert same.error == pytest.approx(found.error)
    assert same.degrees == pytest.approx(found.degrees)


def test_a_test_set_of_its_own_for_each_run_leaves_the_spread_of_the_runs(rng):
    right = rng.random((6, 30)) < 0.7
    seen = np.kron(np.eye(6, dtype=bool), np.ones((1, 5), dtype=bool))
    alone = mean_scores([system(right, seen=seen), scored(rng.normal(size=6))])
    assert alone.of_examples[0, 0] == pytest.approx(0, abs=1e-15)
    assert alone.of_runs[0, 0] == pytest.approx(alone.systems[0].scores.var(ddof=1) / 6)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["paired", "half", "unpaired", "unequal", "missing", "own test sets"])
def test_the_error_is_that_of_repeated_experiments(rng, layout):
    runs, examples = 12, 30
    apart = {"half": 6, "unpaired": 12}.get(layout, 0)
    seeds = np.arange(runs) + 100 * (np.arange(runs) >= runs - apart)
    seen = np.ones((runs, examples), dtype=bool)
    gaps, variances = [], []
    for _ in range(200):
        one, other = answers(rng, runs, examples, (0.8, 0.75), of_run=0.6, apart=apart)
        if layout == "missing":
            seen = rng.random((runs, examples)) < 0.8
        if layout == "own test sets":
            seen = rng.random((runs, examples)).argsort(axis=1) < 10
        kept = 5 if layout == "unequal" else runs
        gap, found = compared(system(one[:kept], seen=seen[:kept]), system(other, seeds, seen=seen))
        gaps.append(gap)
        variances.append(found.error**2)
    assert math.sqrt(np.mean(variances)) == pytest.approx(np.std(gaps), rel=0.12)


def test_same_cells_are_those_of_shared_runs_on_shared_examples(rng):
    pair = [system(rng.random((4, 9)), seeds, seen=rng.random((4, 9)) < 0.6) for seeds in ([1, 2, 3, 4], [3, 1, 7, 2])]
    cells = [list(zip(each.run.tolist(), each.unit.tolist(), strict=True)) for each in pair]
    found = zip(*same_cells(*pair, paired(*pair)), strict=True)
    partners = {0: 1, 1: 3, 2: 0}  # runs of the seeds 1, 2 and 3
    both = [(run, unit) for run, unit in cells[0] if (partners.get(run), unit) in cells[1]]
    expected = [(run, unit, partners[run], unit) for run, unit in both]
    assert sorted((*cells[0][first], *cells[1][second]) for first, second in found) == sorted(expected)


def test_runs_needed_reach_the_power_that_they_promise(rng):
    one, other = answers(rng, 40, 400, (0.75, 0.7), of_run=0.5)
    _, found = compared(system(one), system(other))
    effect = 3.2 * math.sqrt(found.of_examples)
    needed = runs_needed(effect, found, 0.8)
    errors, degrees = np.transpose([found.with_runs(runs) for runs in (needed - 1, needed)])
    fewer, enough = stats.nct.sf(stats.t.ppf(0.975, degrees), degrees, effect / errors)
    assert fewer < 0.8 <= enough < 0.82
    assert runs_needed(effect, found, 0.95) > needed
    assert found.with_runs(40) == pytest.approx((found.error, found.degrees))


def test_where_examples_are_short_no_number_of_runs_is_enough(rng):
    one, other = answers(rng, 30, 60, (0.75, 0.7))
    _, found = compared(system(one), system(other))
    assert found.of_examples > 0
    effect = math.sqrt(found.of_examples)
    assert runs_needed(effect, found, 0.8) == math.inf
    needed = examples_to_settle(effect, found, math.nan)
    assert needed == pytest.approx(60 * 2.8016**2, rel=0.01)
    # Of a smallest effect, what is easier to show counts, as of runs: the sign, or that the rest of the effect is left.
    assert examples_to_settle(effect, found, 1.5 * effect) == needed
    assert examples_to_settle(effect, found, 3 * effect) == pytest.approx(needed / 4, abs=1)
    assert examples_to_settle(0.0, found, math.nan) == math.inf
    assert examples_to_settle(effect, replace(found, of_examples=0.0, examples=0), math.nan) == math.inf


def test_the_confidence_distribution_is_one_less_half_the_p_value(rng):
    gap, found = compared(scored(rng.normal(1, 1, 10), range(10)), scored(rng.normal(0, 1, 10), range(10)))
    assert probability_better(gap, found) == pytest.approx(1 - p_value(gap, found) / 2)
    assert probability_better(-gap, found) == pytest.approx(p_value(gap, found) / 2)


@pytest.mark.parametrize("level", [0.01, 0.025, 0.05])
@pytest.mark.parametrize("draws", [2, 3, 5, 20, 43, 1000])
def test_the_least_error_reaches_as_far_as_the_exact_binomial_limit(draws, level):
    unseen = stats.beta.ppf(1 - level, 1, draws)
    assert stats.t.isf(level, draws - 1) * least_error(1.0, draws) >= unseen


@pytest.mark.parametrize(
    ("first", "second", "size"),
    [
        ([0.96, 0.98, 0.96], [0.98, 1.0, 0.98], 50),  # of a spread of 0: equal differences
        ([0.5] * 4, [0.5] * 4, 50),
        ([0.5] * 4, [0.5] * 4, 0),  # how many test examples there are is not known
        ([0.8] * 3, [0.7] * 3, 0),
        ([0.5, 0.7, 0.6], [0.5, 0.7, 0.6], 0),
        ([0.0] * 3, [0.0] * 3, 0),
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_runs_that_are_all_alike_leave_an_error(first, second, size, shared):
    runs = np.arange(len(first))
    pair = [scored(first, runs), scored(second, runs + 100 * (not shared))]
    gap, found = compared(*(replace(each, width=1.0, examples=size) for each in pair))
    low, high = interval(gap, found)
    assert high - low > (0.02 if size else 1e-3)
    assert low <= 0 <= high
    assert p_value(gap, found) == pytest.approx(1.0) if gap == 0 else 0.05 < p_value(gap, found) < 1
    assert 0 < probability_better(gap, found) < 1
    error, degrees = found.with_runs(2 * len(first))
    assert 0 < error < found.error
    assert degrees > found.degrees


def test_alike_on_all_test_examples_two_may_still_differ_on_new_ones(rng):
    right = np.repeat(answers(rng, 1, 50, (0.8,))[0], 6, axis=0)
    system_of_50 = replace(system(right), width=1.0, examples=50)
    _, found = compared(system_of_50, system_of_50)
    assert math.sqrt(found.of_examples) == pytest.approx(least_error(1.0, 50))
    assert math.sqrt(found.of_runs) == pytest.approx(least_error(0.02, 6))


@pytest.mark.parametrize(
    ("metric", "scores", "examples", "line"),
    [
        ("accuracy", [0.96, 0.98], 50, "smallest_effect=1: must be at least 2: one of 50 test examples moves accuracy"),
        ("accuracy", [0.96, 0.98], 100, ""),
        ("accuracy", [0.96, 0.98], 0, ""),
        ("f1_macro", [0.96, 0.98], 50, ""),
        ("squad_f1", [0.9612, 0.9841], 50, ""),
        ("mse", [0.96, 0.98], 50, ""),
    ],
)
def test_a_smallest_effect_below_one_test_example_is_refused(metric, scores, examples, line):
    with pytest.raises(ParameterError, match=line) if line else nullcontext():
        check_effect(0.01, named(metric), np.array(scores), examples)


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", [0.55, 0.9])
@pytest.mark.parametrize("apart", [0, 20])
def test_intervals_hold_the_truth(rng, accuracy, apart):
    intervals = []
    for _ in range(400):
        one, other = answers(rng, 20, 40, (accuracy, accuracy - 0.05), apart=apart)
        intervals.append(interval(*compared(system(one), system(other, np.arange(20) + 100 * (apart > 0)))))
    assert 0.925 <= covered(intervals, 0.05) <= 0.98


def test_each_setting_has_its_own_degrees_of_freedom() -> None:
    setting = np.repeat([0, 1], [3, 9])
    scores = np.array([0.5, 0.6, 0.7, *[0.8] * 9])
    systems = [within_settings(System(name, scores, {}), setting, np.arange(12)) for name in "ab"]
    means = mean_scores(systems)
    assert means.means == pytest.approx([0.7, 0.7])
    found = spread(means, 0, 1)
    assert found.error == pytest.approx(np.sqrt(2 * 0.1**2 / 3 / 4))
    assert found.degrees_runs == pytest.approx(2 + 2), "the spread is that of three runs of each"


def test_a_seed_of_several_settings_is_one_run(rng) -> None:
    """Seeds whose luck all settings share counted as independent: 24 % of equal systems differed with 3 settings."""
    settings, claims = np.repeat([0, 1, 2], 8), 0
    seeds = np.tile(np.arange(8), 3)
    for _ in range(300):
        luck = rng.normal(size=(2, 8))[:, seeds] + 0.3 * rng.normal(size=(2, 24)) + 5 * settings
        systems = [within_settings(System(name, luck[at], {}), settings, seeds) for at, name in enumerate("ab")]
        means = mean_scores(systems)
        by_seed = luck.reshape(2, 3, 8).mean(axis=1)
        assert means.of_runs.diagonal() == pytest.approx(by_seed.var(axis=1, ddof=1) / 8)
        low, high = interval(means.means[0] - means.means[1], spread(means, 0, 1))
        claims += low > 0 or high < 0
    assert claims <= 0.08 * 300


def test_seeds_of_settings_keep_their_test_examples() -> None:
    right = np.array([[1.0, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 0], [1, 0, 1, 1], [1, 1, 1, 0]])
    run, unit = np.divmod(np.arange(24), 4)
    share = (right - right.mean(axis=1, keepdims=True)).ravel() / 4
    several = System("a", right.mean(axis=1), {}, run, unit, share, units=4, width=1.0, examples=4.0)
    mean = right.reshape(2, 3, 4).mean(axis=0)
    found = within_settings(several, np.repeat([0, 1], 3), np.tile(np.arange(3), 2))
    assert found.scores.mean() == pytest.approx(mean.mean())
    assert found.of_units / np.sqrt(4 / 3) == pytest.approx((mean - mean.mean(axis=1, keepdims=True)).mean(axis=0) / 4)
