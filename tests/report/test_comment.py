"""Comments and badges: pictures of letters, text that stays text, and colours that can be read."""

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from mlflow_l3d.report.draw import Axis, difference_cell
from mlflow_l3d.report.page import Document, badge_svg, comment_markdown, histogram
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import Answer, Step

AXIS = Axis(-10.0, 10.0, 5.0)
"""Two letters a unit, and 0 is the 21st of 41."""
SVG = "{http://www.w3.org/2000/svg}"


def letters(value: float, low: float, high: float, margin: float = 0.0) -> str:
    cell = difference_cell(value, low, high, AXIS, "", margin=margin)
    assert cell == ""  # the terminal leaves it out
    return cell.letters.strip("`")


@pytest.mark.parametrize(
    ("numbers", "marks"),
    [
        ((-5.0, -7.5, -2.0), {"├": 5, "●": 10, "┤": 16, "│": 20}),
        ((0.5, -1.0, 2.0), {"├": 18, "●": 21, "┤": 24, "│": 20}),
        ((0.0, -1.0, 1.0, 2.0), {"├": 18, "●": 20, "┤": 22}),
        ((6.0, -math.inf, math.inf), {"<": 0, "●": 32, ">": 40, "│": 20}),
        ((6.0, math.nan, math.nan), {"●": 32, "│": 20}),
        ((math.nan, math.nan, math.nan), {"│": 20}),
    ],
)
def test_an_interval_is_drawn_where_it_is(numbers: tuple[float, ...], marks: dict[str, int]) -> None:
    drawn = letters(*numbers)
    assert len(drawn) == 41
    assert {mark: drawn.index(mark) for mark in marks} == marks
    assert [drawn.count(mark) for mark in "├┤<>●│"] == [int(mark in marks) for mark in "├┤<>●│"]
    assert drawn.count("░") == (9 - 5 if numbers[3:] else 0)  # the interval hides the others


def test_markdown_has_the_picture_and_the_terminal_has_not() -> None:
    table = Table.of([{"after": "6 runs", AXIS.head("axis"): difference_cell(5.0, 2.5, 7.5, AXIS, "")}], "[[a|b]].")
    drawn = "| after | -10 to 10 |\n| --- | --- |\n| 6 runs | `····················│····├────●────┤·····` |"
    assert drawn in table.markdown()
    assert table.markdown().endswith("\n\na.")
    assert table.lines() == ["after", "------", "6 runs", "", "a."]


def test_a_histogram_has_a_letter_for_a_range_of_scores() -> None:
    drawn = histogram(np.array([0.0, 24.0, 24.0, 24.0, 12.5]))
    assert drawn == "▄" + "▁" * 11 + "▄" + "▁" * 10 + "█"
    assert histogram(np.array([1.0, 1.0])).count("█") == 1


def test_what_others_named_is_text_alone() -> None:
    named = "@team ![x](http://a.example/y.png) <img src=z> #12 [[a|b]]"
    document = Document(
        title="t",
        headline=named,
        answers=[Answer("Better?", "Yes", (f"**Sure:** {named}",))],
        notes=[named],
        legend={"A": named},
        steps=[Step(f"Type {named}:", "mlflow-l3d gate --candidate 'a=\n# not a heading'")],
    )
    shown = comment_markdown(document, [{"name": named, "cost": "4 | 5"}], f"MLflow run {named}")
    text = "@&#8203;team !&#91;x](http://a.example/y.png) &lt;img src=z> #&#8203;12 "
    assert shown.count(text) == 7
    assert "@team" not in shown
    assert comment_markdown(Document(title="R&amp;D", headline="", answers=[]), [], "").startswith("### R&amp;amp;D")
    assert not [sign for sign in ("<", "[") if sign in shown]
    assert shown.startswith("### @&#8203;team")
    assert "**Better?** **Yes.** **Sure:** @" in shown
    assert f"| {text}&#91;&#91;" not in shown
    assert "| 4 / 5 |" in shown
    assert "\n\n    mlflow-l3d gate --candidate 'a= # not a heading'\n" in shown


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("verdict", ["", "better", "worse", "equivalent", "undecided"])
def test_a_badge_can_be_read_on_any_page(verdict: str) -> None:
    badge = ET.fromstring(badge_svg("f1 <&>", "73.3 ± 1.7, 10 seeds", verdict))
    assert badge.tag == f"{SVG}svg"
    assert badge.get("role") == "img"
    assert badge.get("aria-label") == badge.findtext(f"{SVG}title") == "f1 <&>: 73.3 ± 1.7, 10 seeds"
    assert [text.text for text in badge.iter(f"{SVG}text")] == ["f1 <&>", "73.3 ± 1.7, 10 seeds"]
    right, left = (each.attrib for each in badge.findall(f"{SVG}rect"))
    for ground in (left["fill"], right["fill"]):  # text is white, whatever the page is
        assert 1.05 / (luminance(ground) + 0.05) >= 4.5
    places = [(float(each.get("x", "")), float(each.get("textLength", ""))) for each in badge.iter(f"{SVG}text")]
    (first, wide), (second, wider) = places
    assert first + wide < float(left["width"]) < second
    assert second + wider < float(right["width"]) == float(badge.get("width", ""))
