import re
import subprocess
import sys

import pytest
from markupsafe import Markup

from mlflow_l3d.report.html import chip
from mlflow_l3d.report.page import Document, Section
from mlflow_l3d.report.table import Drawn, Table

TABLE = Table(
    ("factor", "corrected score\n[95 %]", "note", "n"),
    (("data_order", "+0.1\n[-1, +2]", "words", "1"), ("  inner", "n/a", "more words", "")),
    "A note.",
    texts=frozenset({2}),
    title="Title",
)


def test_heads_have_lines_numbers_stand_right_and_words_left():
    assert TABLE.lines("  ") == [
        "Title",
        "            corrected score",
        "  factor             [95 %]  note        n",
        "  ----------------------------------------",
        "  data_order  +0.1 [-1, +2]  words       1",
        "    inner               n/a  more words",
        "",
        "A note.",
    ]


def test_columns_without_numbers_can_be_left_out():
    table = Table(("a", "b", "c"), (("x", "n/a", "n/a"), ("y", "n/a", "1")))
    assert table.without_empty(["b", "c"]) == Table(("a", "c"), (("x", "n/a"), ("y", "1")))


def test_the_same_table_on_a_page():
    table = Table(("factor",), (("a_b<",), (Markup("<b>c</b>"),)), "50 %", title="T")
    text = Document(title="t", sections=[Section("S", [table, "-1 % < **± 2**"])]).to_html()
    assert "a_<wbr>b&lt;" in text
    assert "<b>c</b>" in text
    assert "50\N{NO-BREAK SPACE}%" in text
    assert "<p>\N{MINUS SIGN}1\N{NO-BREAK SPACE}% &lt; <b>±\N{NO-BREAK SPACE}2</b></p>" in text
    assert chip("no", "<") == '<span class="chip no">&lt;</span>'


def test_what_names_a_row_stands_again_before_columns_that_go_below():
    rows = [{"pair": "a - b", "task": task, "x" * 50: task.upper(), "y" * 50: "1"} for task in ("sst2", "trec")]
    lines = Table.of(rows).lines()
    assert [line.split()[-1] for line in lines if line.startswith("a - b")] == ["SST2", "TREC", "1", "1"]


def test_a_long_name_is_broken_if_the_other_columns_need_the_room():
    long = "mean of class scores of 5 over 3 factors, training to convergence (30 epochs at rate 0.003, restarts)"
    rows = [{"remedy": name, "x" * 20: "1", "y" * 20: "2", "z" * 12: "3"} for name in ("vote of 5", long)]
    lines = Table.of(rows).lines()
    assert lines[0].split() == ["remedy", "x" * 20, "y" * 20, "z" * 12]  # one table
    assert [line.split()[-1] for line in lines[2:4]] == ["3", "3"]
    assert " ".join([lines[3][:45].strip(), *map(str.strip, lines[4:])]) == long
    assert all(line.startswith("  ") for line in lines[4:])
    assert max(map(len, lines)) <= 100


def test_pictures_stand_on_a_page_alone_and_columns_for_the_paper_wait_there():
    bar = Drawn(Markup("<svg></svg>"))
    table = Table(("factor", "bar", "n", "p"), (("a", bar, "1", "2"),), more=frozenset({3}), kinds=("minor",))
    assert table.lines() == ["factor  n", "---------", "a       1"]
    assert table.markdown() == "| factor | n | p |\n| --- | --- | --- |\n| a | 1 | 2 |"
    text = Document(title="t", sections=[Section("S", [table])]).to_html()
    assert '<tr class="minor">' in text
    assert re.search(r'<td class=" more" data-label="p">2</td>', text)


@pytest.mark.slow
def test_templates_are_loaded_with_the_first_page():
    code = "import sys, mlflow_l3d.studies.sweep.report; assert 'jinja2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
