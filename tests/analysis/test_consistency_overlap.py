"""Runs with different test sets: each pair on its common examples, by plain loops."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.stability.con import consistency_matrixwise
from mlflow_l3d.analysis.stability.consistency import VoteCounter
from mlflow_l3d.analysis.stability.overlap import consistency_on_common
from mlflow_l3d.errors import ParameterError


def frame_of(runs, labels):
    rows = [(name, key, labels[key], guess) for name, run in runs.items() for key, guess in run.items()]
    return pd.DataFrame(rows, columns=["run", "example_id", "label", "prediction"]).astype(
        {"label": "int64", "prediction": "int64"}
    )


@st.composite
def runs_with_labels(draw):
    pool = draw(st.integers(1, 8))
    labels = draw(st.lists(st.integers(0, 2), min_size=pool, max_size=pool))
    answers = st.dictionaries(st.integers(0, pool - 1), st.integers(-1, 2), min_size=1)
    runs = draw(st.lists(answers, min_size=1, max_size=6))
    return {f"run{place}": run for place, run in enumerate(runs)}, labels


@given(runs_with_labels())
@settings(max_examples=80, deadline=None)
def test_equal_to_brute_force(data):
    runs, labels = data
    found = consistency_on_common(frame_of(runs, labels))
    common, equal, correct = {}, {}, {}
    for one, other in itertools.combinations(runs, 2):
        keys = runs[one].keys() & runs[other].keys()
        common[one, other] = len(keys)
        if keys:
            equal[one, other] = sum(runs[one][key] == runs[other][key] != -1 for key in keys)
            correct[one, other] = sum(runs[one][key] == runs[other][key] == labels[key] for key in keys)
    assert found.pairs == len(equal)
    assert found.pairs_without_common == len(common) - len(equal)
    assert found.common_min == min(common.values(), default=0)
    assert found.common_median == (statistics.median(common.values()) if common else 0)
    for hits, mean, std, pooled, per_run in (
        (equal, found.consistency, found.consistency_std, found.consistency_pooled, found.per_run),
        (
            correct,
            found.correct_consistency,
            found.correct_consistency_std,
            found.correct_consistency_pooled,
            found.per_run_correct,
        ),
    ):
        shares = {pair: hits[pair] / common[pair] for pair in hits}
        assert mean == pytest.approx(statistics.fmean(shares.values()) if shares else math.nan, nan_ok=True)
        assert std == pytest.approx(statistics.pstdev(shares.values()) if shares else math.nan, nan_ok=True, abs=1e-9)
        total = sum(common.values())
        assert pooled == pytest.approx(sum(hits.values()) / total if total else math.nan, nan_ok=True)
        for place, name in enumerate(found.run_names):
            own = [share for pair, share in shares.items() if name in pair]
            assert per_run[place] == pytest.approx(statistics.fmean(own) if own else math.nan, nan_ok=True)
    predictions = [guess for run in runs.values() for guess in run.values()]
    assert found.unparsed_share == pytest.approx(predictions.count(-1) / len(predictions))


@given(runs_with_labels())
@settings(max_examples=40, deadline=None)
def test_pooled_is_the_rule_of_the_vote_counter(data):
    runs, labels = data
    counter = VoteCounter()
    for run in runs.values():
        counter.add("all", list(run), [labels[key] for key in run], list(run.values()))
    record = counter.result("all")
    found = consistency_on_common(frame_of(runs, labels))
    assert found.consistency_pooled == pytest.approx(record.consistency, nan_ok=True)
    assert found.correct_consistency_pooled == pytest.approx(record.correct_consistency, nan_ok=True)


def test_one_test_set_gives_what_the_matrix_gives():
    rng = np.random.default_rng(3)
    predictions, labels = rng.integers(-1, 3, size=(6, 30)), rng.integers(0, 3, size=30)
    runs = {run: dict(enumerate(row.tolist())) for run, row in enumerate(predictions)}
    found = consistency_on_common(frame_of(runs, labels.tolist()).sample(frac=1, random_state=1))
    whole = consistency_matrixwise(predictions, labels)
    for name in ("consistency", "correct_consistency", "consistency_std", "correct_consistency_std"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name))
    assert found.consistency_pooled == pytest.approx(whole.consistency)
    assert found.common_min == found.common_median == 30
    order = np.argsort(found.run_names)
    assert found.per_run[order] == pytest.approx(whole.per_run)
    assert found.to_frame()["run"].tolist() == list(found.run_names)


def test_a_pair_counts_once_in_the_mean_and_by_its_examples_when_pooled():
    runs = {"a": {1: 0, 2: 0, 3: 0, 4: 0}, "b": {1: 0, 2: 0, 3: 0}, "c": {4: 1}}
    found = consistency_on_common(frame_of(runs, [0] * 5))
    assert found.consistency == 0.5
    assert found.consistency_pooled == 0.75
    assert (found.pairs, found.pairs_without_common, found.common_min, found.common_median) == (2, 1, 0, 1)


def test_several_columns_may_tell_runs_apart():
    frame = pd.DataFrame(
        {"row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "example_id": ["x"] * 4, "label": 0, "prediction": [0, 0, 1, 1]}
    )
    found = consistency_on_common(frame, ["row", "column"])
    assert found.run_names == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert found.consistency == pytest.approx(2 / 6)


def test_bad_frames_are_refused():
    good = frame_of({"a": {1: 0, 2: 1}, "b": {1: 0}}, [0, 0, 1])
    with pytest.raises(ParameterError, match=r"column=run: must be in the frame, which has example_id"):
        consistency_on_common(good.drop(columns="run"))
    with pytest.raises(ParameterError, match=r"example_id=1: must occur once .* Is run all that tells runs apart"):
        consistency_on_common(pd.concat([good, good.iloc[:1]]))
    with pytest.raises(ParameterError, match=r"label=0: example_id 1 must have one true class|example_id 1"):
        consistency_on_common(good.assign(label=[1, 1, 0]))
    with pytest.raises(ValueError, match="whole class numbers"):
        consistency_on_common(good.assign(prediction=[0.5, 1, 0]))


def test_an_empty_frame_has_no_agreement():
    found = consistency_on_common(frame_of({}, []))
    assert (found.runs, found.examples, found.pairs) == (0, 0, 0)
    assert math.isnan(found.consistency)
    assert math.isnan(found.consistency_pooled)
