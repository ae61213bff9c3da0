"""Agreement of predictions: brute force over pairs, different test sets, order, memory, bad input."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from analysis_oracle import VoteCounter, consistency_matrixwise
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as kappa_of_statsmodels

from mlflow_l3d.analysis.consistency import Comparable
from mlflow_l3d.analysis.consistency.results import population_std
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
    assert (found.groups, found.runs, found.pairs_of_predictions) == (1, 4, 2)
    assert (found.consistency, found.correct_consistency) == (0.5, 0.5)
    assert found.common_examples == 1  # of two pairs of runs, one shares both examples and the other none


def test_nothing_added():
    found = VoteCounter().result("seed")
    assert math.isnan(found.consistency)
    assert math.isnan(found.unparsed_share)
    assert (found.runs, found.groups, found.pairs_of_predictions) == (0, 0, 0)


def test_texts_numbers_and_pandas_ids_are_alike():
    results = []
    for ids in ([3, 1, 2], np.array(["c", "a", "b"]), pd.Series(["c", "a", "b"]), np.array(["c", "a", "b"], object)):
        counter = VoteCounter()
        counter.add(0, ids, [0, 1, 0], [0, 1, 1])
        counter.add(0, ids[::-1], [0, 1, 0], [1, 0, 0])
        results.append(counter.result("seed"))
    assert all(result == results[0] for result in results)
    assert results[0].consistency == pytest.approx(2 / 3)


def test_the_id_array_may_be_reused_by_the_caller():
    counter, ids = VoteCounter(), np.array([0, 1])
    counter.add(0, ids, [0, 0], [0, 0])
    ids += 2
    counter.add(0, ids, [1, 1], [0, 0])
    assert counter.result("seed").pairs_of_predictions == 0


def test_closed_group_keeps_its_part_and_takes_no_more():
    counter = VoteCounter()
    counter.add(0, [1, 2], [0, 1], [0, 0])
    counter.add(0, [1, 2], [0, 1], [0, 1])
    before = counter.result("seed")
    counter.close(0)
    assert counter.result("seed") == before
    with pytest.raises(ValueError, match="closed"):
        counter.add(0, [1, 2], [0, 1], [0, 1])
    assert counter.result("seed") == before


def test_bad_input_is_named_and_not_counted():
    counter = VoteCounter()
    counter.add(0, [1, 2], [0, 1], [0, 0])
    with pytest.raises(ParameterError, match=r"example_id=7: must occur once"):
        counter.add(0, [7, 7], [0, 1], [0, 0])
    with pytest.raises(ParameterError, match=r"example_id 2 must have one true class"):
        counter.add(0, [1, 2], [0, 0], [0, 0])
    with pytest.raises(ValueError, match="must be class numbers"):
        counter.add(0, [1, 2], [0, 1], [0.5, 0.0])
    assert math.isnan(counter.result("seed").consistency)


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(1, 9), st.integers(1, 4), st.integers(-1, 0))
@settings(max_examples=60, deadline=None)
def test_one_test_set_is_that_of_the_matrix(seed, runs, examples, classes, lowest):
    rng = np.random.default_rng(seed)
    predictions, labels = rng.integers(lowest, classes, (runs, examples)), rng.integers(0, classes, examples)
    counter = VoteCounter()
    for run in predictions:
        counter.add("all", np.arange(examples), labels, run)
    found, wanted = counter.result("golden"), consistency_matrixwise(predictions, labels)
    per_run = counter.per_run()["all"]
    assert per_run.run_agreement == pytest.approx(wanted.per_run)
    left = [consistency_matrixwise(np.delete(predictions, run, axis=0), labels).consistency for run in range(runs)]
    assert per_run.without_run == pytest.approx(left, nan_ok=True)
    assert found.fleiss_kappa == pytest.approx(wanted.fleiss_kappa, nan_ok=True)
    if lowest == 0 and len(np.unique(predictions)) > 1:
        assert found.fleiss_kappa == pytest.approx(kappa_of_statsmodels(aggregate_raters(predictions.T)[0]))
    accuracies = (predictions == labels).mean(axis=1)
    assert found.accuracy_std == pytest.approx(accuracies.std(ddof=1))
    if examples > 1:
        population = population_std(accuracies, found.correct_consistency, examples)
        assert found.accuracy_std_population == pytest.approx(population, abs=1e-7)
    else:
        assert math.isnan(found.accuracy_std_population)
    assert found.common_examples == examples
    counter.close("all")
    assert repr(counter.result("golden")) == repr(found)
    np.testing.assert_array_equal(counter.per_run()["all"].without_run, per_run.without_run)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_runs_of_different_test_sets_by_brute_force(data):
    answers = st.dictionaries(st.integers(0, 6), st.integers(-1, 2), max_size=7)
    runs = [{key: (key % 3, guess) for key, guess in run.items()} for run in data.draw(st.lists(answers, max_size=5))]
    counter = VoteCounter()
    for run in runs:
        counter.add("all", list(run), [label for label, _ in run.values()], [guess for _, guess in run.values()])
    if not runs:
        assert counter.per_run() == {}
        return
    found = counter.per_run()["all"]
    for at, run in enumerate(runs):
        others = runs[:at] + runs[at + 1 :]
        sums = np.sum([brute_force((run, other)) for other in others] or [(0, 0, 0)], axis=0)
        expected = sums[0] / sums[2] if sums[2] else math.nan
        assert found.run_agreement[at] == pytest.approx(expected, nan_ok=True)
        equal, _, compared = brute_force(others)
        assert found.without_run[at] == pytest.approx(equal / compared if compared else math.nan, nan_ok=True)
    record = counter.result("seed")
    pairs = len(runs) * (len(runs) - 1) / 2
    if record.pairs_of_predictions:
        assert record.common_examples == pytest.approx(brute_force(runs)[2] / pairs)
    else:
        assert math.isnan(record.common_examples)
    if len({frozenset(run) for run in runs}) > 1:
        assert math.isnan(record.accuracy_std)
        assert math.isnan(record.accuracy_std_population)
    elif record.pairs_of_predictions:
        accuracies = [np.mean([guess == label for label, guess in run.values()]) for run in runs]
        assert record.accuracy_std == pytest.approx(np.std(accuracies, ddof=1))


def test_mean_over_groups_of_kappa_and_of_variances():
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 2, 50)
    groups = [rng.integers(0, 2, (3, 50)), np.where(rng.random((3, 50)) < 0.9, labels, 0), np.zeros((3, 50), int)]
    counter = VoteCounter()
    for name, runs in enumerate(groups):
        for run in runs:
            counter.add(name, np.arange(50), labels, run)
        counter.close(name)
    counter.add("a run alone", [3, 77], [labels[3], 0], [0, 0])
    found, parts = counter.result("seed"), counter.per_group()
    assert math.isnan(parts[2].fleiss_kappa), "one class"
    assert found.fleiss_kappa == pytest.approx((parts[0].fleiss_kappa + parts[1].fleiss_kappa) / 2)
    accuracies = [(runs == labels).mean(axis=1) for runs in groups]
    variances = [values.var(ddof=1) for values in accuracies]
    assert found.accuracy_std == pytest.approx(math.sqrt(np.mean(variances)))
    terms = []
    for runs, variance in zip(groups, variances, strict=True):
        mean = (runs == labels).mean()
        terms.append((50 * variance - (mean - consistency_matrixwise(runs, labels).correct_consistency)) / 49)
    assert found.accuracy_std_population == pytest.approx(math.sqrt(max(0.0, np.mean(terms))))
    assert parts[0].accuracy_std == pytest.approx(math.sqrt(variances[0]))
    counter.add("apart", [1, 2], [labels[1], labels[2]], [0, 0])
    counter.add("apart", [2, 3], [labels[2], labels[3]], [0, 0])
    assert math.isnan(counter.result("seed").accuracy_std), "a group that is compared has different test sets"


def test_runs_of_one_quality_have_no_spread_but_that_of_the_test_set():
    """Bernoulli models: each example is right with the same probability, whatever the run."""
    rng = np.random.default_rng(9)
    labels = np.zeros(100, dtype=int)
    counter = VoteCounter()
    for group in range(400):
        for run in (rng.random((5, 100)) > 0.7).astype(int):
            counter.add(group, np.arange(100), labels, run)
    found = counter.result("seed")
    assert found.accuracy_std == pytest.approx(math.sqrt(0.21 / 100), rel=0.05)
    assert found.accuracy_std_population < 0.2 * found.accuracy_std
    # Models whose quality differs by a standard deviation of 0.1 / sqrt(3) keep that, whatever the test set.
    better = VoteCounter()
    for group in range(400):
        for chance in rng.uniform(0.6, 0.8, 5):
            better.add(group, np.arange(100), labels, (rng.random(100) > chance).astype(int))
    assert better.result("seed").accuracy_std_population == pytest.approx(0.1 / math.sqrt(3), rel=0.05)


def test_closing_releases_votes_and_runs():
    import tracemalloc

    rng = np.random.default_rng(10)
    labels = rng.integers(0, 2, 2000)
    runs = rng.integers(0, 2, (10, 2000))
    counter = VoteCounter()
    counter.add("first", np.arange(2000), labels, runs[0])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for group in range(50):
        for run in runs:
            counter.add(group, np.arange(2000), labels, run)
        counter.close(group)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 50 * 4000, "each group held 44 KB while it was open"


def test_large_class_numbers_and_permuted_runs():
    labels = np.array([0, 40000, 200])
    counter = VoteCounter()
    counter.add("all", [1, 2, 3], labels, [0, 40000, 7])
    counter.add("all", [3, 2, 1], labels[::-1], [7, 300, 0])
    counter.add("all", [1, 2, 3], labels, [0, 40000, -1])
    np.testing.assert_allclose(counter.per_run()["all"].run_agreement, [4 / 6, 3 / 6, 3 / 6])
    assert counter.result("seed").accuracy_std == pytest.approx(np.std([2 / 3, 1 / 3, 2 / 3], ddof=1))


def test_a_design_that_compares_runs_in_an_unknown_way_is_refused():
    with pytest.raises(
        ParameterError, match=r"compares='row': must be one of levels, pairs, rows, tables. Did you mean"
    ):
        Comparable(["data_order"], "row")
