"""What a shell and a notebook show of a result: one screen, and a table."""

import html
import re
import shlex
from contextvars import copy_context
from dataclasses import dataclass
from unittest.mock import Mock

from mlflow_l3d import registry
from mlflow_l3d.analysis.cure import Prediction, Remedy
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.report.page import Document, Section
from mlflow_l3d.report.remedies import remedy_table
from mlflow_l3d.report.text import Answer, columns
from mlflow_l3d.studies.helpers import names
from mlflow_l3d.studies.shown import OnOneScreen


@dataclass(frozen=True, repr=False)
class Result(OnOneScreen):
    lines: int

    def summary(self) -> str:
        return "\n".join(["A <title>", "=========", "first", "", *map(str, range(self.lines)), ""])


class Reported(Result):
    def report(self) -> Document:
        return Document(title="t", headline="A <b> & **bold** headline", sections=[Section("Folded", ["x"])])


def test_a_long_summary_is_cut_to_a_screen() -> None:
    assert repr(Result(26)) == Result(26).summary().strip()
    assert repr(Result(27)).splitlines()[-2:] == ["25", "... 1 more lines: print the summary()"]
    assert Result(1)._repr_html_().startswith("<pre>A &lt;title&gt;\n")


def test_the_answer_comes_before_what_a_run_wrote() -> None:
    document = Document(title="t", headline="Headline", answers=[Answer("Why?", "", ["So."])], lines=["3 runs written"])
    assert document.to_text().splitlines()[:4] == ["Headline", "========", "Why? So.", "3 runs written"]


def test_a_reason_is_shown_for_every_remedy_that_is_unknown() -> None:
    vote = Prediction(remedy=Remedy("vote", ("a",), 3), basis="unknown", trainings=3, reason="rows lack runs")
    table = remedy_table([vote], named("accuracy"), "")
    assert "(rows lack runs)" in "\n".join(table.lines())


def test_a_notebook_shows_the_first_screen() -> None:
    shown = Reported(5)._repr_html_()
    page = html.unescape(re.fullmatch(r'<iframe srcdoc="(.*?)" style=.*></iframe>', shown, re.DOTALL)[1])  # type: ignore[index]
    assert "<h1>A &lt;b&gt; &amp; <b>bold</b> headline</h1>" in page
    assert "Folded" not in page


def test_examples_of_the_verbs_are_command_lines_that_parse() -> None:
    from mlflow_l3d import cli

    for name, verb in verbs().items():
        for example in verb.examples:
            assert cli._parse(shlex.split(example))["verb"] == name


def test_list_names_what_is_installed() -> None:
    found = names()
    text = " ".join(found.summary().split())
    assert "factor, synthetic label_selection, data_split, data_order" in text
    assert "hyperparameter, finetuning trainable, learning_rate" in text
    assert {"rotten_tomatoes", "trec"} <= set(found.of["task"])
    assert "crossed" in found.of["design"]
    assert "f1_macro" in found.of["metric"]
    narrow = copy_context()
    narrow.run(columns.set, 80)
    assert max(map(len, narrow.run(found.summary).splitlines())) <= 80


def test_names_of_a_broken_approach_say_why_and_keep_the_others(monkeypatch) -> None:
    broken = {"command": Mock(side_effect=RuntimeError("boom"), parameters=()), "synthetic": Mock(parameters=())}
    broken["synthetic"].return_value = Mock(factors=("a",), hyperparameters=None)
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda group, name: broken.get(name) or load(group, name))
    found = names()
    assert found.factors["command"] == ("cannot be built (RuntimeError: boom)",)
    assert (found.factors["synthetic"], found.hyperparameters["synthetic"]) == (("a",), ())
    assert "learning_rate" in found.hyperparameters["finetuning"]
