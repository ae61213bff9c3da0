"""Importance of a factor for single predictions: closed form, bridge from the vote counter, interval."""

import math

import numpy as np
import pytest
from analysis_oracle import VoteCounter, consistency_matrixwise
from drawn_tables import covered

from mlflow_l3d.analysis.consistency.results import Consistency, prediction_importance


def consistency(value, group="data_order"):
    return Consistency(group, value, value, 4, 2, 100, 0.0)


def predicted(rows, columns, weight):
    """Class 1 where a sum of both factors' parts is above 0; rows and columns are (count, n) normal draws."""
    return (math.sqrt(1 - weight) * rows + math.sqrt(weight) * columns > 0).astype(int)


def counted(table):
    """Vote counter of predictions with shape (M, N, n)."""
    counter = VoteCounter()
    for row, runs in enumerate(table):
        for run in runs:
            counter.add(row, np.arange(len(run)), np.zeros(len(run), dtype=int), run)
    return counter


def disagreement(correlation):
    """Chance that two standard normal numbers with this correlation differ in sign."""
    return math.acos(correlation) / math.pi


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_a_threshold_model_has_its_closed_form(weight):
    rng = np.random.default_rng(7)
    m, n, examples = 40, 10, 400
    table = predicted(rng.normal(size=(m, 1, examples)), rng.normal(size=(m, n, examples)), weight)
    golden_runs = predicted(rng.normal(size=(150, examples)), rng.normal(size=(150, examples)), weight)
    counter, golden = counted(table), counted(golden_runs[None])
    rows = [record.consistency for record in counter.per_group().values()]
    found = prediction_importance(counter.result("data_order"), golden.result("golden"), rows)
    # Within a row the sums correlate by 1 - weight; golden runs not at all.
    truth = disagreement(1 - weight) / disagreement(0)
    assert found.share == pytest.approx(truth, abs=0.02)
    assert found.share_ci_low < truth + 0.01
    assert found.share_ci_high > truth - 0.01
    assert found.importance == pytest.approx(math.sqrt(found.share) - math.sqrt(1 - found.share))
    assert found.rows == m
    assert found.factor == "data_order"
    assert found.interval_over == ("rows",)
    low, high = found.importance_interval
    assert found.metrics() == {
        "prediction_importance": found.importance,
        "prediction_importance_corrected_ci_low": low,
        "prediction_importance_corrected_ci_high": high,
        "prediction_share": found.share,
        "prediction_share_ci_low": found.share_ci_low,
        "prediction_share_ci_high": found.share_ci_high,
    }
    assert (1 + low * math.sqrt(2 - low**2)) / 2 == pytest.approx(found.share_ci_low)


def agreement(runs):
    """Share of pairs of runs that agree, of two classes."""
    ones, count = runs.sum(axis=0), len(runs)
    return 1 - 2 * (ones * (count - ones)).mean() / (count * (count - 1))


def test_agreement_of_two_classes_is_the_consistency():
    runs = np.random.default_rng(5).integers(0, 2, (4, 30))
    found = consistency_matrixwise(runs, np.zeros(30, dtype=int))
    assert agreement(runs) == pytest.approx(found.consistency, rel=1e-12)


def test_the_interval_over_rows_covers():
    rng = np.random.default_rng(23)
    truth = disagreement(0.5) / disagreement(0)
    golden = Consistency("golden", 1 - disagreement(0), 0.0, 2, 1, 1, 0.0)
    intervals = []
    for _ in range(200):
        table = predicted(rng.normal(size=(10, 1, 60)), rng.normal(size=(10, 4, 60)), 0.5)
        rows = [agreement(runs) for runs in table]
        found = prediction_importance(consistency(float(np.mean(rows))), golden, rows)
        intervals.append((found.share_ci_low, found.share_ci_high))
    assert 0.90 <= covered(intervals, truth) <= 0.99


def test_the_share_is_not_cut_and_the_importance_is():
    found = prediction_importance(consistency(0.6), consistency(0.8, "golden"), [0.5, 0.6, 0.7])
    assert found.share == pytest.approx(2)
    assert found.importance == 1
    assert found.share_ci_low < 2 < found.share_ci_high
    without_effect = prediction_importance(consistency(1.0), consistency(0.8, "golden"), [1.0, 1.0, 1.0])
    assert (without_effect.share, without_effect.importance) == (0, -1)
    assert math.isnan(without_effect.share_ci_low)


def test_golden_runs_that_never_disagree_leave_it_undefined():
    found = prediction_importance(consistency(0.9), consistency(1.0, "golden"), [0.8, 0.9, 1.0])
    assert math.isnan(found.share)
    assert math.isnan(found.importance)
    assert math.isnan(found.share_ci_high)
    assert found.metrics() == {}


def test_rows_without_a_pair_are_passed_over_and_few_rows_have_no_interval():
    found = prediction_importance(consistency(0.7), consistency(0.5, "golden"), [0.6, math.nan, 0.8])
    assert found.rows == 2
    assert found.share == pytest.approx(0.6)
    assert math.isnan(found.share_ci_low)
    nothing = prediction_importance(consistency(math.nan), consistency(0.5, "golden"), [math.nan])
    assert math.isnan(nothing.share)
