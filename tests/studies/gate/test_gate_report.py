"""A gate as people read it: page, terminal and CI summary show one decision, its interval, and what to do next."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from gate_answers import PLAN, document_of, gate_answer
from pages import Page

from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.gate import conduct
from mlflow_l3d.studies.gate.numbers import GateAnswer, Outstanding
from mlflow_l3d.studies.gate.report import (
    GateSource,
    advice_on,
    answers,
    first_table,
    gate_markdown,
    headline,
    look_line,
    steps,
)
from mlflow_l3d.studies.gate.sides import differences_from

RUN, CANDIDATE = "8d700d7ae2b3440c89188f7d6099561f", "c" * 32
SOURCE = GateSource(
    task="reviews.csv",
    approach="head",
    run_id="a" * 32,
    address="https://mlflow.example/#/experiments/1/runs/",
    given={"baseline": RUN, "candidate": "num_labelled=500;model=bert", "smallest_effect": "1.0"},
    candidate_run=CANDIDATE,
    changes={"num_labelled=500": "num_labelled=500", "rate=0.1": "hyperparameters=rate=0.1"},
)
UNDECIDED = {"difference": 0.0, "error": 0.02}
LOSSY = gate_answer(0.0)
LOSSY = replace(LOSSY, looks=(replace(LOSSY.looks[-1], runs=20, pairs=9, decision="undecided"),))


def said(answer: GateAnswer, at: int) -> str:
    """Return one of the answers without its marks."""
    return marked(answers(answer)[at].lead)


def test_a_gate_that_lost_runs_neither_decides_nor_asks_for_more() -> None:
    assert (LOSSY.exit_status, said(LOSSY, 0)[:9]) == (2, "Not known")
    fix = "No verdict if more than 10 % of the runs fail: correct their error, and gate again."
    assert [(step.text, step.command) for step in steps(LOSSY, SOURCE)] == [(fix, "")]
    assert "cheaper" not in document_of(LOSSY).to_text()
    assert LOSSY.metrics()[1]["runs_used"] == 9


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (gate_answer(0.03), "The candidate is better by 3.0 points."),
        (gate_answer(-0.029), "The candidate is worse by 2.9 points."),
        (gate_answer(0.0), "The candidate is equivalent to the baseline within 1 point."),
        (gate_answer(**UNDECIDED), "Undecided: 20 runs of each do not settle whether the candidate is worse."),
        (
            gate_answer(0.0, outstanding=Outstanding(equal=True)),
            "The candidate probably has no effect: its 10 runs score as those of the baseline.",
        ),
        (LOSSY, "No verdict: 11 of 20 runs of one side have no score."),
        (replace(gate_answer(-0.03), metric=named("mse")), "The candidate is worse by 0.030."),
    ],
)
def test_every_text_begins_with_the_decision(found: GateAnswer, words: str) -> None:
    assert headline(found) == words
    text, page = document_of(found).to_text(), Page(document_of(found).to_html()).text
    assert text.startswith(f"{words}\n")
    assert f"exit status {found.exit_status}" in " ".join(text.split())
    assert f"exit status {found.exit_status}" in page
    summary = gate_markdown(found, run_id="abc")
    assert summary.startswith(f"## {words}\n")
    assert f"Exit status {found.exit_status} ({found.decision})" in summary
    assert all(f": {look.decision}" in look_line(found, look) for look in found.looks)


@pytest.mark.parametrize(
    ("difference", "error", "likely", "place"),
    [
        (-0.03, 0.002, "Unlikely. The 95 % interval", "It excludes 0."),
        (0.0, 0.002, "Unlikely. The 90 % interval", "It is within ± 1 point."),
        (0.0, 0.02, "Yes. The 95 % interval", "It contains 0."),
    ],
)
def test_luck_is_answered_by_the_interval(difference: float, error: float, likely: str, place: str) -> None:
    found = gate_answer(difference, error)
    look = found.looks[-1]
    ends = (look.equivalence_low, look.equivalence_high) if found.decision == "equivalent" else (look.low, look.high)
    limits = "{:+.1f} to {:+.1f}".format(*(100 * end for end in ends))
    assert said(found, 0) == f"{likely} of the difference is {limits} after {look.runs} runs of each. {place}"


def test_equal_scores_are_no_luck() -> None:
    found = gate_answer(0.0, outstanding=Outstanding(equal=True))
    assert said(found, 0) == "There is no difference: the two have equal scores in every run."


def test_size_is_answered_by_the_means_and_a_small_difference_is_named() -> None:
    assert said(gate_answer(-0.03), 1) == "Mean f1_macro: 73.0 with the baseline, 70.0 with the candidate."
    assert said(gate_answer(-0.004, 0.0004), 1).endswith("It is worse, but by too little to matter.")
    mse = replace(gate_answer(0.03), metric=named("mse"))
    assert "Mean mse (smaller is better): 0.730 with" in said(mse, 1)
    table = first_table(mse)
    assert "baseline minus candidate. Grey on the page: " in table.note
    fine = replace(gate_answer(0.0), plan=replace(PLAN, smallest_effect=0.001))
    assert "73.00 with the baseline" in said(fine, 1)
    half = replace(gate_answer(0.0052, 0.0001), plan=replace(PLAN, smallest_effect=0.005))
    assert first_table(half).rows[0][-1].startswith("+0.52\n(")  # next to a limit of 0.5
    exact = replace(gate_answer(0.0), plan=replace(PLAN, smallest_effect=0.01), other=(0.75 - 0.74, 0.7 - 0.7 + 1e-17))
    assert exact.digits == 1  # neither differs from the limit


@pytest.mark.parametrize(
    ("difference", "other", "words"),
    [
        (-0.03, (-0.05, -0.001), "Yes: with their luck, too, the interval is -5.0 to -0.1."),
        (-0.03, (-0.05, 0.001), "Not settled: with their luck, too, the interval is -5.0 to +0.1."),
        (0.03, (0.01, 0.05), "Yes: with their luck, too, the interval is +1.0 to +5.0."),
        (0.0, (-0.009, 0.009), "Yes: with their luck, too, the interval is -0.9 to +0.9."),
        (0.0, (-0.02, 0.02), "Not settled: with their luck, too, the interval is -2.0 to +2.0."),
        (0.0, None, "Not known: without predictions this cannot be computed."),
    ],
)
def test_whether_it_holds_on_new_examples(difference: float, other: tuple[float, float] | None, words: str) -> None:
    found = gate_answer(difference, other=other)
    assert said(found, 2) == words
    assert "these test data" in answers(found)[2].sentences[1]
    asked = answers(replace(found, examples="random"))[2]
    assert asked.lead.startswith("**That is the question here:**")


NAMED = f"{CANDIDATE} --candidate hyperparameters=NAME=VALUE"


@pytest.mark.parametrize(
    ("difference", "error", "missing", "do", "step", "command"),
    [
        (-0.03, 0.002, {"runs": 40.0}, "settled", "Which change did it?", f"{RUN} --candidate num_labelled=500"),
        (0.03, 0.002, {"runs": 40.0}, "settled", "Adopt rate=1e-4.", NAMED),
        (0.0, 0.002, {}, "settled", "Take the cheaper one.", NAMED),
        (0.0, 0.002, {"equal": True}, "a look at the change", "check that what differs", ""),
        (0.0, 0.02, {"equal": True}, "a look at the change", "check that what differs", ""),
        (0.0, 0.02, {"runs": 40.0}, "40 runs", "About 40 runs of each settle it", "--most-runs 40"),
        (0.0, 0.02, {"examples": 900.0}, "more test examples", "about 900 test examples", ""),
        (0.0, 0.02, {}, "a smallest effect", "Name a smallest effect", ""),
    ],
)
def test_next_step_agrees_with_the_advice(
    difference: float, error: float, missing: Any, do: str, step: str, command: str
) -> None:
    found = gate_answer(difference, error, outstanding=Outstanding(**missing))
    assert advice_on(found).short == do
    assert marked(advice_on(found).lead) in Page(document_of(found).to_html()).text.replace("\N{NO-BREAK SPACE}", " ")
    [next_step] = steps(found, SOURCE)
    assert step in next_step.text
    assert command in next_step.command
    assert bool(next_step.command) is bool(command)
    assert [each.command for each in steps(found, GateSource())] == [""]


def test_one_change_or_another_approach_is_not_taken_apart() -> None:
    for changes in ({"rate=0.1": "x"}, {"approach=icl": "approach=icl", "model=m": "model=m"}, {}):
        [step] = steps(gate_answer(-0.03), replace(SOURCE, changes=changes))
        assert step.command.startswith(f"mlflow-l3d gate --baseline {RUN} --candidate hyperparameters=NAME=VALUE")
    [step] = steps(gate_answer(**UNDECIDED, examples="random", outstanding=Outstanding(examples=9.0)), SOURCE)
    assert step.command.endswith("--examples fixed")


def test_the_table_has_a_row_per_interim_analysis_and_the_last_decides() -> None:
    found = gate_answer(**UNDECIDED)
    table = first_table(found)
    assert [row[0] for row in table.rows] == ["10 runs", "20 runs"]
    assert table.kinds == tuple(look.decision for look in found.looks)
    assert table.head[-1] == "difference, points (95 %)"
    equivalent = first_table(gate_answer(0.0, 0.002))
    assert equivalent.head[-1] in ("difference, points (95 %, last row 90 %)", "difference, points (90 %)")
    look = found.looks[-1]
    assert table.rows[-1][-1] == f"+0.0\n({100 * look.low:+.1f} to {100 * look.high:+.1f})"


def test_an_interval_without_an_end_says_so() -> None:
    found = gate_answer(0.0)
    look = replace(found.looks[-1], low=-math.inf, high=math.inf, decision="undecided")
    assert "of the difference is unbounded after 10 runs of each." in said(replace(found, looks=(look,)), 0)
    assert "(unbounded)" in Page(document_of(replace(found, looks=(look,))).to_html()).text


def test_the_first_screen_is_short_and_links_its_run() -> None:
    found = gate_answer(**UNDECIDED, other=(-0.05, 0.001), outstanding=Outstanding(runs=40.0))
    document = document_of(found, source=SOURCE, lines=["8 runs trained now"])
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("verdict")[0].split()) <= 120
    assert len(first.split()) <= 600
    assert f'<a href="{SOURCE.link}">MLflow</a>' in document.to_html()
    assert len(document.to_text().splitlines()) <= 25


def test_what_differs_of_a_project_is_named() -> None:
    typed = {"approach": "project", "cure": "none", "command": "", "uri": "shop", "entry_point": "main"}
    document = {
        "parameters": {"approach": "project", "root_seed": "0", "uri": "shop", "project_parameters": "seed={a}"},
        **{"model": {"name": ""}, "task": {}, "hyperparameters": {}},
    }
    setup = SimpleNamespace(
        model="", task=SimpleNamespace(settings=SimpleNamespace(num_labelled=None)), public_hyperparameters={}
    )
    for more in ({"project_parameters": "seed={a},x=1"}, {"project_parameters": "seed={a}", "uri": "mine"}):
        candidate: Any = SimpleNamespace(given={**typed, **more}, root_seed=0, setup=setup)
        name, value = list(more.items())[-1]
        assert list(differences_from(document, candidate)) == [f"{name}={value}"]


def test_a_gate_that_continues_keeps_the_plan_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conduct, "first_notes", lambda *_: ("Of now.",))
    earlier = gate_answer(0.0)
    sides: Any = [SimpleNamespace(title=name) for name in ("baseline", "renamed")]
    plan = replace(PLAN, looks=(10, 30))  # of a baseline of which more runs are known
    request: Any = SimpleNamespace(
        baseline=sides[0], candidate=sides[1], metric=earlier.metric, examples="fixed", paired=True, plan=plan
    )
    gate = conduct.Conduct(request, None, earlier.before, progress=False)  # type: ignore[arg-type]
    gate._take_over(earlier)
    assert (gate.answer.looks, gate.answer.outstanding) == (earlier.looks, earlier.outstanding)
    assert (gate.answer.plan, gate.answer.candidate) == (plan, "renamed")
