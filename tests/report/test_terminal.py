import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hand_made_analyses import nothing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.report.numbers import points, shorten, signed
from mlflow_l3d.report.table import Table, document
from mlflow_l3d.report.text import WIDTH, heading
from mlflow_l3d.studies.investigation.report import investigation_document
from mlflow_l3d.studies.investigation.report.verdicts import Shown, by_code
from mlflow_l3d.studies.shown import printed


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("250", 100), ("20", 60)])
def test_a_narrow_terminal_alone_has_shorter_lines_and_cuts_no_cell(monkeypatch, columns, width):
    table = Table(("name", "mean"), (("a_" * 40, cell := "66.56 (60.1 to 70.2)"),), "x" * 400)
    result = SimpleNamespace(summary=lambda: document("t", [], [table]))
    monkeypatch.setenv("COLUMNS", columns)
    assert printed(result) == result.summary()  # a pipe
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: True))
    assert [max(map(len, text.splitlines())) for text in (printed(result), result.summary())] == [width, WIDTH]
    assert cell in printed(result)


def text_of(analysis, title="t", **more):
    return investigation_document(analysis, title=title, **more).to_text()


def test_factors_stand_by_corrected_importance_and_unknown_ones_last(importance, analysis):
    scores = {"low": -0.5, "high": 0.7, "middle": 0.0}
    made = [replace(importance(name, interval=(score, -1, 1)), importance=-score) for name, score in scores.items()]
    found = analysis([nothing("nothing"), *made])
    assert [record.factor for record in Shown(found).records] == ["high", "middle", "low", "nothing"]
    lines = text_of(found, title="t").splitlines()
    starts = [lines.index(next(line for line in lines if line.startswith(name))) for name in ("high", "middle", "low")]
    assert starts == sorted(starts)
    assert found.to_frame()["factor"].tolist() == ["high", "middle", "low", "nothing"]


@pytest.mark.parametrize(
    ("score", "low", "high", "word", "important"),
    [
        (0.3, 0.1, 0.5, "dominates", True),
        (0.3, -0.1, 0.5, "undecided", True),
        (0.3, 0.0, 0.5, "undecided", True),
        (0.3, -0.5, -0.1, "minor", True),
        (0.3, math.nan, math.nan, "undecided", True),
        (0.0, -0.5, -0.1, "minor", False),
        (-0.3, 0.1, 0.5, "dominates", False),
        (math.nan, 0.1, 0.5, "dominates", None),
        (math.inf, 0.1, 0.5, "dominates", None),
    ],
)
def test_the_interval_decides_and_the_published_rule_has_a_column_of_its_own(
    importance, analysis, score, low, high, word, important
):
    record = replace(importance("data_order", interval=(0.0, low, high)), importance=score)
    found = analysis([record])
    assert (Shown(found).verdict(record), Shown(found).is_important(record)) == (word, important)
    texts = text_of(found, title="t").splitlines()
    assert word in next(line for line in texts if line.startswith("data_order "))
    assert found.to_frame()["verdict"].tolist() == [word]


def test_checks_of_one_code_are_one_paragraph_that_names_the_factors():
    rest = "Look at them. Raise mitigation_runs."
    checks = [Check("L3D007", "info", "Few", f"{at} rows. {rest}", name) for at, name in enumerate("abc")]
    checks += [Check("L3D003", "info", "Golden", "None."), Check("L3D007", "warning", "Few", "No rows.", "d")]
    few, golden, none = by_code(checks)
    assert (few.factors, few.message) == (("a", "b", "c"), f"a: 0 rows. b: 1 rows. c: 2 rows. {rest}")
    assert (golden.factors, golden.message, none.message) == ((), "None.", "No rows.")
    assert by_code([checks[0], replace(checks[0], factor="b")])[0].message == checks[0].message


def test_widest_table_fits(importance, analysis):
    stds = dict.fromkeys(("contributed_std", "mitigated_std", "golden_std", "score_std"), 0.1234)
    record = importance("model_initialisation", interval=(-0.41, -0.91, -0.11))
    record = replace(record, importance=-12.34, cells_missing=2000, **stds)
    text = text_of(replace(analysis([record]), checks=[Check("L3D007", "warning", "Few", "x", "data_order")]))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "To watch: Few (L3D007, data_order)" in text.splitlines()


@given(
    name=st.text(min_size=1, max_size=60),
    title=st.text(max_size=200),
    values=st.lists(st.floats(-99, 99) | st.just(math.nan), min_size=4, max_size=4),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_and_number_gives_printable_lines_that_fit(importance, analysis, name, title, values):
    score, *bounds = values
    record = replace(importance(name, interval=tuple(bounds)), importance=score)
    text = text_of(analysis([record]), title=title)
    assert all(len(line) <= WIDTH + 6 for line in text.splitlines())
    assert all(char == "\n" or char.isprintable() for char in text)


def test_escape_codes_do_not_reach_the_terminal():
    assert shorten("a\x1b[31m\nb", 20) == "a [31m b"
    assert shorten("x" * 30, 10) == "xxxxxxx..."


def test_a_long_headline_is_whole():
    words = [f"word{at}" for at in range(40)]
    *lines, rule = heading(" ".join(words))
    assert " ".join(lines).split() == words
    assert max(map(len, lines)) == len(rule) <= WIDTH


def test_numbers():
    assert (points(0.12345), points(math.nan), points(math.inf), points(-0.0)) == ("12.35", "n/a", "n/a", "0.00")
    assert (signed(0.5), signed(-0.0), signed(-math.inf)) == ("+0.50", "+0.00", "n/a")
