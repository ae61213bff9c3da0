"""Robust, fragile and never-right examples."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from analysis_oracle import example_votes_of_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mlflow_l3d.analysis.stability.examples import entropy, example_votes

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
    assert rows["kind"].to_dict() == {
        "robust": "robust",
        "wrong": "never_right",
        "half": "fragile",
        "torn": "fragile",
        "silent": "fragile",
    }
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
@settings(max_examples=50, deadline=None)
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
    long = pd.DataFrame(
        {
            "run": np.repeat(np.arange(runs), examples),
            "example_id": np.tile(np.arange(examples), runs),
            "label": np.tile(labels, runs),
            "prediction": predictions.reshape(-1),
        }
    )
    pd.testing.assert_frame_equal(example_votes_of_frame(long, min_runs=1).frame, found.frame)


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


def test_entropy_has_its_bounds():
    assert entropy([[4, 0, 0], [2, 2, 0], [1, 1, 1]]).tolist() == pytest.approx([0, 1, math.log2(3)])
    assert math.copysign(1, entropy([[4, 0]])[0]) == 1
