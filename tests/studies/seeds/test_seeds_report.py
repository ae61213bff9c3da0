"""Seeds studies as text, figures and pages: the numbers, widths, odd input, nothing unescaped."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from pages import Page
from seeds_report_cases import SEEDS, all_studies, regression, study

from mlflow_l3d.report.style import save_png
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.seeds.numbers.over_tasks import over_tasks, study_rows
from mlflow_l3d.studies.seeds.numbers.study import seeds_study
from mlflow_l3d.studies.seeds.report.figures import seed_figure, seed_heatmap, size_figure
from mlflow_l3d.studies.seeds.report.page import over_tasks_document, seeds_document
from mlflow_l3d.studies.seeds.report.tables import (
    difference_table,
    interval_table,
    published_table_1,
    published_table_7,
)
from mlflow_l3d.studies.seeds.report.words import better_sentences, over_answers, study_answers


@pytest.fixture(scope="module")
def studies():
    return all_studies()


@pytest.fixture(scope="module")
def found(studies):
    return over_tasks(studies)


def test_text_of_one_study_holds_its_numbers(studies):
    one = studies[2]
    text = seeds_document(one, title="t").to_text()
    accuracy = next(line for line in text.splitlines() if line.startswith("accuracy"))
    own = one.own
    for value in (own.mean, own.mean_ci_low, own.var, own.std, own.std_ci_high, own.lowest, own.highest):
        assert f"{100 * value:.2f}" in accuracy
    con = next(line for line in text.splitlines() if line.startswith("CON "))
    pair = one.pairs["consistency"]
    for value in (pair.mean, pair.mean_ci_low, pair.mean_ci_high, pair.std, pair.std_ci_low):
        assert f"{100 * value:.2f}" in con
    assert "same prediction: 92" in text.replace("\n    ", " ")
    assert f"{100 * one.examples.robust_share:.1f} % are right under every seed" in text.replace("\n    ", " ")


def test_text_of_numbers_keeps_errors_in_their_unit():
    one = regression()
    text = seeds_document(one, title="My study", lines=["a line"]).to_text()
    assert text.startswith("My study\n========\na line\n")
    mse = next(line for line in text.splitlines() if line.startswith("mse"))
    assert f"{one.spreads['mse'].mean:.3f}" in mse
    assert "CON-PEAR" in text
    assert f"{100 * one.pairs['consistency_ccc'].mean:.2f}" in text


def test_text_over_tasks_holds_tables_test_and_seed_42(found):
    text = over_tasks_document(found, title="t").to_text()
    flat = re.sub(r"\s+", " ", text)
    better = found[0].better_seed
    assert f"Kendall's W {better.kendall_w:.2f}" in flat
    rank = better.of_seeds.set_index("seed")["mean_rank"].loc[42]
    assert f"Seed 42: mean rank {rank:.2f}" in flat
    assert "standard deviations better on every task" in flat
    row = found[0].rows.set_index("task").loc["mrpc"]
    assert f"{100 * row['f1']:.2f} ({100 * row['f1_std']:.2f})" in flat
    assert "RoBERTa-large, SuperGLUE" in text
    assert "7 tasks are few" in flat


def test_tables_hold_the_published_layout(studies):
    rows = study_rows(studies)
    first = published_table_1(rows)[1]
    assert first.title == "RoBERTa-large, GLUE"
    assert first.head == ("", "mrpc", "cola", "sst2", "stsb")
    assert [row[0] for row in first.rows] == ["score", "VAR", "CON", "CCON"]
    seventh = published_table_7(rows)[1]
    assert seventh.head == ("", "P", "R", "F1", "score", "CON", "CCON")
    assert seventh.rows[-1][1] == "-", "regression has no precision"
    assert seventh.rows[0][4] == f"{100 * studies[3].own.mean:.2f}\n(±{100 * studies[3].own.var:.2f})"


def test_intervals_over_tasks(found):
    table = interval_table(found[0].rows)
    row = found[0].rows.set_index("task").loc["cola"]
    cells = next(cells for cells in table.rows if cells[0] == "cola")
    ends = f"[{100 * row['std_ci_low']:.1f}, {100 * row['std_ci_high']:.1f}]"
    assert cells[2] == f"{100 * row['var']:.1f}\n{ends}"
    assert table.rows[-1][4:7] == ("-", "-", "-"), "numbers have no CCON, and no robust examples"
    assert ends in over_tasks_document(found, title="t").to_text()


def test_a_wide_table_goes_on_below():
    table = Table(("", *[f"task{at:02d}" for at in range(30)]), (("score", *["99.99"] * 30),), "A note.")
    lines = table.lines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("score") for line in lines) == 3
    assert sum(line.count("99.99") for line in lines) == 30


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_heat_map_shows_distances_from_the_tasks_mean(found, tmp_path):
    one = found[0]
    figure = seed_heatmap(one.matrix, one.better_seed, title="model $x$")
    axes = figure.axes[0]
    shown = np.array([float(text.get_text()) for text in axes.texts]).reshape(10, 7)
    values = 100 * one.matrix.to_numpy().T
    np.testing.assert_allclose(shown, values - values.mean(axis=0), atol=0.0501)
    image = axes.images[0].get_array()
    np.testing.assert_allclose(image, (values - values.mean(axis=0)) / values.std(axis=0), atol=1e-9)
    labels = axes.get_yticklabels()
    assert [label.get_text() for label in labels] == [str(seed) for seed in SEEDS]
    assert [label.get_fontweight() for label in labels].count("bold") == 1
    assert "model $x$" in axes.get_title(loc="left")
    ranks = figure.axes[1].lines[-1].get_xdata()
    assert ranks[0] == one.better_seed.of_seeds.set_index("seed")["mean_rank"].loc[42]
    save_png(figure, tmp_path / "heat.png", 40)
    assert (tmp_path / "heat.png").stat().st_size > 5000


def test_heat_map_of_missing_and_many(tmp_path):
    rng = np.random.default_rng(0)
    matrix = pd.DataFrame(rng.uniform(size=(3, 4)), index=["a", "b", "c"], columns=[1, 2, 3, 4])
    matrix.loc["a", 2] = math.nan
    matrix.loc["c"] = 0.5
    figure = seed_heatmap(matrix)
    assert len(texts_of(figure)) == 11
    save_png(figure, tmp_path / "missing.png", 40)
    large = pd.DataFrame(rng.uniform(size=(20, 60)), index=[f"t{at}" for at in range(20)], columns=range(60))
    figure = seed_heatmap(large)
    assert texts_of(figure) == []
    save_png(figure, tmp_path / "large.png", 40)


def test_size_figure_has_every_task_and_a_least_squares_line(found, tmp_path):
    one = found[0]
    figure = size_figure(one.rows, one.correlations, title="m")
    dots, line = figure.axes[0].lines
    np.testing.assert_allclose(np.sort(dots.get_ydata()), np.sort(100 * one.rows["var"]))
    slope, level = np.polyfit(np.log10(one.rows["training_size"]), 100 * one.rows["var"], 1)
    np.testing.assert_allclose(line.get_ydata(), slope * np.log10(line.get_xdata()) + level)
    assert len(figure.axes[2].lines[0].get_xdata()) == 6, "numbers have no CCON"
    save_png(figure, tmp_path / "size.png", 40)


def test_size_figure_without_sizes(studies, tmp_path):
    rows = study_rows(studies).assign(training_size=math.nan)
    from mlflow_l3d.studies.seeds.numbers.spread import size_correlations

    save_png(size_figure(rows, size_correlations(rows)), tmp_path / "none.png", 40)


def test_seed_figure_marks_collapses(studies, tmp_path):
    figure = seed_figure(studies[2])
    full, hollow = figure.axes[0].lines
    assert len(full.get_xdata()) == 7
    assert studies[2].collapsed_seeds == (92, 102, 132)  # the first predicts one class only
    assert hollow.get_xdata().tolist() == (100 * studies[2].scores["accuracy"].loc[[92, 102, 132]]).tolist()
    save_png(figure, tmp_path / "seed.png", 40)
    save_png(seed_figure(regression()), tmp_path / "numbers.png", 40)
    scores = pd.DataFrame({"seed": [1, 2], "accuracy": [0.5, math.nan]})
    save_png(seed_figure(seeds_study(scores)), tmp_path / "scores.png", 40)


def test_page_of_one_study(studies):
    page = Page(seeds_document(studies[2], title="t", settings={"task": "rte"}, notes=["A note."]).to_html())
    assert "3 of 10 collapsed" in page.text
    assert "up to 26 % of all seeds may" in " ".join(study_answers(studies[4])[2].sentences)
    assert f"{100 * studies[2].pairs['correct_consistency'].std:.2f}" in page.text
    assert "one prediction only" in page.text


@pytest.mark.usefixtures("undrawn")
def test_a_better_seed_is_named_with_its_differences():
    rng = np.random.default_rng(1)
    studies = []
    for at in range(8):
        scores = 0.7 + 0.01 * rng.normal(size=10)
        scores[6] += 0.1
        frame = pd.DataFrame({"seed": SEEDS, "accuracy": scores})
        studies.append(seeds_study(frame, task=f"task{at}", training_size=1000 * (at + 1)))
    found = over_tasks(studies)
    assert "some seed is better" in better_sentences(found[0])[0]
    assert over_answers(found)[1].short == "yes"
    assert f"{SEEDS[6]} before" in difference_table(found[0].better_seed).rows[0][0]
    assert f"{SEEDS[6]} before" in over_tasks_document(found, title="t").to_text()
    assert f"{SEEDS[6]} before" in Page(over_tasks_document(found, title="t").to_html()).text


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_several_models_stand_side_by_side(studies):
    found = over_tasks([*studies, *[study(task, model="Llama3.2-3B") for task in ("mrpc", "cola")]])
    where, better, size = over_answers(found)
    assert [len(answer.sentences) for answer in (where, better, size)] == [2, 2, 1]
    assert better.sentences[1].startswith("Llama3.2-3B: ")
    text = over_tasks_document(found, title="t").to_text()
    assert "Llama3.2-3B, GLUE" in text
    assert Page(over_tasks_document(found, title="t").to_html()).tags.count("svg") == 4


def test_one_task_alone_has_no_test():
    found = over_tasks([study("mrpc")])
    assert over_answers(found)[1].short == "n/a"
    assert "two tasks or more" in over_tasks_document(found, title="t").to_text()
    assert Page(over_tasks_document(found, title="t").to_html()).tags.count("svg") == 1


def test_failed_runs_are_told():
    text = seeds_document(study("mrpc", missing=(52,)), title="t").to_text()
    assert "Seeds without a score: 52." in text
