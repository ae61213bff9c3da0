"""What a reader can explore on a page: every run, examples, sentences for a paper."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from simulated_analyses import cells_of, simulated

from mlflow_l3d.analysis.importance import radial_importance
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.draw import Axis, nice_step
from mlflow_l3d.report.html import environment, fragile_frame
from mlflow_l3d.report.plots import marks_text, strip
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.files import picture
from mlflow_l3d.studies.investigation.report import details, investigation_document
from mlflow_l3d.studies.investigation.report.runs import MOST_CELLS, Runs, read_predicted, rows_shown
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.sweep.numbers import analyse_sweep
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.report import sweep_document
from mlflow_l3d.tasks.identity import make_task

SOURCE = Source(task="reviews.csv", run_id="r", version="0.2.0", root_seed="0", classes=("NEG", "POS"))


def recorded(design: str) -> pd.DataFrame:
    """Return the cells of a simulated analysis with run ids and seeds."""
    cells = cells_of(design)
    cells["run_id"] = [f"run{at}" for at in range(len(cells))]
    return cells.assign(**{"seed.data_order": np.arange(len(cells)) + 2**60})


@pytest.mark.parametrize("design", ["crossed", "nested", "radial"])
def test_every_score_of_a_table_names_its_run(design):
    analysis, cells = simulated(design), recorded(design)
    data = investigation_document(analysis, title="t", source=SOURCE, runs=Runs(cells)).data
    scores = cells.set_index("run_id")["f1_macro"]
    for name, record in analysis.importances.items():
        behind = [scores[run] for run in data["factors"][name]["runs"]]
        np.testing.assert_allclose(behind, record.table.ravel())
    seeds = cells.set_index("run_id")["seed.data_order"]
    factor = data["factors"]["data_split"]
    assert int(data["seeds"][factor["seeds"][3][0]]) == seeds[factor["runs"][3]], "larger than a float can hold"
    if design != "radial":
        assert [scores[run] for run in data["golden"]] == list(Shown(analysis).golden_scores)


@pytest.mark.parametrize("design", ["crossed", "nested", "radial"])
def test_a_factor_shows_how_its_share_settled_and_how_much_its_runs_agree(design):
    analysis = simulated(design)
    paths = design_named(analysis.design).paths(analysis.importances)
    for name, record in analysis.importances.items():
        last = paths[name].iloc[-1][[*with_interval("importance_corrected")]].astype(float)
        ends = record.importance_corrected, record.importance_corrected_ci_low, record.importance_corrected_ci_high
        np.testing.assert_allclose(last, ends)
        assert paths[name]["rows"].iloc[-1] == len(record.table)
    document = investigation_document(analysis, title="t", paths=lambda: paths)
    page = document.to_html()
    assert page.count("How it settled") == page.count("Two runs that differ only in") == len(paths) > 1
    assert f"Share after 2 to {len(record.table)} rows, with its" in page
    for at, (name, *_) in enumerate(document.table.rows, 1):
        assert f'<a href="#factor-{at}">{environment().filters["name"](name)}</a>' in page
        assert f'<details id="factor-{at}">\n<summary><h2>Every run of {name}<' in page
    assert 'href="#' not in document.to_html(folded=False)


def test_a_share_that_is_not_known_does_not_settle():
    records = radial_importance([0.7] * 3, {"data_order": [0.7] * 3, "data_split": [0.6, 0.7, 0.8]})
    assert math.isnan(records["data_order"].importance_corrected)
    assert design_named("radial").paths(records)["data_order"]["importance_corrected"].isna().all()


def test_what_runs_predict_for_an_example_is_told_place_by_place(tmp_path):
    analysis, cells = simulated("crossed"), recorded("crossed")
    worst = int(analysis.examples.frame["example_id"].iloc[0])
    predictions = cells[["phase", "factor", "row", "column"]].assign(example_id=worst, prediction=1)
    predictions.loc[predictions["column"] == 2, "prediction"] = -1
    predictions = predictions[~((predictions["row"] == 1) & (predictions["column"] == 0))]
    pq.write_table(pa.Table.from_pandas(predictions), tmp_path / "p.parquet")
    runs = Runs(cells, read_predicted(analysis, tmp_path / "p.parquet", len(SOURCE.classes)))
    document = investigation_document(analysis, title="t", source=SOURCE, runs=runs)
    first, second, *_ = document.data["factors"]["data_split"]["predicted"][0]
    assert (first, second) == ("11?111", ".1?111")
    html = document.to_html()
    assert "What changes it?" in html
    assert json.loads(re.search(r'id="data">(.*?)</script>', html).group(1))["classes"] == ["NEG", "POS"]


def test_examples_have_names_of_classes_votes_and_texts_only_if_given():
    analysis = simulated("crossed")
    worst = analysis.examples.frame.iloc[0]
    html = investigation_document(analysis, title="t", source=SOURCE).to_html()
    votes = ", ".join(f"{name}: {count}" for name, count in zip(SOURCE.classes, worst["votes"], strict=True) if count)
    assert f'aria-label="{votes}"' in html
    assert f'id="example-{worst["example_id"]}"' in html
    texts = {worst["example_id"]: "What are the <Twin Cities>?"}
    shown = Source(classes=SOURCE.classes, texts=texts)
    assert "What are the &lt;Twin Cities&gt;?" in investigation_document(analysis, title="t", source=shown).to_html()


def test_tables_of_many_cells_are_cut_and_say_so(importance, analysis):
    found = analysis([importance("a", rows=1000, columns=10)])
    html = investigation_document(found, title="t").to_html()
    assert rows_shown(Shown(found)) == MOST_CELLS // 10
    assert html.count("data-cell=") - html.count("[data-cell=") == MOST_CELLS + html.count('td[data-cell="$')
    assert "600 more rows: in cells.json" in html


def test_missing_cells_are_hatched_and_collapsed_ones_take_no_colours(importance, analysis):
    record = importance("a", missing=[(0, 1)])
    record.table[2, 2] = 0.1
    html = investigation_document(analysis([record]), title="t").to_html()
    assert '<td class="absent" title="row 1, column 2: no score"></td>' in html
    shades = [int(shade) for shade in re.findall(r'style="--x:(\d+)"', html)]
    assert len(set(shades)) > 20
    assert np.median(shades) < 60


def test_a_paper_gets_a_sentence_a_table_and_the_literature():
    analysis = simulated("crossed")
    shown = Shown(analysis)
    failed = Shown(replace(shown.analysis, cells_failed=3))
    assert " 3 runs got no score; the others count. " in details.sentence(failed, SOURCE)
    text = details.sentence(shown, SOURCE)
    scores = 100 * shown.golden_scores
    mean = f"{scores.mean():.1f} ± {scores.std(ddof=1):.1f}"
    assert f"Over 40 golden runs, f1_macro (%) on reviews.csv was {mean}" in text
    assert "Two runs agree on 87.0 % of the predictions." in text
    assert text.endswith("(mlflow-l3d 0.2.0, crossed design, root seed 0)")
    first = shown.records[0]
    share, low, high = (f"{100 * part:.0f}" for part in shown.shares(first))
    name, verdict = first.factor.replace("_", " "), shown.verdict(first)
    said = f"with 95 % intervals that hold for all factors together: {name} {share} % ({low} to {high} %; {verdict})"
    assert said in text  # the level of each alone, 99 %, is that of no share
    alone = replace(analysis, importances={first.factor: replace(first, level=0.95)})
    assert f"with 95 % intervals: {name} {share} %" in details.sentence(Shown(alone), SOURCE)
    assert r"(95\,\% interval)" in details.latex(Shown(alone))
    table = details.latex(shown)
    assert r"& (95\,\% together) &" in table
    assert table.count(r"\\") == 2 + len(shown.records)
    assert max(map(len, table.splitlines())) < 70  # wider ones leave the page
    captioned = dict(details.citations(shown, SOURCE))["LaTeX"]
    assert captioned.count("%") == captioned.count(r"\%")  # the first bare one would end the line
    assert r"\caption{Over 40 golden runs, f1\_macro (\%) on reviews.csv was " in captioned
    assert r" $\pm$ " in captioned
    assert details.escaped("a^b~c_d") == r"a\^{}b\~{}c\_d"
    assert table in captioned
    assert "model initialisation & " in table
    assert details.bibtex(SOURCE).count("@") == 3
    strategy = Shown(simulated("random"))
    assert "Shares of the variance" not in details.sentence(strategy, SOURCE)


def test_the_picture_stands_alone():
    document = investigation_document(simulated("crossed"), title="t", source=SOURCE)
    drawn = picture(document)
    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert "var(--" not in drawn
    assert "[[" not in drawn
    assert drawn.count('class="bar"') == 5
    none = investigation_document(simulated("random"), title="t")
    assert "<svg" in picture(none)


def test_axes_have_round_ticks_and_hold_all_values():
    rng = np.random.default_rng(0)
    for _ in range(300):
        values = rng.normal(scale=10.0 ** rng.integers(-6, 6), size=rng.integers(1, 9)) + rng.choice([0, 50, -3])
        axis = Axis.over(values)
        assert axis.low <= values.min() <= values.max() <= axis.high
        assert 1 <= len(axis.ticks) <= 12
        assert all(0 <= axis.at(value) <= 100 for value in axis.ticks)
        assert len({axis.tick_text(value) for value in axis.ticks}) == len(axis.ticks)
    assert [nice_step(width) for width in (0.3, 1, 1.2, 4, 60)] == [0.5, 1, 2, 5, 100]
    assert Axis.over([math.nan]) == Axis.over([0.0, 1.0])


def test_fragile_examples_come_with_texts_and_names_of_classes():
    analysis = simulated("crossed")
    task = make_task("reviews", [[f"text {number}" for number in range(80)]], [0, 1] * 40, ["NEG", "POS"])
    frame = fragile_frame(analysis.examples, task.texts_by_id(), task.class_names, 5)
    worst = analysis.examples.frame.head(5)
    assert frame["example_id"].tolist() == worst["example_id"].tolist()
    assert frame["text"].tolist() == [f"text {number}" for number in worst["example_id"]]
    assert frame[["NEG", "POS"]].to_numpy().tolist() == [list(votes) for votes in worst["votes"]]
    assert fragile_frame(None, {}, task.class_names, 5).empty


def test_the_literature_is_that_of_the_citation_file():
    citation = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8"))
    bibtex = " ".join(details.bibtex(SOURCE).split())
    for reference in citation["references"]:
        assert f"{{{reference['title']}}}" in bibtex
        names = [f"{author['family-names']}, {author['given-names']}" for author in reference["authors"]]
        assert " and ".join(names) in bibtex
        assert f"{{{reference['url']}}}" in bibtex


def test_many_runs_are_bars_and_a_page_stays_below_a_megabyte(importance, analysis):
    records = [importance(name, rows=200, columns=10, golden=5000) for name in "abc"]
    html = investigation_document(analysis(records), title="t", source=SOURCE).to_html()
    assert len(html.encode()) < 1_000_000
    counts = [int(count) for count in re.findall(r"<title>(\d+) runs?</title>", html)]
    assert sum(counts) == 5000


def test_runs_are_counted_once(importance, analysis):
    radial = investigation_document(simulated("radial"), title="t")
    assert str(radial.place).startswith("72 runs")
    crossed = investigation_document(analysis([importance("a", rows=20, columns=10, golden=40)]), title="t")
    assert str(crossed.place).startswith("240 runs")
    record = importance("a", rows=20, columns=10, golden=40, missing=[(0, 0), (1, 1)])
    record.golden[0] = math.nan
    assert str(investigation_document(analysis([record]), title="t").place).startswith("237 runs")
    points = [SweptPoint(f"r{shots}", {"shots": shots}, "sst2", simulated("radial")) for shots in (1, 2)]
    assert str(sweep_document(analyse_sweep(points), title="t").place).startswith("2 points · 144 runs")


def test_a_strip_shows_its_whole_band_and_counts_each_bar():
    scores = np.array([79.0, 80.0, 81.0])
    html = strip(scores, ["a", "b", "c"], band=(60.0, 100.0), label="x", shown=str)
    start, width = map(float, re.search(r'class="band" x="([\d.]+)%" width="([\d.]+)%"', html).groups())
    assert 0 < start < start + width < 100
    many = np.concatenate([np.full(300, 79.0), [81.0]])
    bars = strip(many, [""] * 301, band=None, label="x", shown=str)
    assert re.findall(r"<title>(.*?)</title>", bars) == ["300 runs", "1 run"]
    assert marks_text(scores, "seed") == "Dots: seeds."
    assert marks_text(many, "seed", "s") == "A bar: how many [[seeds|s]]."
