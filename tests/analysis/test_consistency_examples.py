"""Robust, fragile and never-right examples."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from analysis_oracle import example_votes_of_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mlflow_l3d.analysis.consistency.examples import example_votes, ranked_votes

PREDICTIONS = [
    [0, 1, 0, 2, -1],
    [0, 1, 1, 2, -1],
    [0, 1, 0, 0, 1],
    [0, 1, 1, 1, -1],
]
LABELS = [0, 0, 1, 0, 1]
IDS = ["robust", "wrong", "half", "torn", "silent"]


def test_each_kind_by_hand():
    found = example_votes(np.array(PREDICTIONS), np.array(LABELS), np.array(IDS))
    rows = found.frame.set_index("example_id")
    assert found.frame["example_id"].tolist() == ["torn", "half", "silent", "wrong", "robust"]
    kinds = dict.fromkeys(("half", "torn", "silent"), "fragile") | {"robust": "robust", "wrong": "never_right"}
    assert rows["kind"].to_dict() == kinds
    assert rows.loc["torn", "votes"] == (1, 1, 2)
    assert rows.loc["torn", "entropy"] == pytest.approx(1.5)
    assert rows.loc["half", "entropy"] == 1
    assert rows.loc["half", "prediction"] == 0, "the smallest of several most frequent ones"
    assert rows.loc["torn", "prediction"] == 2
    assert rows.loc["silent", ["prediction", "unparsed", "share_right"]].tolist() == [-1, 3, 0.25]
    assert rows.loc["wrong", ["share_right", "entropy", "runs"]].tolist() == [0, 0, 4]
    assert (found.robust_share, found.fragile_share, found.never_right_share) == (0.2, 0.6, 0.2)
    assert found.most_fragile(2)["example_id"].tolist() == ["torn", "half"]
    assert "robust" not in set(found.most_fragile()["example_id"])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 10))
@settings(max_examples=25, deadline=None)
def test_arrays_and_frames_agree_and_the_mean_share_right_is_accuracy(seed, runs, examples):
    rng = np.random.default_rng(seed)
    predictions, labels = rng.integers(-1, 3, size=(runs, examples)), rng.integers(0, 3, size=examples)
    found = example_votes(predictions, labels, np.arange(examples))
    assert found.frame["share_right"].mean() == pytest.approx((predictions == labels).mean())
    assert found.robust_share + found.fragile_share + found.never_right_share == pytest.approx(1)
    assert found.robust_share == pytest.approx((predictions == labels).all(axis=0).mean())
    assert found.never_right_share == pytest.approx((predictions != labels).all(axis=0).mean())
    votes = np.column_stack([found.frame["unparsed"], np.array(found.frame["votes"].tolist())])
    assert (votes.sum(axis=1) == found.frame["runs"]).all()
    assert found.frame["entropy"].to_numpy() == pytest.approx(stats.entropy(votes, base=2, axis=1))
    assert found.frame["entropy"].is_monotonic_decreasing
    run, example = np.divmod(np.arange(predictions.size), examples)
    long = {"run": run, "example_id": example, "label": labels[example], "prediction": predictions.reshape(-1)}
    pd.testing.assert_frame_equal(example_votes_of_frame(pd.DataFrame(long), min_runs=1).frame, found.frame)


def test_examples_that_one_run_saw_are_left_out():
    frame = pd.DataFrame({"run": [0, 0, 1], "example_id": ["x", "y", "x"], "label": [0, 1, 0], "prediction": [0, 0, 0]})
    found = example_votes_of_frame(frame)
    assert found.frame["example_id"].tolist() == ["x"]
    assert found.left_out == 1
    assert found.robust_share == 1
    nothing = example_votes_of_frame(frame, min_runs=3)
    assert len(nothing.frame) == 0
    assert math.isnan(nothing.robust_share)


def test_no_example_at_all():
    found = example_votes(np.zeros((3, 0), dtype=int), np.zeros(0, dtype=int), np.arange(0))
    assert len(found.frame) == 0
    assert math.isnan(found.fragile_share)


def test_shares_of_ten_runs_are_means_over_all_choices_of_ten():
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 2, 6)
    predictions = np.where(generator.random((12, 6)) < [0.05, 0.1, 0.5, 0.9, 0, 1], 1 - labels, labels)
    found = example_votes(predictions, labels, np.arange(6))
    chosen = [example_votes(predictions[list(ten)], labels, np.arange(6)) for ten in combinations(range(12), 10)]
    for name in ("robust_share", "fragile_share", "never_right_share"):
        assert getattr(found, f"{name}_10") == pytest.approx(np.mean([getattr(each, name) for each in chosen])), name
    assert found.runs == (12, 12)


def test_shares_of_ten_runs_do_not_depend_on_the_number_of_runs_and_leave_out_what_fewer_saw():
    generator = np.random.default_rng(8)
    hard = generator.beta(0.5, 0.2, size=4000)
    few, many = (np.where(generator.random((runs, 4000)) < hard, 1, 0) for runs in (10, 100))
    short, long = (example_votes(each, np.ones(4000, dtype=int), np.arange(4000)) for each in (few, many))
    assert long.robust_share < short.robust_share - 0.1
    assert long.robust_share_10 == pytest.approx(short.robust_share_10, abs=0.03)
    assert short.robust_share_10 == pytest.approx(short.robust_share)
    counts = np.array([[0, 0, 9], [0, 3, 9]])  # nine runs saw the first example, twelve the second
    found = ranked_votes(np.arange(2), np.array([1, 1]), counts)
    assert found.robust_share == 0.5
    assert (found.robust_share_10, found.never_right_share_10) == (0, 0)
    assert "robust_share_10" not in example_votes(few[:9], np.ones(4000, dtype=int), np.arange(4000)).shares()


@pytest.mark.parametrize("right", range(1, 60))
def test_no_share_of_ten_runs_is_below_zero(right):
    counts = np.repeat([[0, 0, 12], [0, 12, 0]], [right, 60 - right], axis=0)
    found = ranked_votes(np.arange(60), np.ones(60, dtype=int), counts)
    assert found.fragile_share_10 >= 0
    assert found.fragile_share_10 == pytest.approx(0)
