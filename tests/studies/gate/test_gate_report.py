"""A gate as people read it: every text says the decision, the interval that it is about, and what it is not about."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from gate_answers import gate_answer

from mlflow_l3d.studies.gate.numbers.gate import Outstanding
from mlflow_l3d.studies.gate.record import write_record
from mlflow_l3d.studies.gate.report.figure import gate_figure
from mlflow_l3d.studies.gate.report.page import advice_on, gate_document, gate_markdown, look_line, sentence


@pytest.mark.parametrize(
    ("difference", "error", "said"),
    [
        (0.03, 0.002, "The candidate is better: +3.00 points of f1_macro, repeated 95 % confidence interval "),
        (-0.03, 0.002, "The candidate is worse: -3.00 points of f1_macro, repeated 95 % confidence interval "),
        (0.0, 0.002, "The two are equivalent within 1.00 points: +0.00 points of f1_macro, repeated 90 % confidence "),
        (-0.004, 0.0004, "The candidate is lower for certain, but by less than what matters."),
        (
            0.0,
            0.02,
            "After 20 runs it is undecided whether the candidate is worse, better, or equivalent within 1.00 points: ",
        ),
    ],
)
def test_every_text_says_the_same(difference: float, error: float, said: str) -> None:
    found = gate_answer(difference, error)
    assert said in sentence(found)
    head = f"## Gate: {found.decision} (exit status {found.exit_status})"
    assert gate_markdown(found, run_id="abc").startswith(head)
    assert said in gate_markdown(found, run_id="abc")
    text = gate_document(found, lines=["MLflow run abc"]).to_text()
    assert said in " ".join(text.split())
    assert f": {found.decision}" in look_line(found, found.looks[-1])


@pytest.mark.parametrize(
    ("difference", "error", "outstanding", "do"),
    [
        (-0.03, 0.002, Outstanding(runs=40.0), "settled"),
        (0.0, 0.002, Outstanding(equal=True), "a look at the change"),
        (0.0, 0.02, Outstanding(equal=True), "a look at the change"),
        (0.0, 0.02, Outstanding(runs=40.0), "40 runs"),
        (0.0, 0.02, Outstanding(examples=900.0), "more test examples"),
        (0.0, 0.02, Outstanding(), "a smallest effect"),
    ],
)
def test_every_text_gives_the_same_advice(
    difference: float, error: float, outstanding: Outstanding, do: str, tmp_path: Path
) -> None:
    found = gate_answer(difference, error, outstanding=outstanding)
    advice = advice_on(found)
    assert advice.short == do
    said = advice.text
    assert said in gate_markdown(found, run_id="abc")
    assert said in " ".join(gate_document(found).to_text().split())
    assert advice.sentences[0] in " ".join(gate_document(found).to_html().split())
    write_record(tmp_path, found, {})
    assert json.loads((tmp_path / "gate.json").read_text())["advice"]["short"] == do
    assert ("The candidate probably has no effect" in sentence(found)) == outstanding.equal


def test_the_other_interval_is_told_next_to_what_the_answer_is_about() -> None:
    text = " ".join(gate_document(gate_answer(-0.03, other=(-0.05, 0.001))).to_text().split())
    assert "On new examples, too, the interval of the same look is -5.00 to +0.10 points" in text


def test_an_interval_without_an_end_says_so() -> None:
    found = gate_answer(0.0)
    look = replace(found.looks[-1], low=-math.inf, high=math.inf, decision="undecided")
    assert "no limits yet" in sentence(replace(found, looks=(look,)))
    gate_figure(replace(found, looks=(look,)))
