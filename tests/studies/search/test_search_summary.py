import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_examples import DEFAULT, coarse, fine, result

from mlflow_l3d.analysis.search import held_out
from mlflow_l3d.report.numbers import duration
from mlflow_l3d.report.search.page import summary
from mlflow_l3d.report.search.words import (
    bias_sentence,
    held_out_sentence,
    search_answers,
    validation_sentence,
)

FOUND = result({"coarse": coarse(), "fine": fine()})


def test_what_is_printed():
    held = held_out([0.80, 0.83, 0.81], [0.80, 0.81, 0.82])
    text = summary(replace(FOUND, held_out=held, run_id="b" * 32, notes=("one note",)), lines=["runs at http://h"])
    lines = text.splitlines()
    assert lines[0] == FOUND.title
    assert lines[1] == "=" * len(FOUND.title)
    assert lines[2] == "runs at http://h"
    assert "level 1: coarse  grid         25        22       2       1       80.00" in text
    assert "level 2: fine    tpe           5         5       0       0       80.00" in text
    assert any(line.split()[:3] == ["learning_rate", "2e-05", "0.00095"] for line in lines)
    words = " ".join(text.split())
    assert "The best of 30 trials looks better on the examples that chose it than it is." in words
    assert "The interval holds 0: whether the found setting is better is not certain." in words
    assert "learning_rate 91 %, layers 3 %, batch_size <1 %" in words
    assert "note: one note" in words
    assert lines[-1] == f"Use it: -P hyperparameters={'b' * 32}"


@given(
    st.text(max_size=200),
    st.text("ab_", min_size=1, max_size=90),
    st.one_of(st.text(max_size=300), st.floats(), st.booleans()),
    st.floats(0, 1) | st.just(math.nan),
)
def test_lines_are_never_too_long(title, name, value, score):
    ranges = {name: "x" * 70}
    found = replace(
        FOUND,
        title=title,
        stages=tuple(replace(stage, ranges=ranges, best_score=score) for stage in FOUND.stages),
        best={name: value},
        best_score=score,
        importances={name: 0.5},
        notes=(title,),
    )
    text = summary(found, lines=["short"])
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("\n")


def test_it_is_ascii_where_the_names_are():
    assert summary(replace(FOUND, held_out=held_out([0.1, 0.2], [0.2, 0.4]))).isascii()


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
def test_held_out_in_words(found, default, words, short):
    held = held_out(found, default) if found is not None else None
    given_result = replace(FOUND, held_out=held)
    assert words in held_out_sentence(given_result)
    assert search_answers(given_result)[1].short == short


def test_the_default_that_stays():
    kept = replace(FOUND, best=DEFAULT, best_score=0.742)
    assert "no trial beat the default, whose f1_macro is 74.20" in validation_sentence(kept)
    assert "nothing to compare" in held_out_sentence(kept)
    assert "looks better" not in bias_sentence(kept)


def test_several_configurations_and_no_score_of_the_default():
    several = replace(FOUND, configurations=3, default_score=math.nan)
    sentence = validation_sentence(several)
    assert "On 200 validation examples of each of 3 configurations f1_macro is 80.00" in sentence
    assert "the default has no score" in sentence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (59.97, "1 min 00 s"),
        (754, "12 min 34 s"),
        (7261, "2 h 01 min"),
        (math.nan, "n/a"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
