"""The looks of a gate: what runs say, what is kept of it, and what is spent."""

import json
import math
from dataclasses import replace

import pytest
from comparison_cases import answers, scored, system
from scipy import stats

from mlflow_l3d.analysis.comparison.power import Forecast, Outlook, measured_pairs
from mlflow_l3d.analysis.intervals import unseen_share
from mlflow_l3d.analysis.planning.spending import Measured, SequentialPlan
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.files import _Reader, _written
from mlflow_l3d.studies.gate.numbers import GateAnswer, Look, look_at, measure, view

PLAN = SequentialPlan((10, 20), 0.5)


def both(rng, runs=10, skewed=False):
    baseline = rng.normal(size=runs)
    worse = rng.exponential(size=runs) if skewed else 0.1 * rng.normal(size=runs)
    return scored(baseline - worse, range(runs)), scored(baseline, range(runs))


def test_paired_runs_are_measured_as_their_differences(rng):
    candidate, baseline = both(rng, 100, skewed=True)
    found, _ = measure(candidate, baseline, count_examples=False)
    assert found == pytest.approx(tuple(map(float, measured_pairs(candidate.scores - baseline.scores))))
    assert found.skewness < 0


def test_independent_runs_are_measured_by_welch_and_their_skewnesses_add_up(rng):
    candidate, baseline = scored(rng.exponential(size=400), range(400)), scored(rng.normal(size=300), range(900, 1200))
    found, _ = measure(candidate, baseline, count_examples=False)
    expected = stats.ttest_ind(candidate.scores, baseline.scores, equal_var=False)
    assert found.difference / found.error == pytest.approx(expected.statistic)
    assert found.degrees == pytest.approx(expected.df)
    # Of an exponential mean of n runs: third cumulant 2 / n^2; the normal one has none.
    assert found.skewness == pytest.approx(2 / 400**2 / (1 / 400 + 1 / 300) ** 1.5, rel=0.5)


def test_test_examples_widen_the_interval_and_have_no_skewness_that_is_known(rng):
    one, other = (system(values) for values in answers(rng, 12, 60, (0.8, 0.6)))
    fixed, found = measure(one, other, count_examples=False)
    random, _ = measure(one, other, count_examples=True)
    assert random.error**2 == pytest.approx(fixed.error**2 + found.of_examples)
    assert abs(random.skewness) <= abs(fixed.skewness)
    look = look_at(PLAN, (), 10, 12, fixed, 0.5)
    low, high = view(one, other, look, 1.0, count_examples=True)
    assert high - low > look.high - look.low
    few = replace(look, low=low - 1, high=low)  # that of five runs, say, by their own degrees of freedom
    assert view(one, other, few, 1.0, count_examples=True) == (low - 1, high)
    assert view(one, other, look, -1.0, count_examples=False) == pytest.approx((-look.high, -look.low))


def test_a_look_is_the_same_after_it_was_written_down(rng):
    def again(look):
        written = json.loads(json.dumps(_written(look), allow_nan=False))
        return _Reader(None, "", files=False).value(Look, written)

    found, _ = measure(*both(rng), count_examples=False)
    look = look_at(PLAN, (), 10, 10, found, 0.5)
    assert again(look) == look
    early = look_at(PLAN, (), 10, 10, found, 1e-30)
    assert (early.low, early.high, early.decision) == (-math.inf, math.inf, "undecided")
    assert again(early) == early


def test_levels_go_on_from_the_looks_before_whatever_was_planned(rng):
    found, _ = measure(*both(rng), count_examples=False)
    first = look_at(PLAN, (), 10, 8, found, 0.4)
    last = look_at(PLAN, (first,), 20, 16, found, 0.8)
    assert last.fraction == 1.0  # the last look is the end of the budget, also where runs failed
    expected = PLAN.levels_at([0.4, 1.0])
    assert (first.level, last.level) == pytest.approx([each.difference for each in expected])


def test_no_look_decides_if_more_than_a_tenth_of_the_runs_are_lost(rng):
    """Those that fail are rarely any runs."""
    found = Measured(0.0, 1e-4, 20.0, 0.0)
    verdicts = {pairs: look_at(PLAN, (), 20, pairs, found, 1.0).decision for pairs in (20, 18, 17, 9)}
    assert verdicts == {20: "equivalent", 18: "equivalent", 17: "undecided", 9: "undecided"}
    worse = found._replace(difference=-0.7)
    assert [look_at(PLAN, (), 20, pairs, worse, 1.0).decision for pairs in (18, 17)] == ["worse", "undecided"]


def test_unseen_share_is_the_limit_of_clopper_and_pearson():
    assert unseen_share(20, 0.95) == pytest.approx(stats.beta.ppf(0.95, 1, 20))
    assert unseen_share(0, 0.95) == 1


def test_exit_status_and_metrics_by_look(rng):
    found, _ = measure(*both(rng), count_examples=False)
    nothing = Outlook(0.0, 0.8, 0.7, 0.0, 10.0)
    sides = {"baseline": "a", "candidate": "b", "metric": named("accuracy"), "examples": "fixed", "paired": True}
    answer = GateAnswer(**sides, plan=PLAN, before=Forecast(1.0, nothing, nothing))
    assert answer.exit_status == 2
    look = look_at(PLAN, (), 10, 10, found, 0.5)
    for decision, status in (("better", 0), ("equivalent", 0), ("worse", 1), ("undecided", 2)):
        asked = replace(answer, looks=(look, replace(look, decision=decision, runs=22, pairs=20)))
        assert asked.exit_status == status
        metrics = asked.metrics()
        assert metrics[1]["difference"] == look.difference
        assert (metrics[2]["runs_used"], metrics[2]["exit_status"]) == (20, status)
