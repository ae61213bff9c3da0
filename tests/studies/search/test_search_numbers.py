"""The numbers and sentences of a search, and its summary in the terminal."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from search_examples import BEST, DEFAULT, coarse, fine, result

from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange
from mlflow_l3d.report.numbers import value_text
from mlflow_l3d.studies.search.numbers import compare_held_out, range_text, summarise_stage
from mlflow_l3d.studies.search.report.page import (
    bias_sentence,
    held_out_sentence,
    search_answers,
    search_report,
    validation_sentence,
)
from mlflow_l3d.studies.search.trials import FinishedTrial, trials_table

RESULT = result()


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    found, default = [0.82, 0.85, 0.80, 0.84], [0.80, 0.81, 0.82, 0.80]
    held = compare_held_out(found, default)
    interval = stats.ttest_rel(found, default).confidence_interval(0.95)
    assert held.difference == pytest.approx(np.mean(found) - np.mean(default))
    assert (held.ci_low, held.ci_high) == pytest.approx((interval.low, interval.high))
    assert (held.found, held.configurations, held.missing) == (tuple(found), 4, 0)


def test_pairs_without_a_score_are_left_out_and_one_pair_has_no_interval() -> None:
    held = compare_held_out([0.8, math.nan, 0.9, 0.7], [0.7, 0.1, 0.8, math.inf])
    assert (held.missing, held.found) == (2, (0.8, 0.9))
    assert held.difference == pytest.approx(0.1)
    one = compare_held_out([0.8], [0.7])
    assert one.difference == pytest.approx(0.1)
    assert math.isnan(one.ci_low)
    assert math.isnan(one.ci_high)
    assert math.isnan(compare_held_out([], []).difference)
    same = compare_held_out([0.7, 0.8], [0.7, 0.8])
    assert (same.difference, same.ci_low, same.ci_high) == (0, 0, 0)


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
    stage = summarise_stage("coarse", "tpe", {}, table)
    assert (stage.trials, stage.complete, stage.pruned, stage.failed, stage.best_score) == (3, 1, 1, 1, 0.8)
    assert summarise_stage("coarse", "tpe", {}, table, sign=-1).best_score == 0.75
    assert math.isnan(summarise_stage("coarse", "tpe", {}, table[2:]).best_score)
    assert replace(RESULT, trials=table).default_score == 0.75
    assert math.isnan(replace(RESULT, trials=table[2:]).default_score)


def test_texts_of_values_and_ranges() -> None:
    assert value_text(0.000123456) == "0.0001235"
    assert value_text(True) == "True"
    assert range_text(SearchChoices((4, 8, "auto"))) == "4, 8, auto"
    assert range_text(SearchRange(1, 16, whole=True)) == "1 to 16"
    assert range_text(SearchRange(1e-5, 1e-2, log=True)) == "1e-05 to 0.01, log scale"


def test_what_is_printed() -> None:
    held = compare_held_out([0.80, 0.83, 0.81], [0.80, 0.81, 0.82])
    text = search_report(
        replace(RESULT, held_out=held, run_id="b" * 32, notes=("one note",)), lines=["runs at http://h"]
    ).to_text()
    lines = text.splitlines()
    assert lines[:3] == [RESULT.title, "=" * len(RESULT.title), "runs at http://h"]
    assert "level 1: coarse  grid         25        22       2       1       80.00" in text
    assert "level 2: fine    tpe           5         5       0       0       80.00" in text
    assert any(line.split()[:3] == ["learning_rate", "2e-05", "0.00095"] for line in lines)
    words = " ".join(text.split())
    assert "The best of 30 trials looks better on the examples that chose it than it is." in words
    assert "The interval holds 0: whether the found setting is better is not certain." in words
    assert "learning_rate 91 %, layers 3 %, batch_size <1 %" in words
    assert "note: one note" in words
    assert lines[-1] == f"Use it: -P hyperparameters={'b' * 32}"
    assert text.isascii()


@settings(max_examples=40)
@given(
    st.text(max_size=200),
    st.text("ab_", min_size=1, max_size=90),
    st.one_of(st.text(max_size=300), st.floats(), st.booleans()),
    st.floats(0, 1) | st.just(math.nan),
)
def test_lines_are_never_too_long(title: str, name: str, value: Any, score: float) -> None:
    ranges = {name: SearchChoices(("x" * 70,))}
    stages = tuple(replace(stage, ranges=ranges, best_score=score) for stage in RESULT.stages)
    named = {"title": title, "best": {name: value}, "importances": {name: 0.5}, "notes": (title,)}
    table = RESULT.trials.assign(**{name: 1})
    text = search_report(replace(RESULT, stages=stages, trials=table, **named), lines=["short"]).to_text()
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("\n")


@pytest.mark.parametrize(
    ("found", "default", "words", "short"),
    [
        ([0.8, 0.81], [0.70, 0.7101], "The found setting is better than the default.", "+10.00"),
        ([0.70, 0.7101], [0.8, 0.81], "The default is better", "-10.00"),
        ([0.7, 0.9], [0.8, 0.75], "is not certain", "+2.50, unsure"),
        ([0.7, 0.8], [0.7, 0.8], "The two are the same.", "+0.00"),
        ([0.8], [0.7], "One configuration gives no interval", "+10.00, unsure"),
        ([0.8, math.nan], [0.7, 0.7], "1 pair without a score left out", "+10.00, unsure"),
        ([math.nan], [0.7], "nobody knows", "not tried"),
        (None, None, "nobody knows", "not tried"),
    ],
)
def test_held_out_in_words(found: Any, default: Any, words: str, short: str) -> None:
    compared = replace(RESULT, held_out=compare_held_out(found, default) if found is not None else None)
    assert words in held_out_sentence(compared)
    assert search_answers(compared)[1].short == short


def test_the_default_that_stays_several_configurations_and_no_score_of_the_default() -> None:
    kept = result({"coarse": coarse()[:1]}, best=DEFAULT)
    assert "no trial beat the default, whose f1_macro is 74.23" in validation_sentence(kept)
    assert "nothing to compare" in held_out_sentence(kept)
    assert "looks better" not in bias_sentence(kept)
    several = result({"coarse": coarse(failed=(0,)), "fine": fine()}, configurations=3)
    sentence = validation_sentence(several)
    assert "On 200 validation examples of each of 3 configurations f1_macro is 80.00" in sentence
    assert "the default has no score" in sentence
