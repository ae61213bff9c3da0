"""A search as people read it: what the found setting is worth, what is drawn, and what to do next."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import Page
from search_examples import DEFAULT, coarse, fine, held_out, report_of, result, trials

from mlflow_l3d.approaches.hyperparameters import SearchChoices
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.search.report import MOST_TRIALS, answers, gains, headline, setting_table, steps, verdict

ATTACK = "<script>alert('x')</script>"
RUN = "a" * 32
BETTER = held_out([0.82, 0.83, 0.81], [0.80, 0.81, 0.80])
RESULT = result(held_out=BETTER, run_id=RUN)
SOURCE = Source(
    task="reviews.csv",
    approach="finetuning",
    run_id=RUN,
    address="https://mlflow.example/#/experiments/1/runs/",
    given={"task": "reviews.csv", "coarse_trials": "24", "num_labelled": "200"},
)


def said(each: Any, at: int) -> str:
    """Return one of the answers without its marks."""
    return marked(answers(each)[at].lead)


def compared(found: Any, default: Any, **more: Any) -> Any:
    return replace(RESULT, held_out=held_out(found, default), **more)


WORSE, OPEN = compared([0.70, 0.7101], [0.8, 0.81]), compared([0.7, 0.9], [0.8, 0.75])
MSE, EQUAL = replace(WORSE, metric=named("mse")), compared([0.7, 0.8], [0.7, 0.8])
FAILED = compared([math.nan], [0.7])


@pytest.mark.parametrize(
    ("each", "word", "words"),
    [
        (RESULT, "better", "The found setting is better than the default by 1.7 points with 3 new seeds."),
        (WORSE, "worse", "The default is better than the found setting by 10.0 points with 2 new seeds."),
        (MSE, "better", "The found setting is better than the default by 0.100 with 2 new seeds."),
        (EQUAL, "equal", "The found setting and the default score the same with 2 new seeds."),
        (OPEN, "undecided", "Undecided: a gain of 2.5 points with 2 new seeds may be luck."),
        (compared([0.7], [0.8]), "undecided", "Undecided: a loss of 10.0 points with 1 new seed may be luck."),
        (FAILED, "undecided", "No verdict: runs failed with 1 of 1 new seed. Correct their error, and search again."),
        (
            result(),
            "not tried",
            "The found setting was not tried with new seeds: how much of its gain is luck is not known.",
        ),
        (result({"coarse": coarse()}, best=DEFAULT), "not tried", "No trial beat the default: it stays."),
    ],
)
def test_the_headline_says_what_the_search_is_worth(each: Any, word: str, words: str) -> None:
    assert verdict(each.held_out, each.metric) == word
    assert headline(each) == words
    assert report_of(each).to_text().startswith(f"{words}\n")


def test_first_answer_holds_the_scores_that_chose_and_why_they_are_too_good() -> None:
    bias = "The best of 30 trials looks better on the examples that chose it than it is."
    scores = "f1_macro is 80.0 with the found setting, 74.2 with the default."
    assert said(RESULT, 0) == f"+5.8 points: {scores} {bias}"
    assert answers(RESULT)[0].sentences[1] == "30 trials in 12 min 34 s, scored by f1_macro on 200 validation examples."
    kept = result({"coarse": coarse()[:1]}, best=DEFAULT)
    assert said(kept, 0) == "There is none: no trial beat the default, whose f1_macro is 74.2."
    several = result({"coarse": coarse(failed=(0,)), "fine": fine()}, configurations=3)
    assert said(several, 0).startswith("The default has no score; f1_macro is 80.0")
    assert "200 validation examples of each of 3 configurations" in answers(several)[0].sentences[1]


def test_second_answer_holds_means_difference_and_interval_of_new_configurations() -> None:
    ends = f"{100 * BETTER.ci_low:+.1f} to {100 * BETTER.ci_high:+.1f}"
    assert said(RESULT, 1) == f"+1.7 points: 82.0 against 80.3 with the default. 95 % interval {ends}."
    mse = compared([0.70, 0.7101], [0.8, 0.81], metric=named("mse"))
    ends = f"{-mse.held_out.ci_high:+.3f} to {-mse.held_out.ci_low:+.3f}"
    assert said(mse, 1) == f"+0.100: 0.705 against 0.805 with the default. 95 % interval {ends}."  # a gain, as drawn
    assert "mse (smaller is better) is" in said(mse, 0)
    assert said(compared([0.8], [0.7]), 1).endswith("One seed gives no interval.")
    assert "1 pair without a score left out." in answers(compared([0.8, math.nan], [0.7, 0.7]))[1].sentences
    assert said(result(), 1).startswith("Not known:")
    assert "nothing to compare" in said(result({"coarse": coarse()[:1]}, best=DEFAULT), 1)


def test_third_answer_names_the_hyperparameter_with_the_largest_share() -> None:
    assert said(RESULT, 2) == "learning_rate: alone it accounts for 91 % of the variance of the score."
    assert "account for 94 %" in answers(RESULT)[2].sentences[1]
    assert said(result(importances={}), 2) == "The importances of the hyperparameters are not known."


def test_steps_name_what_changes_the_answer_most_first() -> None:
    use = f"mlflow-l3d investigate reviews.csv --num-labelled 200 --hyperparameters {RUN}"
    search = "mlflow-l3d search reviews.csv --coarse-trials 24 --num-labelled 200 --held-out-runs"
    keep = "mlflow-l3d investigate reviews.csv --num-labelled 200"

    def commands(each: Any) -> list[str]:
        return [step.command for step in steps(replace(each, run_id=RUN), SOURCE)]

    assert commands(RESULT) == [use]
    assert commands(result()) == [f"{search} 10", use]
    assert commands(compared([0.7, 0.9], [0.8, 0.75])) == [f"{search} 8", use]
    assert commands(compared([0.70, 0.7101], [0.8, 0.81])) == [keep]
    assert commands(result({"coarse": coarse()}, best=DEFAULT)) == [keep]


def test_the_table_sets_the_found_setting_against_the_default() -> None:
    table = setting_table(RESULT)
    assert table.rows[0] == (
        *("learning_rate", "2e-05", "0.00095", "91 %"),
        *("1e-05 to 0.01, log scale", "0.0002 to 0.005, log scale"),
    )
    assert [row[3] for row in table.rows] == ["91 %", "<1 %", "3 %"]
    assert len(setting_table(result(importances={})).head) == len(table.head) - 1


def test_the_first_screen_is_short_and_the_rest_is_folded() -> None:
    document = report_of(replace(RESULT, notes=("one note",)), source=SOURCE, lines=["runs at http://h"])
    text = document.to_text()
    assert len(text.splitlines()) <= 25
    assert {"runs at http://h", "1 coarse trial failed.", "one note"} <= set(text.splitlines())
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("hyperparameter default")[0].split()) <= 120
    assert len(first.split()) <= 600
    html = document.to_html()
    assert '<div class="table found many">' in html
    assert f'<a href="{SOURCE.link}">MLflow</a>' in html
    page = Page(html).text
    for words in ("Not searched: epochs = 10, optimizer = adamw", f"--hyperparameters {RUN}", "level 2 (fine)"):
        assert words in page
    assert len(html.encode()) < 200_000


def test_trials_stand_best_first_and_failed_last() -> None:
    text = Page(report_of(RESULT).to_html()).text
    text = text[text.index("Trials, best first") :]
    order = re.findall(r"(coarse|fine) (\d+)(?: best| default)? (\d\d\.\d\d|n/a)", text)
    assert len(order) == 30
    complete = [float(score) for *_, score in order[:-3]]
    assert complete == sorted(complete, reverse=True)
    assert {each[:2] for each in order[-3:-1]} == {("coarse", "3"), ("coarse", "4")}
    assert order[-1] == ("coarse", "7", "n/a")
    assert re.search(r"coarse \d+ best 80.00 complete", text)
    assert re.search(r"coarse 0 default 74.23", text)
    many = {"coarse": trials([{"learning_rate": 10 ** -(2 + 0.005 * at)} for at in range(350)])}
    html = report_of(result(many)).to_html()
    assert f"{350 - MOST_TRIALS} more trials are in trials.json." in Page(html).text


def test_gains_are_drawn_with_the_colour_of_their_verdict() -> None:
    drawn = gains(RESULT)
    assert re.findall(r'<div class="(\w+)">', drawn.html) == ["undecided", "better"]
    assert "With 3 new seeds: +1.67" in drawn.html
    smaller = gains(compared([0.70, 0.7101], [0.8, 0.81], metric=named("mse")))
    assert "With 2 new seeds: +0.10" in smaller.html
    assert "points" not in smaller.caption
    assert drawn.caption == "Gain over the default in points, with its 95 % interval."
    untried = gains(result())
    assert untried.caption == "Gain over the default in points."
    tiny = gains(compared([0.0104, 0.0102], [0.0108, 0.0107], metric=named("mse")))
    assert "With 2 new seeds: +0.00045" in tiny.html
    assert gains(result({"coarse": coarse()}, best=DEFAULT)) is None


@settings(max_examples=40)
@given(
    st.text(max_size=200),
    st.text("ab_", min_size=1, max_size=90),
    st.one_of(st.text(max_size=300), st.floats(), st.booleans()),
    st.floats(0, 1) | st.just(math.nan),
)
def test_lines_are_never_too_long(title: str, name: str, value: Any, score: float) -> None:
    ranges = {name: SearchChoices(("x" * 70,))}
    stages = dict.fromkeys(RESULT.stages, ranges)
    named = {"title": title, "best": {name: value}, "importances": {name: 0.5}, "notes": (title,)}
    table = RESULT.trials.assign(score=score, **{name: 1})
    text = report_of(replace(RESULT, stages=stages, trials=table, **named), lines=["short"]).to_text()
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith("\n")
