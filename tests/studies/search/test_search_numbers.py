"""The numbers of a search."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from search_examples import BEST, DEFAULT, held_out, result

from mlflow_l3d.approaches.hyperparameters import Hyperparameter, SearchChoices, SearchRange
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import value_text
from mlflow_l3d.studies.search.numbers import edge_notes, range_text
from mlflow_l3d.studies.search.report import headline
from mlflow_l3d.studies.search.trials import FinishedTrial, trials_table

RESULT = result()


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    found, default = [0.82, 0.85, 0.80, 0.84], [0.80, 0.81, 0.82, 0.80]
    held = held_out(found, default)
    interval = stats.ttest_rel(found, default).confidence_interval(0.95)
    assert held.difference == pytest.approx(np.mean(found) - np.mean(default))
    assert (held.ci_low, held.ci_high) == pytest.approx((interval.low, interval.high))
    assert (held.found, held.configurations, held.missing) == (tuple(found), 4, 0)


def test_pairs_without_a_score_are_left_out_and_one_pair_has_no_interval() -> None:
    held = held_out([0.8, math.nan, 0.9, 0.7], [0.7, 0.1, 0.8, math.inf])
    assert (held.missing, held.found) == (2, (0.8, 0.9))
    assert held.difference == pytest.approx(0.1)
    one = held_out([0.8], [0.7])
    assert one.difference == pytest.approx(0.1)
    assert math.isnan(one.ci_low)
    assert math.isnan(one.ci_high)
    assert math.isnan(held_out([], []).difference)
    same = held_out([0.7, 0.8], [0.7, 0.8])
    assert same.ci_low < same.difference == 0 < same.ci_high


def test_the_table_and_what_is_counted_in_it() -> None:
    trials = [
        FinishedTrial(0, {}, BEST, "k0", "complete", 0.8, "taken over"),
        FinishedTrial(1, {"learning_rate": 2e-5}, DEFAULT, "k1", "complete", 0.75),
        FinishedTrial(2, {"learning_rate": 1e-5}, {**DEFAULT, "learning_rate": 1e-5}, "k2", "pruned", 0.6),
        FinishedTrial(3, {"learning_rate": 5e-5}, error="no"),
    ]
    runs = {"k0": "", "k1": "abc", "k2": ""}
    more: Any = {"default": DEFAULT, "run_of": runs.get, "metrics": {}}
    table = trials_table({"coarse": trials}, ["learning_rate", "dropout"], **more)
    assert list(table.columns[-2:]) == ["learning_rate", "dropout"]
    assert list(table["learning_rate"]) == [9.5e-4, 2e-5, 1e-5, 5e-5]
    assert list(table["is_default"]) == [False, True, False, False]
    assert list(table["run_id"]) == ["", "abc", "", ""]
    assert math.isnan(table["score"][3])
    found = replace(RESULT, trials=table, stages={"coarse": {}})
    numbers = found.metrics()
    assert [numbers[f"trials_{state}"] for state in ("complete", "pruned", "failed")] == [1, 1, 1]
    assert (len(found.ended), found.best_score) == (3, 0.8)
    assert replace(found, metric=named("f1_macro:lower")).best_score == 0.75
    assert math.isnan(replace(found, trials=table[2:]).best_score)
    assert replace(RESULT, trials=table).default_score == 0.75
    assert math.isnan(replace(RESULT, trials=table[2:]).default_score)


def test_texts_of_values_and_ranges() -> None:
    assert value_text(0.000123456) == "0.0001235"
    assert value_text(True) == "True"
    assert range_text(SearchChoices((4, 8, "auto"))) == "4, 8, auto"
    assert range_text(SearchRange(1, 16, whole=True)) == "1 to 16"
    assert range_text(SearchRange(1e-5, 1e-2, log=True)) == "1e-05 to 0.01, log scale"


def answer_tables(labels: Any, predictions: Any, tests: Any) -> list[pd.DataFrame]:
    return [pd.DataFrame({"example_id": x, "label": labels[x], "prediction": predictions[x]}) for x in tests]


@pytest.mark.slow
def test_examples_that_chose_the_setting_are_left_out_and_the_interval_counts_examples() -> None:
    """No setting is better than another; each answers an example the same way in every configuration."""
    gains, excluded, metric = [], 0, named("accuracy")
    for number in range(60):
        rng = np.random.default_rng(number)
        labels, answers = rng.integers(0, 2, 300), rng.integers(0, 2, (40, 300))
        chose = rng.permutation(300)[:48]
        best = int((answers[1:, chose] == labels[chose]).mean(axis=1).argmax()) + 1
        tests = [np.sort(rng.permutation(300)[:60]) for _ in range(10)]
        scores = [[(answers[each][x] == labels[x]).mean() for x in tests] for each in (best, 0)]
        sides = [answer_tables(labels, answers[each], tests) for each in (best, 0)]
        held = held_out(*scores, sides, metric=metric, classes=2, searched=chose, overlap=0.16)
        assert held.is_unseen
        kept = [np.setdiff1d(x, chose) for x in tests]
        assert held.found == pytest.approx([(answers[best][x] == labels[x]).mean() for x in kept])
        gains.append(held.difference)
        excluded += held.ci_low > 0 or held.ci_high < 0
    assert abs(np.mean(gains)) < 3 * np.std(gains) / np.sqrt(60)
    assert excluded <= 7  # P(more | 5 % each) < 0.02


def test_without_predictions_the_share_of_examples_that_chose_is_kept() -> None:
    tables = answer_tables(np.zeros(4, int), np.ones(4, int), [np.arange(4)] * 2)
    held = held_out([0.8, 0.9], [0.7, 0.7], [tables, [tables[0], None]], metric=named("accuracy"), overlap=0.2)
    assert (held.is_unseen, held.overlap, held.found) == (False, 0.2, (0.8, 0.9))
    few = held_out([0.8, 0.9], [0.7, 0.7], [tables] * 2, metric=named("accuracy"), searched=[0, 1, 2])
    assert not few.is_unseen
    assert headline(replace(RESULT, held_out=held)) == (
        "Undecided: a gain of 15.0 points with 2 new seeds may be luck; 20 % of the test examples chose it."
    )


@pytest.mark.parametrize("failed", [2, 9, 10])
def test_a_setting_whose_runs_fail_is_not_called_better(failed: int) -> None:
    """What fails is rarely any run: here those of which the found setting is worse."""
    default, found = np.full(10, 0.6), np.linspace(0.55, 0.65, 10)
    found[:failed] = math.nan
    held = held_out(found, default)
    assert f"No verdict: runs failed with {failed} of 10 new seeds." in headline(replace(RESULT, held_out=held))
    found[1:failed] = 0.62
    assert "No verdict" not in headline(replace(RESULT, held_out=held_out(found, default)))


def test_equal_gains_on_few_configurations_have_an_error() -> None:
    """Of nine configurations in ten the gain is 1 point, of the tenth a loss of 9: four do not show it in 66 %."""
    held = held_out([0.61, 0.62, 0.59, 0.6], [0.6, 0.61, 0.58, 0.59])
    assert held.ci_low < 0 < held.difference < held.ci_high


@pytest.mark.parametrize(
    ("searched", "value", "text"),
    [
        (
            SearchRange(1e-5, 1e-2, log=True),
            8e-3,
            "upper end of what was searched (1e-05 to 0.01, log scale): search h",
        ),
        (
            SearchRange(1e-5, 1e-2, log=True),
            1.2e-5,
            "lower end of what was searched (1e-05 to 0.01, log scale): search l",
        ),
        (SearchRange(1e-5, 1e-2, log=True), 1e-4, ""),
        (SearchRange(0.1, 0.5), 0.6, ""),
        (SearchRange(0.1, 1.0), 0.1, "lower end"),
        (SearchRange(0.1, 1.0), 1.0, ""),
        (SearchRange(0.0, 1.0), 0.0, ""),
        (SearchRange(2, 64, log=True, whole=True), 2, "lower end of what was searched (2 to 64, log scale)"),
        (SearchRange(1234, 1300, whole=True), 1300, ""),
        (SearchRange(1, 9, whole=True), 1, ""),
        (SearchChoices((1, 2)), 2, ""),
    ],
)
def test_a_value_at_an_end_that_is_no_limit_is_named(searched, value, text):
    limits = (1, 1300) if isinstance(value, int) else (0.0, 1.0)
    notes = [*edge_notes({"x": value}, {"x": searched}, {"x": Hyperparameter(type(value)(2), "x", *limits)})]
    assert len(notes) == bool(text)
    assert all(note.startswith(f"x = {value_text(value)} lies at the {text}") for note in notes)
