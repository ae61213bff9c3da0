"""The report of a sweep: what its figures, page, LaTeX and text say is what the points hold."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from sweep_cases import drawn_point, drawn_sweep

from mlflow_l3d.studies.sweep.numbers.point import FACTOR, SweptPoint
from mlflow_l3d.studies.sweep.numbers.results import analyse_sweep
from mlflow_l3d.studies.sweep.report.figures import heatmap, trend_points
from mlflow_l3d.studies.sweep.report.page import answers, page_data, sweep_document, watch
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.studies.sweep.report.tables import escape, latex_table, trend_table

LOST = SweptPoint("lost", {"shots": 32, "prompt_format": "A"}, "sst2", None, "out of <b>memory</b> & more")


@pytest.fixture(scope="module")
def shown() -> ShownSweep:
    points = drawn_sweep({"shots": [1, 2, 4, 8, 16], "prompt_format": ["A", "B", "C"]})
    return ShownSweep(analyse_sweep([*points, LOST]))


def test_heat_map_holds_every_point_and_factor_whatever_the_axis(shown: ShownSweep) -> None:
    (whole,) = shown.panels()
    assert whole.columns == ("data_order", "sample_choice")
    assert len(whole.rows) == 16
    assert np.isnan(whole.values[-1]).all()  # the point that failed
    rows = shown.sweep.rows
    known = rows.loc[rows["factor"] != "", "importance_corrected"].to_numpy().reshape(15, 2)
    assert whole.values[:15] == pytest.approx(known)
    by_format = shown.panels("prompt_format", FACTOR)
    assert [panel.title for panel in by_format] == ["data_order", "sample_choice"]
    assert by_format[0].rows == ("1", "2", "4", "8", "16")
    assert by_format[0].values == pytest.approx(known[:, 0].reshape(5, 3))
    by_shots = shown.panels("shots", "prompt_format")
    assert [panel.title for panel in by_shots] == ["A", "B", "C"]
    assert by_shots[1].rows == ("data_order", "sample_choice")
    assert by_shots[1].values[1] == pytest.approx(known[:, 1].reshape(5, 3)[:, 1])


def test_what_is_not_certain_is_drawn_so(shown: ShownSweep) -> None:
    (panel,) = shown.panels()
    rows = shown.rows[shown.rows["factor"] != ""]
    holds_zero = (rows["importance_corrected_ci_low"] <= 0) & (rows["importance_corrected_ci_high"] >= 0)
    assert (panel.uncertain[:15].ravel() | ~holds_zero.to_numpy()).all()
    assert panel.uncertain[:15].ravel().tolist() == rows["verdict"].eq("undecided").tolist()
    assert 0 < panel.uncertain.sum() < panel.uncertain.size
    axes = heatmap(shown).axes[0]
    assert len(axes.texts) == 30
    unsure = int(panel.uncertain.sum())
    assert len([text for text in axes.texts if text.get_style() == "italic"]) == unsure
    assert len([patch for patch in axes.patches if patch.get_hatch()]) == unsure


def test_trends_are_drawn_from_points_and_their_slope(shown: ShownSweep) -> None:
    one = shown.sweep.trends[0]
    frame = trend_points(shown, one)
    rows = shown.sweep.rows[shown.sweep.rows["factor"] == "data_order"]
    assert frame["y"].tolist() == rows["importance_corrected"].tolist()
    assert frame["low"].tolist() == rows["importance_corrected_ci_low"].tolist()
    assert frame["x"].tolist() == [1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 16, 16, 16]
    assert frame.groupby("line").size().tolist() == [5, 5, 5]
    figures = {picture.stem: picture.figure for picture in sweep_document(shown.sweep, title="t").pictures}
    assert set(figures) == {
        "importance",
        "importance-by-shots",
        "importance-by-prompt_format",
        "trend-shots",
        "golden_std",
    }
    axes = figures["trend-shots"].axes[0]
    line = axes.lines[-1]
    x, y = line.get_xdata(), line.get_ydata()
    assert (y[-1] - y[0]) / math.log2(x[-1] / x[0]) == pytest.approx(one.slope)
    golden = figures["golden_std"].axes[0]
    stds = shown.sweep.rows.drop_duplicates("point")["golden_std"].dropna()
    assert golden.collections[-1].get_offsets()[:, 0].tolist() == pytest.approx((100 * stds).tolist())


def test_tables_say_what_is_claimed_and_words_what_to_watch(shown: ShownSweep) -> None:
    table = trend_table(shown)
    assert table is not None
    falls, flat, golden = (dict(zip(table.head, row, strict=True)) for row in table.rows)
    assert (falls["of"], falls["per"], falls["claim"], falls["over"]) == ("data_order", "doubling", "yes", "one task")
    assert falls["change"].startswith("-0.")
    assert (flat["claim"], golden["of"], golden["change"][-2:]) == ("no", "golden std", " %")
    wide = replace(shown.sweep.trends[-1], scale="linear", step=1e-3, high=800.0)
    (row,) = trend_table(ShownSweep(replace(shown.sweep, trends=(wide,)))).rows  # type: ignore[union-attr]
    assert row[2] == "0.001 more"
    assert row[4].endswith("to >+1,000 %")
    notes = watch(shown)
    assert notes[0] == "shots=32, prompt_format=A has no score: out of <b>memory</b> & more."
    assert "one task" in notes[-1]


def test_the_first_screen_names_what_the_tables_claim() -> None:
    points = drawn_sweep({"shots": [1, 2, 4, 8, 16], "prompt_format": ["A", "B", "C"]})
    sweep = analyse_sweep(points)
    tables = replace(sweep, interactions=(), trends=tuple(one for one in sweep.trends if one.p_holm < 0.05))
    (claimed,) = tables.trends
    answer = answers(ShownSweep(tables))[1]
    assert answer.short == "on shots"
    assert f"importance of {claimed.of} falls with shots" in answer.sentences[0]


def test_a_choice_that_changes_nothing_is_said_to() -> None:
    points = [drawn_point({"num_labelled": size}, {"data_order": (0.5, 0.25, 0.25)}) for size in (50, 100, 200)]
    shown = ShownSweep(analyse_sweep(points))
    _, moves, luck = answers(shown)
    assert moves.sentences == ("num_labelled changed no score: does it have an effect?",)
    assert luck.short == "nowhere"
    text = sweep_document(shown.sweep, title="t").to_text()
    assert "Most:" not in text


def test_page_has_all_rows(shown: ShownSweep) -> None:
    html = sweep_document(
        shown.sweep, title="a <sweep>", links={"run3": "https://host/#/experiments/1/runs/run3"}
    ).to_html()
    assert "</script" not in re.search(r'id="data">(.*?)</script>', html, re.S).group(1)  # type: ignore[union-attr]
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.S).group(1))  # type: ignore[union-attr]
    assert data["names"] == ["factor", "shots", "prompt_format"]
    assert len(data["rows"]) == 31
    first = shown.rows.iloc[0]
    assert data["rows"][0]["corrected"] == pytest.approx(first["importance_corrected"], abs=1e-4)
    assert data["rows"][0]["verdict"] == first["verdict"]
    assert data["rows"][6]["link"].endswith("run3")
    assert data["rows"][-1] | {"of": None} == {
        "point": 15,
        "run": "lost",
        "link": "",
        "of": None,
        "corrected": None,
        "published": None,
        "interval": "n/a",
        "moves": "n/a",
        "golden": "n/a",
        "score": "n/a",
        "verdict": "failed",
        "error": LOST.error,
    }


def test_a_sweep_without_scores_has_a_page() -> None:
    nothing = ShownSweep(analyse_sweep([LOST]))
    document = sweep_document(nothing.sweep, title="nothing")
    assert document.pictures == []
    assert "No point has a score" in document.to_html()
    assert page_data(nothing, {})["rows"][0]["verdict"] == "failed"
    assert "out of" in sweep_document(nothing.sweep, title="nothing").to_text()


def test_latex_marks_what_is_important_and_slants_what_is_not_certain(shown: ShownSweep) -> None:
    text = latex_table(shown, title="50 % of a_b")
    assert r"50 \% of a\_b" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    body = [line for line in text.splitlines() if r"\_" in line and line.endswith(r"\\") and "prompt" not in line]
    assert len(body) == 30
    rows = shown.rows[["verdict", "importance"]].to_numpy()
    for line, (verdict, published) in zip(body, rows, strict=False):
        assert ("(*)" in line) == (published > 0)
        assert (r"\textit" in line) == (verdict == "undecided")
        assert line.count("&") == 9
    first = shown.rows.iloc[0]
    assert f"{100 * first['golden_std']:.2f} & {100 * first['contributed_std']:.2f}" in body[0]
    assert r"\textit{no score} &" in text
    assert escape("\\x{1}^~") == r"\textbackslash{}x\{1\}\textasciicircum{}\textasciitilde{}"


def test_a_long_table_breaks_over_pages() -> None:
    points = drawn_sweep({"shots": [1, 2, 4, 8, 16, 32], "prompt_format": ["A", "B", "C", "D"]})
    assert r"\begin{longtable}{lllrrrrrrr}" in latex_table(ShownSweep(analyse_sweep(points)), title="t")


def test_one_point_of_one_task() -> None:
    alone = ShownSweep(analyse_sweep([drawn_point({}, {"data_order": (0.5, 0.25, 0.25)})]))
    assert alone.names == ["sst2"]
    pictures = sweep_document(alone.sweep, title="t").pictures
    assert {picture.stem for picture in pictures} == {"importance", "golden_std"}
    assert alone.panels()[0].values.shape == (1, 1)


def test_points_that_differ_in_their_factors_alone_share_a_row() -> None:
    points = [
        drawn_point({"shots": shots, "factor": factor}, {factor: (0.5, 0.25, 0.25)}, seed=at)
        for at, (shots, factor) in enumerate((s, f) for s in (2, 4) for f in ("data_order", "sample_choice"))
    ]
    shown = ShownSweep(analyse_sweep(points))
    assert list(shown.sweep.choices) == ["shots"]
    (panel,) = shown.panels()
    assert (panel.rows, panel.points) == (("2", "4"), (0, 2))
    assert np.isfinite(panel.values).all()
    assert "shots=4" in sweep_document(shown.sweep, title="t").to_text()
