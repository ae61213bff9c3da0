"""Systems from predictions, and which of their runs share configurations."""

import numpy as np
import pytest
from comparison_cases import scored

from mlflow_l3d.analysis.comparison import compare_systems
from mlflow_l3d.analysis.comparison.difference import spread
from mlflow_l3d.analysis.comparison.predictions import Predictions, systems
from mlflow_l3d.analysis.comparison.system import System, mean_scores, paired
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named


def table(runs, ids, labels, guesses):
    return Predictions(*(np.asarray(part) for part in (runs, ids, labels, guesses)))


def test_units_are_numbered_alike_and_cells_sorted():
    one = table([0, 0, 1, 1], ["x", "y", "y", "x"], [1, 0, 0, 1], [1, 0, 1, 1])
    other = table([0, 0], ["z", "y"], [1, 0], [1, 1])
    scores = [np.array([1.0, 0.5]), np.array([0.5])]
    (first, second), why = systems(["A", "B"], scores, [{}, {}], [one, other], named("accuracy"))
    assert why == ""
    assert first.unit.tolist() == [0, 1, 0, 1]
    assert first.right.tolist() == [True, True, True, False]
    assert second.unit.tolist() == [1, 2]
    assert first.units == second.units == 3
    assert first.share == pytest.approx([0, 0, 0.25, -0.25])


def test_why_test_examples_are_not_counted():
    guesses = [table([0, 0], [1, 2], [0, 1], [0, 0])] * 2
    for predictions, metric, score, why in (
        ([], "accuracy", 0.5, "not every run has predictions"),
        (guesses, "reward", 0.5, "runs report reward as a number; name a metric of their predictions to count it"),
        (guesses, "accuracy", 0.6, "the recorded accuracy is not that of the recorded predictions"),
    ):
        found, said = systems(["A", "B"], [np.array([score])] * 2, [{}, {}], predictions, named(metric))
        assert said == why
        assert [each.units for each in found] == [0, 0]


def test_an_example_with_two_labels_is_another_test_set():
    tables = [table([0, 0], [1, 2], [0, label], [0, 0]) for label in (0, 1)]
    with pytest.raises(ParameterError, match="runs=A, B: test example 2 has the labels 0 and 1"):
        systems(["A", "B"], [np.array([1.0])] * 2, [{}, {}], tables, named("accuracy"))


@pytest.mark.parametrize("scale", [1e-90, 1e-200, 1e90, 1e200])
def test_scores_without_squares_are_refused(scale):
    """They ended in a division by zero, or in an overflow."""
    with pytest.raises(ParameterError, match=f"of about {scale:.0e} .*1e-50 to 1e.50 .*unit".replace("e+", "e.")):
        systems(["A", "B"], [np.arange(3), np.full(3, scale)], [{}, {}], [None, None], Metric("loss", percent=False))


def test_systems_without_a_common_test_example_are_independent(rng):
    """Both test sets are luck: the variance of the difference is that of either mean alone, added."""
    right = [rng.random((4, 30)) < 0.7, rng.random((5, 20)) < 0.7]
    tables, scores = [], []
    for first, each in zip((0, 100), right, strict=True):
        run, example = np.divmod(np.arange(each.size), each.shape[1])
        tables.append(Predictions(run, first + example, np.zeros(each.size, dtype=int), (~each).ravel().astype(int)))
        scores.append(each.mean(axis=1))
    compared, why = systems(["A", "B"], scores, [{}, {}], tables, named("accuracy"))
    means = mean_scores(compared)
    found = spread(means, 0, 1)
    assert not why
    assert [each.examples for each in compared] == [30, 20]
    assert found.examples == 50
    assert means.of_examples[0, 1] == 0
    for at, each in enumerate(right):
        rows, cells = each.mean(axis=1), each - each.mean(axis=0) - each.mean(axis=1, keepdims=True) + each.mean()
        rest = (cells**2).sum() / ((len(each) - 1) * (each.shape[1] - 1))
        examples = each.mean(axis=0).var(ddof=1) * len(each)
        assert means.of_runs[at, at] == pytest.approx(rows.var(ddof=1) / len(each))
        assert means.of_examples[at, at] == pytest.approx((examples - rest) / each.size)


def test_groups_of_examples_are_counted_as_examples():
    random, runs, places = np.random.default_rng(0), np.repeat([0, 1, 2], 100), np.tile(np.arange(100), 3)
    tables = [table(runs, at + places, 1.0 * at + places, places + random.normal(0, 9, 300)) for at in (0, 30)]
    pearson, parts = named("pearson").function, [(each.label[:100], each.prediction.reshape(3, 100)) for each in tables]
    scores = [np.array([pearson(labels, of_run) for of_run in predictions]) for labels, predictions in parts]
    both, why = systems(["A", "B"], scores, [{}, {}], tables, named("pearson"))
    one = compare_systems({"t": both}, named("pearson")).differences[0]
    assert (why, one.spread.examples, one.shared_examples) == ("", 130, 70)


def test_runs_are_paired_by_the_factors_that_both_vary_alike():
    split, order = [1, 2, 3, 4], [11, 12, 13, 14]
    one = System("A", np.arange(4.0), {"data_split": np.array(split), "data_order": np.array(order)})
    other = System("B", np.arange(3.0), {"data_split": np.array([4, 2, 9]), "sample_choice": np.array([4, 2, 9])})
    pairing = paired(one, other)
    assert pairing.first.tolist() == [1, 3]
    assert pairing.second.tolist() == [1, 0]
    assert pairing.factors == ("data_split",)


def test_other_seeds_and_other_factors_pair_nothing():
    one, other = scored(range(3), [1, 2, 3]), scored(range(3), [4, 5, 6])
    assert paired(one, other).factors == ()
    assert len(paired(one, scored(range(3))).first) == 0
    assert mean_scores([one, other]).of_runs[0, 1] == 0


def test_chosen_runs_keep_their_cells():
    cells = [0, 0, 1, 2], [0, 1, 1, 0], [0.1, 0.2, 0.3, 0.4], [True, False, True, True]
    one = System("A", np.array([1.0, 2.0, 3.0]), {"data_order": np.array([7, 8, 9])}, *map(np.array, cells), units=2)
    part = one.chosen(np.array([2, 0]))
    assert (part.scores.tolist(), part.configurations["data_order"].tolist()) == ([3, 1], [9, 7])
    found = [values.tolist() for values in (part.run, part.unit, part.share, part.right)]
    assert found == [[0, 1, 1], [0, 0, 1], [0.4, 0.1, 0.2], [True, True, False]]


def test_copies_of_a_run_count_once():
    """Three copies of each run, averaged, are the run: of its own luck, and of that of the test examples."""
    draw, name = np.random.default_rng(0), named("accuracy")
    labels, guesses = np.tile(np.arange(30) % 2, 4), draw.integers(0, 2, 120)
    single, copies = [], []
    for times, found in ((1, single), (3, copies)):
        rows = np.concatenate([np.flatnonzero(np.repeat(range(4), 30) == run) for run in np.repeat(range(4), times)])
        runs = np.repeat(np.arange(4 * times), 30)
        scores = np.array([(labels[rows] == guesses[rows])[runs == run].mean() for run in range(4 * times)])
        seeds = {"seed": np.arange(4 * times)}
        answers = table(runs, rows % 30, labels[rows], guesses[rows])
        found += systems(["A"], [scores], [seeds], [answers], name)[0]
    (one,), (many,) = single, copies
    again = many.averaged(np.repeat(range(4), 3))
    assert one.averaged(np.arange(4)) is one
    assert again.configurations["seed"].tolist() == [0, 3, 6, 9]
    assert (again.run.tolist(), again.unit.tolist()) == (one.run.tolist(), one.unit.tolist())
    assert again.share == pytest.approx(one.share)
    expected, means = mean_scores([one]), mean_scores([again])
    assert (means.means, means.of_runs) == (pytest.approx(expected.means), pytest.approx(expected.of_runs))
    assert means.of_examples == pytest.approx(expected.of_examples)
    assert mean_scores([many]).of_runs[0, 0] < 0.5 * expected.of_runs[0, 0]
