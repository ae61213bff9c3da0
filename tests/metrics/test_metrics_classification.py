"""Metrics of one run: scikit-learn's numbers, by hand, bad input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, precision_score, recall_score

from mlflow_l3d.metrics.known import scores_of


def reference(labels, predictions, classes=None):
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if classes is None:
        classes = sorted((set(labels.tolist()) | set(predictions.tolist())) - {-1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        macro = {"labels": classes, "average": "macro", "zero_division": 0}
        return {
            "f1_macro": f1_score(labels, predictions, **macro),
            "precision_macro": precision_score(labels, predictions, **macro),
            "recall_macro": recall_score(labels, predictions, **macro),
            "accuracy": accuracy_score(labels, predictions),
            "matthews_corrcoef": matthews_corrcoef(labels, predictions),
        }


@given(st.sets(st.integers(0, 300), min_size=1, max_size=12), st.booleans(), st.data())
@settings(max_examples=50, deadline=None)
def test_equal_to_scikit_learn_whether_or_not_it_is_said_which_classes_are_told_apart(told_apart, said, data):
    classes = sorted(told_apart)
    pairs = st.tuples(st.sampled_from(classes), st.sampled_from([-1, *classes]))
    drawn = np.array(data.draw(st.lists(pairs, min_size=1, max_size=40)))
    expected = reference(drawn[:, 0], drawn[:, 1], classes if said else None)
    found = scores_of(drawn[:, 0], drawn[:, 1], classes=len(classes) if said else None, only=expected)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("labels", "predictions"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([0, 1, 0, 1], [0, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 1, 0, 1]),
        ([0, 1], [-1, -1]),
        ([0, 1, 2, 2], [0, -1, 2, 2]),
        ([3, 7, 3, 7], [7, 7, 3, 5]),
        ([0, 100_000, 5_000_000], [5_000_000, 100_000, -1]),
    ],
    ids=["one class", "one class predicted", "one class true", "all unparsed", "unparsed", "absent classes", "large"],
)
def test_special_cases_equal_scikit_learn(labels, predictions):
    expected = reference(labels, predictions)
    assert scores_of(labels, predictions, only=expected) == pytest.approx(expected)


def test_a_class_that_does_not_occur_counts_where_it_is_told_apart():
    # class 0: F1 4/5, class 1: F1 2/3; two more of four classes have no example and are never predicted.
    labels, predictions = [0, 0, 1, 1], [0, 0, 1, 0]
    assert scores_of(labels, predictions)["f1_macro"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert scores_of(labels, predictions, classes=4)["f1_macro"] == pytest.approx((4 / 5 + 2 / 3) / 4)
    assert scores_of(labels, predictions, classes=1) == scores_of(labels, predictions)  # fewer than occur are not


@given(st.integers(1, 5), st.data())
@settings(max_examples=60, deadline=None)
def test_the_published_f1_is_that_of_scikit_learn_without_labels(classes, data):
    pairs = st.tuples(st.integers(0, classes - 1), st.integers(-1, classes - 1))
    labels, predictions = np.array(data.draw(st.lists(pairs, min_size=1, max_size=30))).T
    expected = f1_score(labels, predictions, average="macro", zero_division=0)
    found = scores_of(labels, predictions, classes=7, only=["f1_macro_published"])
    assert found["f1_macro_published"] == pytest.approx(expected)


def test_one_answer_in_a_thousand_that_names_no_class_costs_a_third_of_the_published_f1():
    labels = np.arange(1000) % 2
    predictions = np.where(np.arange(1000) < 90, 1 - labels, labels)
    predictions[999] = -1
    found = scores_of(labels, predictions, classes=2, own=["f1_macro_published"])
    assert found["f1_macro"] == pytest.approx(0.9095, abs=1e-4)
    assert found["f1_macro_published"] == pytest.approx(0.6063, abs=1e-4)


def test_other_whole_types_are_accepted():
    expected = scores_of([0, 1, 1], [0, 1, 0])
    assert scores_of(np.array([False, True, True]), np.array([0.0, 1.0, 0.0])) == expected
    assert scores_of(np.array([0, 1, 1], np.uint8), np.array([0, 1, 0], np.int8)) == expected


@pytest.mark.parametrize(
    ("labels", "predictions", "match"),
    [
        ([], [], "at least one"),
        ([0, 1], [0], "equally many"),
        ([-1, 0], [0, 0], "labels must be 0 or above"),
        ([0, 1], [-2, 0], "predictions must be -1 or above"),
        ([0, 1], [0.5, 1.0], "whole class numbers"),
        ([0, 1], [np.nan, 1.0], "whole class numbers"),
        (["a", "b"], ["a", "b"], "whole class numbers"),
        ([[0, 1]], [[0, 1]], "one axis"),
    ],
)
def test_bad_input(labels, predictions, match):
    with pytest.raises(ValueError, match=match):
        scores_of(labels, predictions)
