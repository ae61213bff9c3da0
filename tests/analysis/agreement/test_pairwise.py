"""Consistency with any scoring function: brute force over pairs, classes as a special case, different test sets."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.stability.agreement.base import Scoring
from mlflow_l3d.analysis.stability.agreement.names import scoring
from mlflow_l3d.analysis.stability.agreement.pairwise import pairwise_consistency
from mlflow_l3d.analysis.stability.con import consistency_matrixwise
from mlflow_l3d.errors import L3DError, ParameterError

ANSWERS = st.one_of(st.none(), st.lists(st.sampled_from(["red", "blue", "cat", "sky"]), max_size=3).map(" ".join))


@given(st.data(), st.sampled_from(["squad_f1", "exact_match", "bleu"]))
@settings(max_examples=50, deadline=None)
def test_equal_to_brute_force(data, name):
    pool = data.draw(st.integers(1, 5))
    keys = [f"q{place}" for place in range(pool)]
    truth = {key: data.draw(ANSWERS.filter(lambda answer: answer is not None)) for key in keys}
    runs = data.draw(st.lists(st.dictionaries(st.sampled_from(keys), ANSWERS), min_size=1, max_size=5))
    function = scoring(name)
    found = pairwise_consistency(runs, truth, function)
    pairs, commons, shares, right = [], [], {}, {}
    for i, j in itertools.combinations(range(len(runs)), 2):
        common = runs[i].keys() & runs[j].keys()
        commons.append(len(common))
        if common:
            pairs.append((i, j))
            shares[i, j] = [function(runs[i][key], runs[j][key]) for key in common]
            right[i, j] = [function(runs[i][key], runs[j][key], truth[key]) for key in common]
    assert found.pairs == len(pairs)
    assert found.common_min == min(commons, default=0)
    for values, mean, std, pooled in (
        (shares, found.consistency, found.consistency_std, found.consistency_pooled),
        (right, found.correct_consistency, found.correct_consistency_std, found.correct_consistency_pooled),
    ):
        means = [statistics.fmean(each) for each in values.values()]
        assert mean == pytest.approx(statistics.fmean(means) if means else math.nan, nan_ok=True)
        assert std == pytest.approx(statistics.pstdev(means) if means else math.nan, nan_ok=True, abs=1e-9)
        everything = [value for each in values.values() for value in each]
        assert pooled == pytest.approx(statistics.fmean(everything) if everything else math.nan, nan_ok=True)
    predictions = [answer for run in runs for answer in run.values()]
    expected = predictions.count(None) / len(predictions) if predictions else math.nan
    assert found.unparsed_share == pytest.approx(expected, nan_ok=True)
    for row in found.per_example.itertuples():
        holders = [run[row.example_id] for run in runs if row.example_id in run]
        own = [function(one, other) for one, other in itertools.combinations(holders, 2)]
        assert row.consistency == pytest.approx(statistics.fmean(own))
        assert row.runs == len(holders)


def test_classes_give_what_the_matrix_gives():
    rng = np.random.default_rng(0)
    predictions, labels = rng.integers(-1, 3, size=(8, 40)), rng.integers(0, 3, size=40)
    runs = [[None if guess == -1 else guess for guess in row] for row in predictions.tolist()]
    found = pairwise_consistency(runs, labels.tolist(), scoring("exact_match"))
    whole = consistency_matrixwise(predictions, labels)
    for name in (
        "consistency",
        "correct_consistency",
        "consistency_std",
        "correct_consistency_std",
        "consistency_ci_low",
        "consistency_ci_high",
        "unparsed_share",
    ):
        assert getattr(found, name) == pytest.approx(getattr(whole, name)), name
    assert found.per_run == pytest.approx(whole.per_run)
    assert found.to_frame()["correct_consistency"].tolist() == pytest.approx(whole.per_run_correct.tolist())
    assert (found.examples, found.common_min, found.common_median) == (40, 40, 40)


def test_identical_runs_agree_fully_and_half_sums_give_their_quality():
    run = ["the cat sat", "a dog", "", None]
    truth = ["the cat sat", "a cat", "x", "y"]
    found = pairwise_consistency([run] * 4, truth, scoring("rougeL"))
    assert found.consistency == 0.75
    assert found.consistency_std == 0
    assert found.correct_consistency == pytest.approx((1 + 0.5 + 0 + 0) / 4)
    assert found.per_example["consistency"].tolist() == [0, 1, 1, 1]
    assert found.per_example["distinct"].tolist() == [1, 1, 1, 1]


def test_half_sums_average_to_the_mean_quality_of_the_runs():
    runs = [["red cat", "sky"], ["red", "blue sky"], ["cat", "grey"]]
    truth = ["red cat", "blue sky"]
    function = scoring("squad_f1")
    quality = statistics.fmean(
        function(answer, answer, real) for run in runs for answer, real in zip(run, truth, strict=True)
    )
    assert pairwise_consistency(runs, truth, function).correct_consistency == pytest.approx(quality)


def test_equal_predictions_are_compared_once():
    calls = []

    class Counting(Scoring):
        name = "counting"

        def pair(self, one, other):
            calls.append((one, other))
            return float(one == other)

        def with_truth(self, forms, truth):
            return np.zeros((len(forms), len(forms)))

    found = pairwise_consistency([["a"], ["b"], ["a"], ["a"], ["b"]], None, Counting())
    assert found.consistency == pytest.approx((3 + 1) / 10)
    assert len(calls) == 3
    assert math.isnan(found.correct_consistency)
    assert math.isnan(found.per_run_correct[0])


def test_no_run_one_run_and_nothing_in_common():
    function = scoring("exact_match")
    for runs in ([], [["a"]], [{"x": "a"}, {"y": "a"}]):
        found = pairwise_consistency(runs, None, function)
        assert math.isnan(found.consistency)
        assert found.pairs == 0
        assert len(found.per_example) == 0
    assert math.isnan(pairwise_consistency([{"x": 1}, {"x": 1, "y": 1}, {"y": 1}], None, function).consistency_ci_low)


def test_bad_input_is_refused():
    function = scoring("exact_match")
    with pytest.raises(ParameterError, match=r"lengths \[1, 2\]: sequences must be equally long"):
        pairwise_consistency([["a"], ["a", "b"]], None, function)
    with pytest.raises(ParameterError, match="truth=no entry for example 1"):
        pairwise_consistency([["a", "b"], ["a", "b"]], ["a"], function)


def test_a_scoring_function_that_leaves_its_range_is_refused():
    class Wrong(Scoring):
        name = "percent"

        def pair(self, one, other):
            return 100.0

        def with_truth(self, forms, truth):
            return np.full((len(forms), len(forms)), math.nan)

    with pytest.raises(L3DError, match=r"scoring=percent: gave a value outside \[0, 1\]"):
        pairwise_consistency([["a"], ["a"]], None, Wrong())
    with pytest.raises(L3DError, match="outside"):
        Wrong()("a", "a", "a")


def test_many_runs_of_texts_stay_affordable():
    rng = np.random.default_rng(4)
    words = ["red", "green", "blue", "cat", "dog", "sky"]
    pool = [" ".join(rng.choice(words, size=5)) for _ in range(6)]
    runs = [[pool[place] for place in rng.integers(0, 6, size=20)] for _ in range(60)]
    found = pairwise_consistency(runs, runs[0], scoring("bleu"))
    assert found.pairs == 60 * 59 // 2
    assert 0 < found.consistency < 1
    assert found.consistency_ci_low < found.consistency < found.consistency_ci_high
