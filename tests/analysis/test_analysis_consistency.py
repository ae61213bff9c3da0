"""Agreement of predictions: brute force over pairs, different test sets, order, memory, bad input."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.consistency import VoteCounter
from mlflow_l3d.analysis.metrics import classification_metrics
from mlflow_l3d.errors import ParameterError


def brute_force(runs):
    """(equal, equal and right, compared) over all pairs of runs; a run maps id -> (label, prediction)."""
    equal = correct = compared = 0
    for one, other in itertools.combinations(runs, 2):
        for key in one.keys() & other.keys():
            (label, first), (_, second) = one[key], other[key]
            compared += 1
            equal += first == second != -1
            correct += first == second == label
    return equal, correct, compared


def as_runs(groups):
    return [
        (group, list(run), [label for label, _ in run.values()], [guess for _, guess in run.values()])
        for group, runs in groups.items()
        for run in runs
    ]


def counted(groups, classes=None, order=None):
    counter = VoteCounter(classes)
    runs = as_runs(groups)
    for at in range(len(runs)) if order is None else order:
        counter.add(*runs[at])
    return counter


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_equal_to_brute_force_on_different_test_sets(data):
    classes = data.draw(st.integers(1, 4))
    pool = data.draw(st.integers(1, 8))
    labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=pool, max_size=pool))
    answers = st.dictionaries(st.integers(0, pool - 1), st.integers(-1, classes - 1), max_size=pool)
    groups = {
        name: [
            {key: (labels[key], guess) for key, guess in run.items()}
            for run in data.draw(st.lists(answers, max_size=5))
        ]
        for name in ("first", "second")
    }
    runs = as_runs(groups)
    found = counted(groups, classes).result("seed")
    sums = [(one, len(runs)) for runs in groups.values() if (one := brute_force(runs))[2]]
    assert found.groups == len(sums)
    assert found.pairs_of_predictions == sum(compared for (_, _, compared), _ in sums)
    assert found.runs == sum(count for _, count in sums)
    if sums:
        assert found.consistency == pytest.approx(np.mean([equal / pairs for (equal, _, pairs), _ in sums]))
        assert found.correct_consistency == pytest.approx(np.mean([right / pairs for (_, right, pairs), _ in sums]))
    else:
        assert math.isnan(found.consistency)
        assert math.isnan(found.correct_consistency)
    order = data.draw(st.permutations(range(len(runs))))
    again = counted(groups, None, order).result("seed")
    assert repr(again) == repr(found)


def test_one_test_set_is_the_mean_over_pairs():
    """Zhou et al., equations 2 and 3, from their definition."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 200)
    runs = [np.where(generator.random(200) < 0.7, labels, generator.integers(0, 3, 200)) for _ in range(7)]
    counter = VoteCounter(3)
    for run in runs:
        counter.add(0, np.arange(200), labels, run)
    pairs = list(itertools.combinations(runs, 2))
    found = counter.result("golden")
    assert found.consistency == pytest.approx(np.mean([np.mean(one == other) for one, other in pairs]))
    both = [np.mean((one == other) & (one == labels)) for one, other in pairs]
    assert found.correct_consistency == pytest.approx(np.mean(both))
    assert (found.group, found.runs, found.groups, found.pairs_of_predictions) == ("golden", 7, 1, 21 * 200)
    # Two runs that differ are both wrong or one is right: CCON is at least the mean accuracy less half of them.
    accuracy = np.mean([np.mean(run == labels) for run in runs])
    assert found.correct_consistency >= accuracy - (1 - found.consistency) / 2 - 1e-12


def test_two_classes_identity():
    """With two classes, CCON = mean accuracy - (1 - CON) / 2 exactly."""
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 2, 100)
    counter, accuracies = VoteCounter(2), []
    for _ in range(5):
        run = generator.integers(0, 2, 100)
        counter.add("all", np.arange(100), labels, run)
        accuracies.append(np.mean(run == labels))
    found = counter.result("seed")
    assert found.correct_consistency == pytest.approx(np.mean(accuracies) - (1 - found.consistency) / 2)


def test_equal_accuracy_hides_disagreement():
    """Two runs of 60 % accuracy that are right together on 20 % of the examples only."""
    labels = np.zeros(5, dtype=int)
    first, second = np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 0])
    for run in (first, second):
        assert classification_metrics(labels, run)["accuracy"] == 0.6
    counter = VoteCounter(2)
    counter.add(0, np.arange(5), labels, first)
    counter.add(0, np.arange(5), labels, second)
    found = counter.result("seed")
    assert (found.consistency, found.correct_consistency) == (0.2, 0.2)


def test_identical_runs():
    labels, guesses = np.array([0, 1, 2, 1]), np.array([0, 1, 1, 1])
    counter = VoteCounter(3)
    for _ in range(4):
        counter.add(0, ["a", "b", "c", "d"], labels, guesses)
    found = counter.result("seed")
    assert (found.consistency, found.correct_consistency) == (1.0, 0.75)


def test_unparsed_never_agrees():
    counter = VoteCounter(2)
    for _ in range(3):
        counter.add(0, [1, 2], [0, 1], [-1, 1])
    found = counter.result("seed")
    assert (found.consistency, found.correct_consistency, found.unparsed_share) == (0.5, 0.5, 0.5)


def test_groups_of_one_run_and_without_common_examples_do_not_count():
    counter = VoteCounter()
    counter.add("alone", [1, 2], [0, 1], [0, 0])
    counter.add("apart", [1], [0], [0])
    counter.add("apart", [2], [1], [1])
    assert math.isnan(counter.result("seed").consistency)
    assert counter.result("seed").metrics() == {}
    counter.add("pair", [1, 2], [0, 1], [0, 0])
    counter.add("pair", [1, 2], [0, 1], [0, 1])
    found = counter.result("seed")
    assert (found.groups, found.runs, found.pairs_of_predictions) == (1, 2, 2)
    assert (found.consistency, found.correct_consistency) == (0.5, 0.5)


def test_nothing_added():
    found = VoteCounter(2).result("seed")
    assert math.isnan(found.consistency)
    assert math.isnan(found.unparsed_share)
    assert (found.runs, found.groups, found.pairs_of_predictions) == (0, 0, 0)


def test_texts_numbers_and_pandas_ids_are_alike():
    import pandas as pd

    results = []
    for ids in ([3, 1, 2], np.array(["c", "a", "b"]), pd.Series(["c", "a", "b"]), np.array(["c", "a", "b"], object)):
        counter = VoteCounter(2)
        counter.add(0, ids, [0, 1, 0], [0, 1, 1])
        counter.add(0, ids[::-1], [0, 1, 0], [1, 0, 0])
        results.append(counter.result("seed"))
    assert all(result == results[0] for result in results)
    assert results[0].consistency == pytest.approx(2 / 3)


def test_the_id_array_may_be_reused_by_the_caller():
    counter, ids = VoteCounter(2), np.array([0, 1])
    counter.add(0, ids, [0, 0], [0, 0])
    ids += 2
    counter.add(0, ids, [1, 1], [0, 0])
    assert counter.result("seed").pairs_of_predictions == 0


def test_closed_group_keeps_its_part_and_takes_no_more():
    counter = VoteCounter(2)
    counter.add(0, [1, 2], [0, 1], [0, 0])
    counter.add(0, [1, 2], [0, 1], [0, 1])
    before = counter.result("seed")
    counter.close(0)
    counter.close("never seen")
    assert counter.result("seed") == before
    with pytest.raises(ValueError, match="closed"):
        counter.add(0, [1, 2], [0, 1], [0, 1])
    assert counter.result("seed") == before


def test_bad_input_is_named_and_not_counted():
    counter = VoteCounter(2)
    counter.add(0, [1, 2], [0, 1], [0, 0])
    with pytest.raises(ParameterError, match=r"example_id=7: must occur once"):
        counter.add(0, [7, 7], [0, 1], [0, 0])
    with pytest.raises(ParameterError, match=r"example_id 2 must have one true class"):
        counter.add(0, [1, 2], [0, 0], [0, 0])
    with pytest.raises(ParameterError, match=r"prediction=2: class numbers must be below 2"):
        counter.add(0, [1, 2], [0, 1], [0, 2])
    with pytest.raises(ValueError, match="differ in shape"):
        counter.add(0, [1, 2, 3], [0, 1], [0, 0])
    with pytest.raises(ValueError, match="whole class numbers"):
        counter.add(0, [1, 2], [0, 1], [0.5, 0.0])
    assert math.isnan(counter.result("seed").consistency)
    with pytest.raises(ValueError, match="classes"):
        VoteCounter(0)


@pytest.mark.parametrize("kind", ["int64", "str"])
def test_fast_and_small_for_a_whole_investigation(kind):
    """400 cells x 1,000 predictions from a pool of 8,500."""
    generator = np.random.default_rng(2)
    labels = generator.integers(0, 2, 8500)
    names = np.arange(8500).astype(kind)
    runs = [generator.permutation(8500)[:1000] for _ in range(400)]
    guesses = [generator.integers(0, 2, 1000) for _ in range(400)]
    start = time.perf_counter()
    counter = VoteCounter(2)
    for at, (places, guess) in enumerate(zip(runs, guesses, strict=True)):
        counter.add(at // 10, names[places], labels[places], guess)
    found = counter.result("seed")
    assert time.perf_counter() - start < 1.0
    assert found.consistency == pytest.approx(0.5, abs=0.01)
    assert found.groups == 40
