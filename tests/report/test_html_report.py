import re
from dataclasses import replace

import pytest
from pages import Page

from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.studies.investigation.report.page import investigation_document

pytestmark = pytest.mark.slow


def page(analysis, path, **more) -> tuple[str, Page]:
    paths = {name: path(record) for name, record in analysis.importances.items()}
    settings = {"task": "rotten_tomatoes"}
    more = {"settings": settings, "title": "t", **more}
    text = investigation_document(analysis, paths=lambda: paths, **more).to_html()
    return text, Page(text)


@pytest.mark.usefixtures("undrawn")
def test_headline_and_table_hold_the_numbers(importance, analysis, path):
    record = importance("data_order", interval=(-0.31, -0.9, 0.1), missing=[(0, 0)])
    text = page(analysis([record]), path)[1].text
    row = re.search(r"data_order ?undecided(.*?)dominates:", text).group(1)
    for number in (
        f"{record.importance:.2f}",
        "-0.31-0.90 to +0.10",
        f"{100 * record.contributed_std:.2f}",
        f"{100 * record.mitigated_std:.2f}",
        f"{100 * record.golden_std:.2f}",
        f"{100 * record.score_mean:.2f}± {100 * record.score_std:.2f}",
        "93.4",
        "74.1",
    ):
        assert number in row


@pytest.mark.usefixtures("undrawn")
def test_six_factors_have_their_pictures(six, path):
    parsed = page(six, path)[1]
    assert parsed.tags.count("svg") == 2 + 2 * 6
    labels = [value for tag, name, value in parsed.attributes if (tag, name) == ("figure", "aria-label")]
    first = max(six.importances.values(), key=lambda record: record.importance).factor
    assert labels[2:4] == [f"Scores of {first}", f"Importance of {first} over rows"]


def test_size_stays_small(importance, analysis, path):
    record = importance("factor", rows=100, columns=10, golden=1000)
    text, _ = page(analysis([record]), path)
    assert len(text.encode()) < 500_000


def test_without_paths_settings_checks_or_factors(importance, analysis):
    one, none = analysis([importance("a", rows=2, columns=2)]), analysis([])
    text = investigation_document(one, title="t").to_html()
    assert Page(text).tags.count("svg") == 3
    assert "No check found anything doubtful." in text
    assert "<h2>Settings</h2>" not in text
    assert "No factor was investigated." in investigation_document(none, title="t").to_html()


@pytest.mark.usefixtures("undrawn")
def test_checks_stand_warnings_first_with_what_to_do(importance, analysis, path):
    checks = (Check("L3D001", "info", "A", "first."), Check("L3D002", "warning", "B", "ask for more rows.", "a"))
    found = replace(analysis([importance("a", rows=3, columns=3)], checks=checks), cells_failed=7)
    text = page(found, path)[1].text
    assert text.index("ask for more rows.") < text.index("first.")
    assert "7 cells of the plan" in text
