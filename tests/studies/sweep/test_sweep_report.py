"""The report of a sweep: what page, LaTeX and text say is what the points hold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from pages import Page
from sweep_cases import drawn_point, drawn_sweep

from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.sweep.numbers import analyse_sweep
from mlflow_l3d.studies.sweep.numbers.point import GOLDEN_STD, SweptPoint
from mlflow_l3d.studies.sweep.numbers.trends import Trend
from mlflow_l3d.studies.sweep.report import all_points, first_table, latex_table, sweep_document, trend_table
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.studies.sweep.report.words import answers, headline, short_notes, steps, watch

LOST = SweptPoint("lost", {"shots": 32, "prompt_format": "A"}, "sst2", None, "out of <b>memory</b> & more.")
GIVEN = {"task": "reviews.csv", "over": '{"shots": [1, 2]}'}
SOURCE = Source(approach="head", run_id="top", address="https://mlflow.example/#/runs/", given=GIVEN)
SHARES = {"data_order": (0.5, 0.25, 0.25)}


def one_point(std: float, size: int = 50, **more: object) -> SweptPoint:
    return drawn_point({"num_labelled": size}, SHARES, std=std, seed=size, **more)  # type: ignore[arg-type]


def luck_trend(choice: str = "num_labelled", p_holm: float = 0.001, **more: object) -> Trend:
    """Return a trend of luck by -34 % each doubling."""
    ends = [math.log(1 + change / 100) for change in (-34, -41, -26)]
    numbers = (*ends, 0.05, 10.0, p_holm, p_holm, 0.0)
    return replace(Trend(choice, GOLDEN_STD, "log2", 1.0, "one task", 1, 4, *numbers), **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shown() -> ShownSweep:
    points = drawn_sweep({"shots": [1, 2, 4, 8, 16], "prompt_format": ["A", "B", "C"]})
    return ShownSweep(analyse_sweep([*points, LOST]))


@pytest.fixture(scope="module")
def sized() -> ShownSweep:
    """Return a sweep over one number, with much luck at the smallest and little at the largest."""
    sizes = {50: 0.08, 100: 0.05, 200: 0.035, 400: 0.02}
    return ShownSweep(analyse_sweep([one_point(std, size, golden=60) for size, std in sizes.items()]))


def said(shown: ShownSweep, at: int) -> str:
    return marked(answers(shown)[at].lead)


@pytest.mark.parametrize(
    ("trend", "words"),
    [
        (luck_trend(), "Each doubling of num_labelled makes luck about 34 % smaller."),
        (luck_trend(slope=math.log(0.9)), "Each doubling of num_labelled makes luck about 10 % smaller."),
        (luck_trend(slope=math.log(1.2)), "Each doubling of num_labelled makes luck about 20 % larger."),
        (luck_trend(slope=2.0), "Each doubling of num_labelled makes luck about 639 % larger."),
        (luck_trend(scale="linear", step=100.0), "Each step of 100 in num_labelled makes luck about 34 % smaller."),
        (luck_trend(of="data_order", slope=-0.2), "Each doubling of num_labelled makes data_order matter less."),
    ],
)
def test_headline_names_the_trend_that_is_claimed(sized: ShownSweep, trend: Trend, words: str) -> None:
    assert headline(ShownSweep(replace(sized.sweep, trends=(trend,), interactions=()))) == words


@pytest.mark.parametrize(
    ("trend", "words"),
    [
        (luck_trend(), "Luck is about 56 % smaller at num_labelled=200 than at 50."),
        (luck_trend(slope=0.2), "Luck is about 49 % larger at num_labelled=200 than at 50."),
        (luck_trend(of="data_order", slope=0.2), "data_order matters more at num_labelled=200 than at 50."),
    ],
)
def test_two_values_differ_and_show_no_trend(sized: ShownSweep, trend: Trend, words: str) -> None:
    two = ShownSweep(replace(analyse_sweep(sized.sweep.points[::2]), trends=(trend,), interactions=()))
    assert headline(two) == words
    assert said(two, 1).startswith("Two values show no trend, but they differ: ") == (trend.of == GOLDEN_STD)


def test_headline_without_a_trend_names_where_luck_is_largest(sized: ShownSweep) -> None:
    stds = 100 * sized.rows["run_std"]
    words = "Luck is largest at num_labelled=50 (typically ± {:.1f} percentage points) and smallest at 400 (± {:.1f})."
    untested = ShownSweep(replace(sized.sweep, trends=(), interactions=()))
    assert headline(untested) == words.format(stds[0], stds[3])
    (claimed,) = [one for one in sized.sweep.interactions if one.of == GOLDEN_STD]
    by_choice = ShownSweep(replace(sized.sweep, trends=(), interactions=(replace(claimed, p_holm=0.01),)))
    assert headline(by_choice).startswith("Luck is largest at num_labelled=50 (typically ± ")
    open_ = replace(sized.sweep, trends=(luck_trend(p_holm=0.2),), interactions=(replace(claimed, p_holm=0.2),))
    assert headline(ShownSweep(open_)) == "No choice is established to change luck, or the importance of a factor."


def test_headline_and_answer_of_a_choice_that_changes_nothing() -> None:
    found = ShownSweep(analyse_sweep([drawn_point({"num_labelled": size}, SHARES) for size in (50, 100, 200)]))
    assert headline(found) == "num_labelled changed no score."
    assert said(found, 1) == "num_labelled changed no score: does it have an effect?"
    assert said(found, 0).startswith("Nowhere: at all points typically ± ")


def test_repeated_runs_that_score_the_same() -> None:
    found = ShownSweep(analyse_sweep([one_point(0.0, size) for size in (50, 100)]))
    assert headline(found) == "Repeated runs score the same at 2 points: the varied factors change no score."
    assert said(found, 0) == "Nowhere: at all points typically ± 0.0 percentage points."
    assert not [step for step in steps(found, SOURCE) if "behind the luck" in step.text]


def test_metrics_in_their_own_unit_and_metrics_that_differ(sized: ShownSweep) -> None:
    points = [replace(each, analysis=replace(each.analysis, metric=named("mse"))) for each in sized.sweep.points]
    found = ShownSweep(replace(analyse_sweep(points), trends=(), interactions=()))
    assert "points" not in headline(found) + said(found, 0)
    assert headline(found).startswith("Luck is largest at num_labelled=50 (typically ± 0.0")
    two = ShownSweep(analyse_sweep([sized.sweep.points[0], *points[1:]]))
    assert said(two, 0) == said(two, 1) == "Points have different metrics, so their luck does not compare."
    table = first_table(two, {})
    assert table is not None
    assert "<rect" not in str(sweep_document(two.sweep, title="t").table)


def test_first_answer_says_where_luck_is_largest_and_smallest(sized: ShownSweep) -> None:
    stds = 100 * sized.rows["run_std"]
    words = f"At num_labelled=50: typically ± {stds[0]:.1f} percentage points. Smallest at 400: ± {stds[3]:.1f}."
    assert said(sized, 0) == words
    alone = ShownSweep(analyse_sweep([one_point(0.02)]))
    assert said(alone, 0).startswith("At sst2, the only point: typically ± ")


def test_choices_that_could_not_be_tested_have_no_p_value(sized: ShownSweep) -> None:
    (luck,) = [one for one in sized.sweep.interactions if one.of == GOLDEN_STD]
    alone = ShownSweep(replace(sized.sweep, trends=(), interactions=(replace(luck, p_holm=math.nan),)))
    assert said(alone, 1).startswith("num_labelled has no trend to test. Points are too few to compare luck")
    assert "0 tests" not in str(sweep_document(alone.sweep, title="t"))


def test_second_answer_says_how_sure_a_trend_is(sized: ShownSweep) -> None:
    sweep = replace(sized.sweep, trends=(luck_trend(),), interactions=())
    size = "-34 % per doubling of num_labelled (95 % interval -41 to -26 %; p 0.{} adjusted for 1 test)."
    assert said(ShownSweep(sweep), 1) == "Yes: " + size.format("001")
    open_ = replace(sweep, trends=(luck_trend(p_holm=0.2),))
    alone = size.format("200").replace(" %; p", " % if this were the only test; p")
    assert said(ShownSweep(open_), 1) == f"Not established: {alone}"
    wide = replace(sweep, trends=(luck_trend(low=-0.5, high=0.1, p_holm=0.2),))
    assert "only test" not in said(ShownSweep(wide), 1)
    tables = [trend_table(ShownSweep(replace(sweep, trends=each.trends))) for each in (sweep, open_, wide)]
    claims = [table.rows[0][table.head.index("claim")] for table in tables if table]
    assert claims == ["yes", "no\n(adjusted for 1 test)", "no"]
    unknown = replace(sweep, trends=(luck_trend(low=math.nan, high=math.nan, p_holm=math.nan),))
    assert said(ShownSweep(unknown), 1).startswith("Not known: luck changes by -34 % per doubling")


def test_second_answer_without_numbers_to_follow() -> None:
    made = zip("ABC", (0.02, 0.06, 0.0), range(3), strict=True)
    points = [drawn_point({"prompt_format": name}, SHARES, std=std, seed=seed) for name, std, seed in made]
    found = ShownSweep(analyse_sweep(points[:2]))
    differs = "Luck differs between its 2 values at which scores vary (p "
    assert f"prompt_format has no trend to test. {differs}" in said(found, 1)
    assert headline(found).startswith("Luck is largest at prompt_format=B (typically ± ")
    assert differs in said(ShownSweep(analyse_sweep(points)), 1)
    apart = [drawn_point({"a": at, "b": 2 * at}, SHARES, seed=at, task=str(at)) for at in range(2)]
    found = ShownSweep(replace(analyse_sweep(apart), trends=(), interactions=()))
    assert said(found, 1) == "No two points whose score varies are alike in all choices but one."


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([0.9, 0.9, 0.1, 0.1], "a dominates at x=1 and x=2; b nowhere."),
        ([0.1, 0.1, 0.9, 0.9], "a dominates at x=4 and x=8; b nowhere."),
        ([0.9, 0.1, 0.1, 0.1], "a dominates at x=1; b nowhere."),
        ([0.9, 0.1, 0.1, 0.9], "a dominates at x=1 and x=8; b nowhere."),
        ([0.9, 0.9, 0.9, 0.9], "a dominates at all 4 points; b nowhere."),
        ([0.1, 0.1, 0.1, 0.1], "No factor alone is involved in half of the variance at any point."),
    ],
)
def test_third_answer_says_where_a_factor_dominates(shares: list[float], words: str) -> None:
    large: dict[str, int] = {"rows": 60, "columns": 60}
    points = [
        drawn_point({"x": 2**at}, {"a": (1 - share, share, 0.0), "b": (0.9, 0.1, 0.0)}, seed=at, **large)
        for at, share in enumerate(shares)
    ]
    found = ShownSweep(analyse_sweep(points))
    assert set(found.rows["verdict"]) <= {"dominates", "minor"}
    assert said(found, 2) == words
    in_full = answers(found)[2].sentences
    dominated = sum(share > 0.5 for share in shares)
    assert f"a: dominates at {dominated} of 4 points, minor at {4 - dominated}, undecided at 0." in in_full


def test_what_is_undecided_is_counted(shown: ShownSweep) -> None:
    count = int(shown.rows["verdict"].eq("undecided").sum())
    assert said(shown, 2) == f"No factor is established to dominate at any point. Undecided: {count} of 30 verdicts."


def cells(table: Table | None) -> list[list[str]]:
    return [list(row) for row in table.rows]


def test_first_table_holds_luck_share_and_verdict_of_each_point(sized: ShownSweep) -> None:
    rows = sized.rows.to_dict("records")
    for (name, mean, luck, verdict), row in zip(cells(first_table(sized, {})), rows, strict=True):
        assert name == f"{row['choice.num_labelled']:.0f}"
        golden = sized.sweep.points[int(row["point"])].analysis.importances[row["factor"]].golden
        assert mean == f"{100 * golden.mean():.1f}"
        assert luck == f"± {100 * golden.std(ddof=1):.1f}"  # as the report of the point says it
        share = f"{100 * total_index_of(row['importance_corrected']):.0f} %"
        assert verdict == (share if row["verdict"] in ("dominates", "minor") else f"({share})")
        assert f'"verdict {row["verdict"]}"' in verdict.__html__()  # type: ignore[attr-defined]


def test_first_table_has_twelve_points_and_five_factors_and_the_rest_is_folded() -> None:
    factors = [f"factor_{at}+data_order" for at in range(7)]
    sweep = analyse_sweep(drawn_sweep({"shots": [1, 2, 4, 8, 16, 32, 64], "prompt_format": ["A", "B"]}, factors))
    document = sweep_document(sweep, title="t", source=SOURCE)
    assert (len(document.table.rows), len(document.table.head)) == (12, 8)
    assert all(head.endswith("+\ndata_order") for head in document.table.head[3:]), "wide, they would move off the page"
    assert document.table.note.endswith("12 of 14 points, most luck first. Not shown: 2 factors.")
    stds = sorted(ShownSweep(sweep).rows.drop_duplicates("point")["run_std"], reverse=True)[:12]
    assert [row[2] for row in document.table.rows] == [f"± {100 * std:.1f}" for std in stds]
    (rest,) = document.sections[0].parts
    assert (len(rest.rows), len(rest.head)) == (14, 10)
    assert len(document.to_text().splitlines()) <= 25


def test_table_of_numbers_has_all_rows(shown: ShownSweep) -> None:
    table = all_points(shown, {"run3": "https://host/#/experiments/1/runs/run3"})
    assert table.head[:4] == ("shots", "prompt_format", "factor", "verdict")
    assert len(table.rows) == 31
    first = shown.rows.iloc[0]
    assert table.rows[0][3] == first["verdict"]
    assert table.rows[0][5].startswith(f"{first['importance_corrected']:+.2f}")
    assert "/runs/run3" in table.rows[6][-1].__html__()  # type: ignore[attr-defined]
    assert table.rows[-1] == ("32", "A", "n/a", f"failed\n{LOST.error}", *["n/a"] * 6, "lost")


def test_tables_say_what_is_claimed_and_words_what_to_watch(shown: ShownSweep) -> None:
    table = trend_table(shown)
    falls, golden, flat = (dict(zip(table.head, row, strict=True)) for row in table.rows)
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


def test_the_answer_in_full_names_what_the_tables_claim(shown: ShownSweep) -> None:
    sweep = replace(shown.sweep, interactions=(), trends=tuple(one for one in shown.sweep.trends if one.p_holm < 0.05))
    (claimed,) = sweep.trends
    assert f"With shots, the importance of {claimed.of} falls." in answers(ShownSweep(sweep))[1].sentences


def test_short_notes_name_failures_and_checks(shown: ShownSweep) -> None:
    check = Check("L3D013", "warning", "Long tails", "x")
    points = [
        replace(each, analysis=replace(each.analysis, checks=(check,), cells_failed=2)) if each.analysis else each
        for each in shown.sweep.points
    ]
    assert short_notes(ShownSweep(analyse_sweep(points))) == [
        "shots=32, prompt_format=A has no score: out of <b>memory</b> & more.",
        "30 runs of 15 points have no score.",
        "Long tails (L3D013) at 15 points. No test uses an importance that it concerns.",
    ]


def test_steps_name_what_changes_the_answer_most_first(shown: ShownSweep, sized: ShownSweep) -> None:
    command = """mlflow-l3d sweep reviews.csv --over '{"shots": [1, 2]}'"""
    again, rows = steps(shown, SOURCE)
    assert (again.text, again.command) == ("1 point without a score: the same command tries again:", command)
    assert rows.command.startswith(f"{command} --mitigation-runs ")
    assert f"{command} --factor all" in [step.command for step in steps(sized, SOURCE)]
    (own,) = steps(sized, replace(SOURCE, given={}))
    assert own.command == f"mlflow-l3d view {sized.sweep.points[0].run_id}"


def test_page_is_short_and_links_its_runs(sized: ShownSweep) -> None:
    links = {point.run_id: f"https://mlflow.example/#/runs/{point.run_id}" for point in sized.sweep.points}
    document = sweep_document(sized.sweep, title="t", source=SOURCE, links=links)
    html = document.to_html()
    assert '<a href="https://mlflow.example/#/runs/top">MLflow</a>' in html
    assert all(f'href="{link}"' in html for link in links.values())
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("num_labelled mean")[0].split()) <= 120
    assert len(first.split()) <= 600
    assert document.pictures == []


def test_terminal_has_the_answer_first_and_fits_a_screen(shown: ShownSweep) -> None:
    text = replace(sweep_document(shown.sweep, title="t", source=SOURCE), lines=["done"]).to_text()
    assert text.startswith("Each doubling of shots makes data_order matter less.\n")
    assert len(text.splitlines()) <= 25


def test_description_begins_with_the_answer(shown: ShownSweep) -> None:
    text = sweep_document(shown.sweep, title="t").description("15 of 16 points are complete.", first=2)
    assert text.startswith("**Each doubling of shots makes data_order matter less.** **Which luck, where?** ")
    assert "[[" not in text
    assert text.endswith("\n\n15 of 16 points are complete.")


def test_a_sweep_without_scores_has_a_page() -> None:
    nothing = ShownSweep(analyse_sweep([LOST]))
    document = sweep_document(nothing.sweep, title="nothing")
    assert document.headline == "No point has a score."
    assert document.table is None
    assert "out of" in document.to_text()
    assert "failed" in Page(document.to_html()).text


def test_latex_has_the_numbers_of_the_page(shown: ShownSweep) -> None:
    text = latex_table(shown, title="50 % of a_b")
    assert r"\caption{50 \% of a\_b}" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    body = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r"\\")][1:]
    rows = all_points(shown, {}).rows
    assert len(body) == len(rows) == len(shown.rows)
    for line, row, verdict in zip(body, rows, shown.rows["verdict"], strict=True):
        cells_of_line = [cell.replace("\\", "") for cell in line.split(" & ")]
        assert verdict in cells_of_line
        assert cells_of_line[4:] == [" ".join(cell.split("\n")) for cell in row[4:-1]]


def test_a_long_table_breaks_over_pages() -> None:
    points = drawn_sweep({"shots": [1, 2, 4, 8, 16, 32], "prompt_format": ["A", "B", "C", "D"]})
    assert r"\begin{longtable}" in latex_table(ShownSweep(analyse_sweep(points)), title="t")


def test_one_point_of_one_task() -> None:
    alone = ShownSweep(analyse_sweep([drawn_point({}, {"data_order": (0.5, 0.25, 0.25)})]))
    assert alone.names == ["sst2"]
    assert headline(alone).startswith("Luck is typically ± ")
    assert all_points(alone, {}).head[:2] == ("task", "factor")


def test_points_that_differ_in_their_factors_alone_share_a_row() -> None:
    points = [
        drawn_point({"shots": shots, "factor": factor}, {factor: (0.5, 0.25, 0.25)}, seed=at)
        for at, (shots, factor) in enumerate((s, f) for s in (2, 4) for f in ("data_order", "sample_choice"))
    ]
    shown = ShownSweep(analyse_sweep(points))
    assert list(shown.sweep.choices) == ["shots"]
    rows = cells(first_table(shown, {}))
    assert [row[0] for row in rows] == ["2", "4"]
    assert "n/a" not in rows[0] + rows[1]
