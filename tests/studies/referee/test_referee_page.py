"""The report of a session: what it says of known courses, and the luck of test examples that are used often."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlflow_l3d.analysis.planning.evidence import evidence_needed
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.evaluation.finished import facts_of
from mlflow_l3d.studies.referee import conduct
from mlflow_l3d.studies.referee.numbers import Assessment, Judgement, Rules, Verdict
from mlflow_l3d.studies.referee.numbers.session import Course, Step, SystemRecord
from mlflow_l3d.studies.referee.record import RefereeSession
from mlflow_l3d.studies.referee.report import headline, judgement_lines, path_table, session_document


def look(runs: int, gain: float, verdict: Verdict) -> Assessment:
    return Assessment(runs, gain, 0.01, gain - 0.03, gain + 0.03, 500.0, 400.0, verdict)


def judged(number: int, verdict: Verdict, at: Assessment, spent: int = 4, more: int = 9) -> Judgement:
    title = COURSE.systems[number].title
    return Judgement(verdict, title, number, at, spent, 0, more, 30, math.nan, False, "", "c" * 32, "a" * 32)


def system(number: int, title: str, verdict: str, *looks: Assessment) -> SystemRecord:
    scores = {at: 0.5 + at / 100 for at in range(2, 2 + len(looks))}
    return SystemRecord("a" * 32, number, title, title, None, scores, verdict, list(looks))


BASELINE = SystemRecord("b" * 32, 0, "the head", "0", None, {0: 0.5, 1: 0.6, 2: math.nan})
COURSE = Course(
    "c" * 32,
    "referee: the head",
    named("accuracy"),
    Rules(effect=0.02),
    (
        BASELINE,
        system(1, "learning_rate=1", "reject", look(1, -0.08, "reject")),
        system(2, "dropout=0", "keep", look(1, 0.02, "undecided"), look(2, 0.06, "keep")),
        system(3, "<epochs=20>", "", look(1, 0.01, "undecided")),
    ),
    (Step("dropout=0", 2, 0.06, 0.05, 0.04, 0.01, 0.07),),
)


def test_first_screen_answers_champion_luck_price_and_next_step() -> None:
    document = session_document(COURSE, Source(given={"referee": "c" * 32}))
    assert document.headline == "The champion is dropout=0, better than the baseline by 4.0 points."
    text = " ".join(document.to_text().split())
    assert "+4.0 points over the baseline (95 % interval +1.0 to +7.0)" in text
    assert "2 candidates judged, 1 kept. On average at most 5 % of the kept ones" in text
    assert "7 runs, 3 of the baseline. One run of each system would be 4: it took 1.8 times that." in text
    assert "Judge the undecided again: 3 (<epochs=20>). Or judge the next candidate." in text
    assert f"mlflow-l3d referee judge --referee {'c' * 32} --candidate NAME=VALUE" in text
    assert "1 run have no score" not in text
    assert "Small dot" not in text  # a terminal has no dots
    assert "1 run has no score and does not count." in text
    page = document.to_html()
    assert "&lt;epochs=20&gt;" in page
    assert "<epochs" not in page
    assert "1: +2.0, 500; 2: +6.0, 500" in page  # every interim analysis
    assert "claimed so far" in page
    assert "Small dot: shrunk" in page
    assert "add up to +6.0" in page


def test_limits_that_are_not_finite_are_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    course, logged = replace(COURSE, path=(replace(COURSE.path[0], low=-math.inf, high=math.inf),)), {}
    for name in ("save_result", "log_results"):
        monkeypatch.setattr(conduct, name, lambda *_: None)

    def log_batch(run_id: str, metrics: Any) -> None:
        logged.update({each.key: each.value for each in metrics})

    client = SimpleNamespace(log_batch=log_batch)
    session, recorder = conduct.RefereeSession("r", course, Source()), SimpleNamespace(client=client)
    conduct.Conduct.publish(SimpleNamespace(status=lambda: session, recorder=recorder))  # type: ignore[arg-type]
    assert logged == {"judged": 2, "kept": 1, "runs_used": 7, "gain": 0.04}


def test_gains_that_are_not_confirmed_are_not_called_better() -> None:
    step = COURSE.path[0]
    open_ = replace(COURSE, path=(replace(step, confirmed=math.nan, low=-math.inf, high=math.inf),))
    assert headline(open_).endswith("its gain is not confirmed yet.")
    assert "Not confirmed yet; the runs that decided add up to +6.0" in session_document(open_, Source()).to_text()
    wide = replace(COURSE, path=(replace(step, low=-0.01),))
    kinds = [table.kinds for page in (COURSE, wide) if (table := path_table(page)) is not None]
    assert kinds == [("better",), ("undecided",)]  # of one colour in the picture
    assert headline(wide).endswith("fresh runs do not settle whether it is better than the baseline.")
    none = replace(COURSE, path=(), systems=COURSE.systems[:2])
    assert headline(none) == "No candidate was kept (1 judged): the baseline is the champion."


def test_what_is_ahead_but_failed_is_not_called_too_little() -> None:
    ahead = system(1, "batch=1", "reject", look(1, 0.09, "reject"), look(2, 0.09, "reject"))
    ahead.scores[3] = math.nan
    course = replace(COURSE, systems=(BASELINE, ahead))
    lines = judgement_lines(course, replace(judged(1, "reject", ahead.looks[-1]), candidate=ahead.title))
    assert lines[1].endswith("failed with seeds that the champion did not fail with: such a candidate is not kept.")
    assert " 2, 1 failed" in " ".join(session_document(course, Source()).to_text().split())


@pytest.mark.parametrize(
    ("number", "first", "last"),
    [
        (1, "reject: learning_rate=1", "too little to be seen with the runs that are allowed."),
        (2, "keep: dropout=0", "the next changes are relative to it."),
        (3, "undecided: <epochs=20>", "Next: about 9 runs of it, from number 30."),
    ],
)
def test_a_judgement_is_said_in_two_lines(number: int, first: str, last: str) -> None:
    system = COURSE.systems[number]
    lines = judgement_lines(COURSE, judged(number, system.verdict or "undecided", system.looks[-1]))  # type: ignore[arg-type]
    assert lines[0] == first
    assert lines[1].endswith(last)


def test_best_of_equal_candidates_is_ahead_by_luck_of_the_examples_about_as_much_as_is_said() -> None:
    judged = (BASELINE, *(system(number, str(number), "reject", look(1, 0.0, "reject")) for number in range(1, 201)))
    course = replace(COURSE, systems=judged, luck_of_examples=0.01)
    lead = np.random.default_rng(1).normal(0, 0.01, (2_000, 200)).max(axis=1).mean()
    assert course.lead_by_luck == pytest.approx(lead, rel=0.2)
    text = " ".join(session_document(course, Source()).to_text().split())
    assert (
        "the best of 200 equal candidates may be ahead by up to 3.26 points through luck of the examples alone" in text
    )
    for fine in (replace(course, luck_of_examples=0.005), replace(course, luck_of_examples=math.nan)):
        assert "used often" not in session_document(fine, Source()).to_text()


def test_runs_without_a_score_are_those_of_the_candidate_that_is_judged() -> None:
    kept = judged(2, "keep", look(2, 0.06, "keep"))
    lines = judgement_lines(COURSE, kept)
    assert "no score" not in " ".join(lines)
    failed = replace(COURSE.systems[2], scores={2: math.nan, 3: math.nan})
    lines = judgement_lines(replace(COURSE, systems=(*COURSE.systems[:2], failed, *COURSE.systems[3:])), kept)
    assert "2 runs have no score and do not count" in " ".join(lines)


def test_a_comment_has_each_candidate_before_and_after() -> None:
    first = evidence_needed(1, 0, 300, 0.05)  # half of it once one candidate is kept
    failed = replace(look(0, math.nan, "reject"), needed=first / 2)
    systems = [*COURSE.systems, replace(system(4, "<lr=9>", "reject", failed), scores={9: math.nan})]
    for each in systems[1:4]:  # the third one was begun before the second one was kept
        looks, scores = [replace(at, needed=first) for at in each.looks], each.scores | {50: 0.9}
        systems[each.number] = replace(each, looks=looks, scores=scores)  # run 50 confirms, or has no look yet
    session = RefereeSession("c" * 32, replace(COURSE, systems=tuple(systems)), Source())
    rows = [[*row.values()] for row in facts_of(session).rows]
    assert rows == [
        ["<lr=9> against dropout=0", "n/a", "n/a", "n/a", "reject", "1 run"],
        ["<epochs=20> against the head", "51.0", "52.0", "+1.0\n(-2.0 to +4.0)", "undecided", "2 runs"],
        ["dropout=0 against the head", "46.5", "52.5", "+6.0\n(+3.0 to +9.0)", "keep", "3 runs"],
        ["learning_rate=1 against the head", "60.0", "52.0", "-8.0\n(-11.0 to -5.0)", "reject", "2 runs"],
    ]
