"""What a shell and a notebook show of a result: one screen, and a table."""

import shlex
from dataclasses import dataclass

import pandas as pd

from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.studies.helpers import names
from mlflow_l3d.studies.shown import OnOneScreen


@dataclass(frozen=True, repr=False)
class Result(OnOneScreen):
    lines: int

    def summary(self) -> str:
        return "\n".join(["A <title>", "=========", "first", "", *map(str, range(self.lines)), ""])


class Framed(Result):
    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame({"factor": ["a<b"], "importance": [0.123456]})


def test_a_long_summary_is_cut_to_a_screen() -> None:
    assert repr(Result(26)) == Result(26).summary().strip()
    assert repr(Result(27)).splitlines()[-2:] == ["25", "... 1 more lines: print the summary()"]
    assert Result(1)._repr_html_().startswith("<pre>A &lt;title&gt;\n")


def test_a_notebook_shows_the_table() -> None:
    shown = Framed(5)._repr_html_()
    assert shown.startswith("<p><strong>A &lt;title&gt;</strong><br>first</p><table")
    assert "a&lt;b" in shown
    assert ">0.123<" in shown


def test_examples_of_the_verbs_are_command_lines_that_parse() -> None:
    from mlflow_l3d import cli

    for name, verb in verbs().items():
        for example in verb.examples:
            assert cli._parse(shlex.split(example))["verb"] == name


def test_list_names_what_is_installed() -> None:
    found = names()
    text = " ".join(found.summary().split())
    assert "factor, synthetic label_selection, data_split, data_order" in text
    assert {"rotten_tomatoes", "trec"} <= set(found.of["task"])
    assert "crossed" in found.of["design"]
    assert "f1_macro" in found.of["metric"]
    assert max(map(len, found.summary().splitlines())) <= 100
