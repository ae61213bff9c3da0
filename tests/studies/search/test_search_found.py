import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from search_examples import DEFAULT, SPACE, coarse, grid, study

from mlflow_l3d.analysis.search import held_out
from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange
from mlflow_l3d.report.numbers import value_text
from mlflow_l3d.studies.search.importances import FEWEST, importances
from mlflow_l3d.studies.search.results import FinishedTrial, range_text, stage_summary, trials_table

scores = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12)


def test_interval_of_a_known_pair():
    # Differences 0.01, 0.02, 0.03: mean 0.02, std 0.01, t(2, 0.975) = 4.3027.
    held = held_out([0.81, 0.82, 0.83], [0.80, 0.80, 0.80])
    half = 4.302652729911275 * 0.01 / math.sqrt(3)
    assert held.difference == pytest.approx(0.02)
    assert (held.ci_low, held.ci_high) == pytest.approx((0.02 - half, 0.02 + half))
    assert (held.configurations, held.missing, held.level) == (3, 0, 0.95)


@given(scores)
def test_interval_is_that_of_scipy(pairs):
    found, default = np.array(pairs).T
    held = held_out(found, default)
    if np.ptp(found - default) > 1e-9:
        expected = stats.ttest_rel(found, default).confidence_interval(0.95)
        assert (held.ci_low, held.ci_high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    turned = held_out(default, found)
    assert turned.difference == pytest.approx(-held.difference)
    assert turned.ci_low == pytest.approx(-held.ci_high)


def test_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        shared = rng.normal(0.8, 0.05, 5)
        held = held_out(shared + 0.01 + rng.normal(0, 0.01, 5), shared + rng.normal(0, 0.01, 5))
        hits += held.ci_low <= 0.01 <= held.ci_high
    assert 0.935 <= hits / 2000 <= 0.965


def test_equal_scores_differ_by_nothing():
    held = held_out([0.7, 0.8], [0.7, 0.8])
    assert (held.difference, held.ci_low, held.ci_high) == (0, 0, 0)


def test_one_pair_has_no_interval_and_none_has_no_difference():
    one = held_out([0.8], [0.7])
    assert one.difference == pytest.approx(0.1)
    assert math.isnan(one.ci_low)
    assert math.isnan(one.ci_high)
    assert math.isnan(held_out([], []).difference)


def test_a_failed_run_takes_its_pair_along():
    held = held_out([0.8, math.nan, 0.9, 0.7], [0.7, 0.1, 0.8, math.inf])
    assert held.missing == 2
    assert held.found == (0.8, 0.9)
    assert held.difference == pytest.approx(0.1)


def test_importances_find_the_one_that_matters():
    found, note = importances(SPACE, coarse(), seed=0)
    assert note == ""
    assert next(iter(found)) == "learning_rate"
    assert found["learning_rate"] > 0.9
    assert sum(found.values()) > 0.94
    assert sum(found.values()) <= 1 + 1e-9


def test_importances_are_shares_that_leave_room_for_interactions():
    # Exclusive or: alone, neither says anything.
    found, _ = importances(
        SPACE,
        study(grid(), lambda params: 0.5 + 0.1 * ((params["layers"] == 3) == (params["learning_rate"] > 2e-4))),
        seed=0,
    )
    assert sum(found.values()) < 0.3


def test_importances_depend_on_nothing_but_study_and_seed():
    assert importances(SPACE, coarse(), seed=0) == importances(SPACE, coarse(), seed=0)
    assert importances(SPACE, coarse(), seed=0) != importances(SPACE, coarse(), seed=1)


def test_a_default_outside_the_space_does_not_count():
    def score(params):
        return 0.3 + 0.1 * math.log10(min(params["learning_rate"], 1e-2)) / -5

    outside = {"learning_rate": 0.5, "batch_size": 8, "layers": 1}
    found, _ = importances(SPACE, study([outside, *grid()], score), seed=0)
    assert found == importances(SPACE, study(grid(), score), seed=0)[0]
    assert found["learning_rate"] > 0.9


@pytest.mark.parametrize(
    ("points", "score", "word"),
    [
        (grid()[: FEWEST - 1], None, f"Only {FEWEST - 1} trials"),
        (grid(), lambda params: 0.5, "same score"),
        ([{**grid()[0], "learning_rate": 10**-power} for power in (2.1, 2.5, 3, 4)] * 3, None, "nothing to rank"),
        ([], None, "nothing to rank"),
    ],
)
def test_importances_that_cannot_be_known_say_why(points, score, word):
    found, note = importances(SPACE, study(points, *([score] if score else [])), seed=0)
    assert found == {}
    assert word in note


def test_trials_table_and_stage_summary():
    other = {**DEFAULT, "learning_rate": 1e-3}
    trials = [
        FinishedTrial(0, {}, other, "k0", "complete", 0.8, origin="taken over"),
        FinishedTrial(1, {"learning_rate": 2e-5}, DEFAULT, "k1", "complete", 0.75),
        FinishedTrial(2, {"learning_rate": 1e-5}, {**DEFAULT, "learning_rate": 1e-5}, "k2", "pruned", 0.6),
        FinishedTrial(3, {"learning_rate": 5e-5}, {}, "", "failed", error="no"),
    ]
    table = trials_table(
        {"fine": trials}, ["learning_rate"], default=DEFAULT, run_of={"k0": "", "k1": "abc", "k2": ""}.get, metrics={}
    )
    assert list(table["learning_rate"]) == [1e-3, 2e-5, 1e-5, 5e-5]
    assert list(table["is_default"]) == [False, True, False, False]
    assert list(table["run_id"]) == ["", "abc", "", ""]
    assert math.isnan(table["score"][3])
    stage = stage_summary("fine", "tpe", {"learning_rate": SearchRange(1e-5, 1e-2, log=True)}, trials)
    assert (stage.trials, stage.complete, stage.pruned, stage.failed) == (3, 1, 1, 1)
    assert stage.best_score == 0.8
    assert stage.ranges == {"learning_rate": "1e-05 to 0.01, log scale"}
    assert list(trials_table({}, ["dropout"], default={}, run_of=str, metrics={}).columns)[-1] == "dropout"


def test_texts_of_values_and_ranges():
    assert value_text(0.000123456) == "0.0001235"
    assert value_text(True) == "True"
    assert range_text(SearchChoices((4, 8, "auto"))) == "4, 8, auto"
    assert range_text(SearchRange(1, 16, whole=True)) == "1 to 16"
