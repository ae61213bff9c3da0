"""Seeds studies as first screens and folded tables: the numbers, every case of the headline, what to do next."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from pages import Page
from seeds_cases import drawn_regression, drawn_study
from seeds_report_cases import all_studies, regression, study

from mlflow_l3d.analysis.importance.shape import single_run_limit
from mlflow_l3d.designs.layout import PAPER_SEEDS
from mlflow_l3d.report.numbers import points
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.seeds.numbers import seeds_study
from mlflow_l3d.studies.seeds.numbers.over_tasks import over_tasks, study_rows
from mlflow_l3d.studies.seeds.parameters import SEEDS as PARAMETERS
from mlflow_l3d.studies.seeds.report import metric_table, pair_table, seed_heatmap, seed_table, seeds_document
from mlflow_l3d.studies.seeds.report.over_tasks import (
    better_sentences,
    over_answers,
    over_headline,
    over_steps,
    over_tasks_document,
    published_tables,
    tasks_table,
)
from mlflow_l3d.studies.seeds.report.words import (
    citation,
    headline,
    investigate_command,
    short_notes,
    steps,
    study_answers,
)
from mlflow_l3d.version import __version__

ENDS = ("", "_ci_low", "_ci_high")
RUN = "8d700d7ae2b3440c89188f7d6099561f"
SOURCE = Source(
    task="mrpc",
    approach="head",
    run_id=RUN,
    given={"task": "mrpc", "seeds": "10", "hyperparameters": "epochs=2"},
    factors=("data_split", "model_initialisation"),
)


@pytest.fixture(scope="module")
def studies():
    return all_studies()


@pytest.fixture(scope="module")
def found(studies):
    return over_tasks(studies)


def scored(*scores, metric="accuracy", **more):
    frame = pd.DataFrame({"seed": [10 * at + 42 for at in range(len(scores))], metric: scores})
    return seeds_study(frame, metric=metric, **more)


ERRORS = scored(1.5, 1.6, 1.4, metric="mse", kind="regression")


def said(one, at):
    """Return one of the answers without its marks."""
    return marked(study_answers(one)[at].lead)


def test_headline_is_the_distance_of_two_seeds_by_luck(studies):
    limit = single_run_limit(studies[3].scores["accuracy"].to_numpy())
    words = f"Between two seeds, a difference below {100 * limit:.1f} points may be luck."
    assert marked(headline(studies[3])) == words


def test_a_paper_gets_mean_spread_and_agreement(studies):
    study = studies[3]
    own = study.scores["accuracy"]
    (_, sentence), (_, table), (_, literature) = citation(study, SOURCE)
    page = " ".join("".join(Page(seeds_document(study, title="t", source=SOURCE).to_html()).words).split())
    assert all(" ".join(each.split()) in page for each in (sentence, table, literature))
    assert f"Over {len(own)} seeds, accuracy (%) on {study.task} was {100 * own.mean():.1f} ± " in sentence
    assert f"± {100 * own.std():.1f} (mean ± standard deviation; 95 % intervals " in sentence
    assert f"{points(study.pairs['consistency'].mean, 1)} % of the predictions" in sentence
    assert rf"accuracy (\%) & {len(own)} & {100 * own.mean():.1f} (" in table
    assert max(len(line) for line in table.splitlines() if "&" in line) < 70  # wider ones leave the page
    assert citation(study, Source())[0][1].endswith(f"(mlflow-l3d {__version__})")  # also of a file
    assert citation(scored(0.8, math.nan), SOURCE)[0][1] == "1 seed with a score: there is no spread to cite."


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (scored(0.8, 0.8, 0.8), "All 3 seeds scored 80.0: the seed does not change the score."),
        (scored(0.8, math.nan), "Too few seeds have a score to say how much of it is luck."),
        (scored(0.80004, 0.80006), "Between two seeds, a difference below 0.025 points may be luck."),
        (scored(0.5, 0.5, 0.6, classes=2), "2 of 3 seeds collapsed: the scores do not say how much is luck."),
        (ERRORS, "Between two seeds, a difference below 0.608 may be luck."),
    ],
)
def test_headline_of_other_cases(one, words):
    assert marked(headline(one)) == words


def test_headline_of_collapsed_seeds_is_about_the_others(studies):
    limit = single_run_limit(studies[2].scores["accuracy"].drop([92, 102, 132]).to_numpy())
    words = f"3 of 10 seeds collapsed; between two others, a difference below {100 * limit:.1f} points may be luck."
    assert marked(headline(studies[2])) == words


def test_answers_hold_range_best_and_worst_seed_and_agreement(studies):
    one, own = studies[3], 100 * studies[3].scores["accuracy"]
    assert said(one, 0) == (
        f"10 seeds scored {own.min():.1f} to {own.max():.1f} (accuracy, %), on average {own.mean():.1f}, "
        f"typically ± {own.std(ddof=1):.1f}."
    )
    assert said(one, 1) == (
        f"Best of 10: seed {own.idxmax()} ({own.max():.1f}); worst: seed {own.idxmin()} ({own.min():.1f}). "
        "Do not report one alone."
    )
    con = one.pairs["consistency"].mean
    assert said(one, 2) == (
        f"Two seeds agree on {100 * con:.1f} % of the predictions: "
        f"about one in {1 / (1 - con):.0f} changes with the seed."
    )
    assert said(studies[2], 1).endswith("3 collapsed: 92, 102, 132.")


def test_answers_of_other_cases():
    assert said(scored(0.8, 0.8), 1) == "No: all have the same score."
    assert said(scored(0.7, 0.8, 0.8), 1).startswith("Best of 3: seeds 52, 62 (80.0); worst: seed 42 (70.0).")
    assert said(ERRORS, 0).startswith("3 seeds scored 1.400 to 1.600 (mse), on average 1.500")
    assert said(ERRORS, 1).startswith("Best of 3: seed 62 (1.400); worst: seed 52 (1.600).")
    few, more = (said(scored(*scores), 0) for scores in ((0.7, 0.8, 0.9), (0.7, 0.8, 0.9, 0.8)))
    assert few.endswith(" So few runs barely show how much scores vary.")
    assert more.endswith("typically ± 8.2.")
    assert said(scored(0.8, math.nan), 0) == "1 seed with a score; at least 2 are needed."
    for approach, is_typed, fix in (
        ("command", True, "Let the command write example_id, label, prediction to {output}/predictions.csv."),
        ("project", True, "Let the project log an artifact predictions.csv with example_id, label, prediction."),
        ("f", False, "Return (labels, predictions) of the test examples in place of a score."),
        ("", True, "Evaluate a table with example_id, label and the prediction of each run."),  # scores of a file
    ):
        stable = study_answers(scored(0.8, 0.9), Source(approach=approach, is_typed=is_typed))[2]
        assert stable.lead == f"Not known: no predictions are stored. {fix}"
    numbers = regression()
    apart, pearson = numbers.together["absolute_difference"], numbers.pairs["consistency_pearson"].mean
    assert f"{apart:.3f} apart on average" in said(numbers, 2)
    assert f"correlation is {pearson:.3f}" in said(numbers, 2)


def test_the_answers_in_full_hold_the_rest(studies):
    text = " ".join(sentence for answer in study_answers(studies[4]) for sentence in answer.sentences)
    own, examples = studies[4].own, studies[4].examples
    assert f"(VAR) is {100 * own.var:.2f}" in text
    assert f"standard deviation of {100 * own.std_ci_low:.2f} to {100 * own.std_ci_high:.2f}" in text
    assert "up to 26 % of all seeds may" in text
    assert f"{100 * examples.robust_share:.1f} % are right under every seed" in text
    assert re.search(rf"kappa\) is {studies[4].together['fleiss_kappa']:.2f} \(-?[\d.]+ to [\d.]+\)\.", text)


def test_runs_that_no_seed_distinguishes_are_runs_with_what_was_recorded():
    settings = pd.DataFrame({"folder": ["a", "b", "c"], "shots": 4})
    study = seeds_study(pd.DataFrame({"seed": range(3), "accuracy": [0.5, 0.6, 0.7]}), recorded=settings)
    assert marked(headline(study)).startswith("Between two runs, a difference below ")
    assert study_answers(study)[1].question == "Was a run lucky?"
    assert "best of 3: run 2 (70.0); worst: run 0 (50.0)" in said(study, 1).lower()
    table = seed_table(study)
    assert table.head == ("run", "accuracy", "folder")
    assert [row[2] for row in table.rows] == ["a", "b", "c"]


def test_first_table_holds_the_records(studies):
    name, mean, std, worst, best = metric_table(studies[3], 8).rows[0]
    own = studies[3].own
    assert name == "accuracy"
    assert mean == f"{100 * own.mean:.2f}\n({100 * own.mean_ci_low:.2f} to {100 * own.mean_ci_high:.2f})"
    assert std == f"{100 * own.std:.2f}\n({100 * own.std_ci_low:.2f} to {100 * own.std_ci_high:.2f})"
    assert (worst, best) == (f"{100 * own.lowest:.2f}", f"{100 * own.highest:.2f}")
    mse = next(row for row in metric_table(regression()).rows if row[0] == "mse")
    errors = regression().spreads["mse"]
    assert mse[3:6] == (f"{errors.highest:.3f}", f"{errors.lowest:.3f}", f"{errors.var:.3f}"), "smaller is better"
    assert metric_table(scored(0.8, math.nan)) is None
    close = seeds_study(pd.DataFrame({"seed": range(3), "loss": [0.69111, 0.69247, 0.692]}), metric="loss")
    assert all("0.69247" in str(table(close).rows) for table in (metric_table, seed_table))


def test_page_names_the_seeds_and_fits_a_screen(studies):
    document = seeds_document(studies[2], title="t", source=SOURCE, runs=[f"r{seed}" for seed in PAPER_SEEDS])
    html = document.to_html()
    assert html.count('class="dot hollow"') == 3
    assert all(f">{seed}</text>" in html for seed in PAPER_SEEDS)
    assert document.data["golden"] == [f"r{seed}" for seed in PAPER_SEEDS]
    assert "one prediction only" in Page(html).text
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("metric mean")[0].split()) <= 120
    assert len(first.split()) <= 600
    assert "depends on the seed" in first
    many = scored(*np.linspace(0.5, 0.9, 21))
    assert "</text>" in seeds_document(many, title="t").to_html()
    assert ">42</text>" not in seeds_document(many, title="t").to_html()


def test_terminal_has_the_first_screen_only(studies):
    text = seeds_document(studies[2], title="t", source=SOURCE, failed=1, lines=["a line"]).to_text()
    lines = text.splitlines()
    assert lines[0].startswith("3 of 10 seeds collapsed")
    assert lines.index("a line") > max(at for at, line in enumerate(lines) if "?" in line[:40] and "Next" not in line)
    assert len(lines) <= 25
    assert "1 seed failed" in text


def test_what_is_missing_is_reported():
    one = study("mrpc", missing=(52,))
    lower = "Seeds without a score: 52. If these would score low, the true spread is larger (L3D012)."
    assert [*short_notes(one, 1)] == ["1 seed failed: the numbers are from the rest.", lower]
    assert "Seeds without a score: 52." in Page(seeds_document(one, title="t").to_html(folded=False)).text


def test_a_task_of_texts_is_not_said_to_have_classes():
    answers = {"example_id": [*range(20)], "label": [f"city {at}" for at in range(20)]}
    silent = [pd.DataFrame({**answers, "seed": seed, "prediction": None}) for seed in (1, 2)]
    scores = pd.DataFrame({"seed": [1, 2], "accuracy": 0.0})
    one = seeds_study(scores, pd.concat(silent), kind="multiple_choice", metric="accuracy")
    (note,) = [each for each in short_notes(one, 0) if "Half of the predictions" in each]
    words = "Half of the predictions or more are missing, or are not an answer that the task allows: 1, 2."
    assert note.startswith(words)
    assert "class" not in note


def test_next_step_is_what_changes_the_answer_most(studies):
    (step,) = steps(studies[3], SOURCE, 0)
    assert step.text.endswith("Is the data split a larger one?")
    assert step.command == "mlflow-l3d investigate mrpc --hyperparameters epochs=2 --factor all"
    failed, collapsed, *_ = steps(studies[2], SOURCE, 2)
    assert failed.command == "mlflow-l3d seeds mrpc --seeds 10 --hyperparameters epochs=2"
    assert collapsed.command.endswith("--hyperparameters epochs=2,NAME=VALUE")
    (same,) = steps(scored(0.8, 0.8), SOURCE, 0)
    assert same.command.endswith("--self-test only")
    (imported,) = steps(studies[3], Source(run_id=RUN), 0)
    assert imported.command == f"mlflow-l3d compare --runs {RUN},RUN_ID"
    script = {"approach": "command", "command": "python train.py --seed '{seed}'"}  # as a shell's words are joined
    (gated,) = steps(studies[3], Source(run_id=RUN, approach="command", given=script), 0)
    assert gated.command == f"mlflow-l3d gate --baseline {RUN} --candidate 'command=python train.py --seed {{seed}}'"
    assert Source(task="train.py", approach="train.py").about("loss") == "train.py · loss"
    losses = pd.DataFrame({"seed": [1, 2, 3], "loss": [0.2, 0.25, 0.3]})
    loss = seeds_study(losses, losses.iloc[:0], metric="loss")
    (gated,) = steps(loss, Source(run_id=RUN, approach="command", given=script), 0)
    assert gated.command.endswith(" --smallest-effect 0.05")  # a gate has a default in percentage points only
    assert [*steps(studies[3], Source(), 0)] == []
    everything = replace(SOURCE, given=dict.fromkeys(PARAMETERS, "x"))
    options = re.findall(r"--([\w-]+)", investigate_command(everything))
    assert {name.replace("-", "_") for name in options} <= set(MAIN)


def test_headline_over_tasks_is_the_test(found, studies):
    assert over_headline(found) == "No seed is found to be better than others over 7 tasks."
    two = over_tasks([*studies, *[study(task, model="Llama3.2-3B") for task in ("mrpc", "cola")]])
    assert over_headline(two) == "No seed is found to be better than others for any of 2 models."
    one = over_tasks([study("mrpc")])
    std = 100 * study("mrpc").own.std
    assert over_headline(one) == f"The seed moves the score on mrpc: typically ± {std:.1f} points."
    assert over_headline(over_tasks([scored(0.8, math.nan)])) == "Too few seeds have a score to compare tasks."
    equal = [scored(0.8, 0.8, task=task) for task in ("mrpc", "cola", "rte")]
    assert over_headline(over_tasks(equal[:1])) == "All seeds score the same on mrpc."
    assert over_headline(over_tasks(equal)) == "All seeds score the same on 3 tasks."
    assert marked(over_answers(over_tasks(equal))[0].lead) == "Nowhere: all seeds score the same."


def test_answers_over_tasks(found):
    where, better, size = (marked(answer.lead) for answer in over_answers(found))
    rows = 100 * found[0].rows.set_index("task")["std"]
    most, least = (
        f"{name}{colon} ± {rows[name]:.1f}" for name, colon in ((rows.idxmax(), ": typically"), (rows.idxmin(), ","))
    )
    assert where == f"On {most} points. Least: {least} points."
    first = found[0].better_seed.of_seeds["seed"].iloc[0]
    assert better == f"Not found (p {found[0].better_seed.p:.3f}). Seed {first} ranks best, which may be luck."
    slope = found[0].correlations.query("measure == 'var' and scale == 'log'")["pearson"].iloc[0]
    assert size.startswith(f"Undecided. VAR correlates with the log of the size at {slope:.2f}")
    full = " ".join(over_answers(found)[1].sentences)
    assert f"Kendall's W {found[0].better_seed.kendall_w:.2f}" in full


@pytest.mark.parametrize(
    ("correlations", "words"),
    [
        ((-0.9, -0.9), "Yes"),
        ((0.9, 0.9), "No"),
        ((-0.9, 0.9), "It depends on the model"),
        ((-0.9, None), "It depends on the model"),
        ((0.9, None), "Undecided"),
        ((None, None), "Undecided"),
    ],
)
def test_size_helps_if_it_does_for_every_model(found, correlations, words):
    models = []
    for value in correlations:
        ends = (-0.5, 0.5) if value is None else (value - 0.05, value + 0.05)
        numbers = dict(zip(("pearson", "pearson_ci_low", "pearson_ci_high"), (value or 0.1, *ends), strict=True))
        models.append(replace(found[0], correlations=found[0].correlations.assign(**numbers)))
    assert over_answers(models)[2].short == words


def test_table_of_tasks_holds_the_rows(found):
    rows, table = found[0].rows.set_index("task"), tasks_table(found)
    assert [row[0] for row in table.rows][:1] == [rows["std"].idxmax()]
    cells = next(cells for cells in table.rows if cells[0] == "cola")
    names = [*("metric_mean", "std", "std_ci_low", "std_ci_high"), *(f"c{c}on{end}" for c in ("", "c") for end in ENDS)]
    row = 100 * rows.loc["cola", names].astype(float)
    assert cells[1].startswith(f"{row['metric_mean']:.2f}\n(")
    assert cells[3] == f"{row['std']:.2f}\n({row['std_ci_low']:.2f} to {row['std_ci_high']:.2f})"
    for cell, name in ((cells[4], "con"), (cells[5], "ccon")):
        assert cell == "{:.2f}\n({:.2f} to {:.2f})".format(*(row[f"{name}{end}"] for end in ENDS))
    assert cells[-2:] == ("8551", "matthews_corrcoef")
    numbers = next(cells for cells in table.rows if cells[0] == "stsb")
    assert numbers[5:8] == ("-", "-", "-"), "numbers have no CCON, and no robust examples"
    assert cells[2].html.count("<circle") == 10
    assert len(tasks_table(found, 3).rows) == 3


def test_table_of_pairs_holds_the_records(studies):
    one = studies[3]
    rows = {row[0]: row[1:] for row in pair_table(one).rows}
    for head, name in (("CON", "consistency"), ("CCON", "correct_consistency")):
        numbers = one.pairs[name]
        assert rows[head][0] == f"{100 * numbers.mean:.2f}"
        assert rows[head][1] == f"{100 * numbers.mean_ci_low:.2f} to {100 * numbers.mean_ci_high:.2f}"
        assert rows[head][2] == f"{100 * numbers.std:.2f}"
        assert rows[head][3] == f"{100 * numbers.std_ci_low:.2f} to {100 * numbers.std_ci_high:.2f}"
    assert rows["robust"][0] == f"{100 * one.examples.robust_share:.2f}"


def test_tables_hold_the_published_layout(studies):
    tables = published_tables(study_rows(studies))
    assert tables[1].title == "RoBERTa-large, GLUE"
    assert tables[1].head == ("", "P", "R", "F1", "score", "CON", "CCON")
    assert tables[1].rows[-1][1] == "-", "regression has no precision"
    assert tables[1].rows[0][4] == f"{100 * studies[3].own.mean:.2f}\n(±{100 * studies[3].own.var:.2f})"


def test_numbers_in_the_unit_of_a_metric_are_neither_per_cent_nor_compared_with_it():
    rng = np.random.default_rng(3)
    errors = drawn_regression(rng, metric="mse", task="stsb", training_size=9)
    one = over_tasks([drawn_study(rng, task="rte", training_size=90), errors])
    assert one[0].correlations.query("scale == 'log'")["tasks"].tolist() == [1, 2, 1], "of VAR, CON and CCON"
    where = marked(over_answers(one)[0].lead)
    assert where.startswith("On rte: typically ± ")
    assert "stsb" not in where
    (table,) = published_tables(one[0].rows)
    assert table.rows[1][4] == f"{errors.own.mean:.3f}\n(±{errors.own.var:.3f})"
    document = over_tasks_document(one, title="t")
    (picture,) = document.pictures
    assert "VAR, log size 1 n/a" in Page(document.to_html()).text  # not left out: CON has a correlation
    texts = [each.text for each in drawn(picture.html, "text")]
    shown = [float(text) for text in texts if re.fullmatch(r"[+-][0-9.]+", text)][1::2]
    np.testing.assert_allclose(shown, errors.own.mean - errors.scores["mse"], atol=0.00501)
    assert where.endswith(" Not compared, for other units: 1 task.")
    assert "Not in the correlation with VAR, for a unit of its own: stsb." in one[0].notes
    assert over_answers(one)[2].sentences == ("Too few tasks with scores in one unit have a known training size.",)


def test_page_over_tasks(found):
    document = over_tasks_document(found, title="t", lines=["Seeds over tasks"])
    page = Page(document.to_html())
    assert "7 tasks are few" in page.text
    row = found[0].rows.set_index("task").loc["mrpc"]
    assert f"{100 * row['f1']:.2f} (±{100 * row['f1_std']:.2f})" in page.text
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("task mean")[0].split()) <= 120
    assert len(first.split()) <= 600
    assert len(document.to_text().splitlines()) <= 25
    (picture,) = document.pictures
    assert picture.name == "seed_by_task"


def test_next_step_over_tasks_is_the_task_with_the_largest_spread(found):
    name = found[0].rows.sort_values("var")["task"].iloc[-1]
    sources = {(found[0].model, task): replace(SOURCE, given={"task": task}) for task in found[0].rows["task"]}
    (step,) = over_steps(found, sources)
    assert step.command == f"mlflow-l3d investigate {name} --factor all"
    assert over_steps(found, {}) == []


def drawn(svg, name):
    """Return the elements of a picture that have a name, in their order."""
    return [*ET.fromstring(svg).iter(name)]


def test_heat_map_shows_distances_from_the_tasks_mean(found):
    one = found[0]
    svg = seed_heatmap(one.matrix, one.better_seed, title="model <x>")
    texts = [each.text for each in drawn(svg, "text")]
    assert texts[0] == "model <x>"
    shown = np.array([float(text) for text in texts if re.fullmatch(r"[+-][0-9.]+", text)]).reshape(10, 7)
    values = 100 * one.matrix.to_numpy().T
    np.testing.assert_allclose(shown, values - values.mean(axis=0), atol=0.0501)
    z = np.array([float(each.text.split()[-1]) for each in drawn(svg, "title")]).reshape(10, 7)
    np.testing.assert_allclose(z, (values - values.mean(axis=0)) / values.std(axis=0), atol=0.00501)
    cells = drawn(svg, "rect")
    signs = {(cell.get("fill"), sign) for cell, sign in zip(cells, np.sign(z.ravel()), strict=True) if sign}
    assert signs == {("#0072b2", 1.0), ("#d55e00", -1.0)}
    depth = [float(cell.get("fill-opacity")) for cell in cells]
    np.testing.assert_allclose(depth, 0.75 * np.minimum(np.abs(z.ravel()) / 2.5, 1), atol=0.003)
    assert [each.text for each in drawn(svg, "text") if each.get("class") == "strong" and each.text == "42"] == ["42"]
    assert [text for text in texts if text in map(str, PAPER_SEEDS)] == [str(seed) for seed in PAPER_SEEDS]
    assert [text for text in texts if text in one.matrix.index] == [*one.matrix.index]


def test_heat_map_of_missing_and_many():
    rng = np.random.default_rng(0)
    matrix = pd.DataFrame(rng.uniform(size=(3, 4)), index=["a", "b", "c"], columns=[1, 2, 3, 4])
    matrix.loc["a", 2] = math.nan
    matrix.loc["c"] = 0.5
    titles = [each.text for each in drawn(seed_heatmap(matrix), "title")]
    assert [title for title in titles if title.endswith("no score")] == ["a, seed 2: no score"]
    assert len(drawn(seed_heatmap(matrix), "text")) == 11 + 4 + 3
    large = pd.DataFrame(rng.uniform(size=(20, 60)), index=[f"t{at}" for at in range(20)], columns=range(60))
    assert len(drawn(seed_heatmap(large), "text")) == 30 + 20


def test_a_better_seed_is_named():
    rng = np.random.default_rng(1)
    made = []
    for at in range(8):
        scores = 0.7 + 0.01 * rng.normal(size=10)
        scores[6] += 0.1
        made.append(scored(*scores, task=f"task{at}", training_size=1000 * (at + 1)))
    found = over_tasks(made)
    assert over_headline(found) == "Some seeds are better than others over 8 tasks."
    assert "some seed is better" in better_sentences(found[0])[0]
    best = PAPER_SEEDS[6]
    assert marked(over_answers(found)[1].lead) == f"Yes (p {found[0].better_seed.p:.3f}). Seed {best} ranks best."


def test_so_few_seeds_cannot_show_a_better_one():
    few = [over_tasks([scored(0.5, 0.6, 0.9, task=f"task{at}") for at in range(tasks)])[0] for tasks in (2, 3)]
    assert [each.better_seed.found for each in few] == [False, True]
    assert ["cannot show" in better_sentences(each)[-1] for each in few] == [True, False]


def test_one_task_alone_has_no_test():
    found = over_tasks([study("mrpc")])
    assert over_answers(found)[1].lead == "It takes two tasks or more on which seeds differ in score."
    page = Page(over_tasks_document(found, title="t").to_html()).text
    assert "two tasks or more" in page
    assert "training size with" not in page


def of_predictions(predictions, labels, kind="classification"):
    """Return the study of the seeds 0, 1, ... with these predictions."""
    frames = [
        pd.DataFrame({"seed": seed, "example_id": range(len(labels)), "label": labels, "prediction": each})
        for seed, each in enumerate(predictions)
    ]
    metric = "accuracy" if kind == "classification" else None
    scores = pd.DataFrame({"seed": range(len(predictions))})
    return seeds_study(scores, pd.concat(frames, ignore_index=True), kind=kind, metric=metric)


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (
            of_predictions(2 * [[0, 1, 0, 1, 1]], [0, 1, 0, 1, 0]),
            "All 2 seeds scored 80.0: 5 test examples show steps of 20.0 points only.",
        ),
        (
            of_predictions([[1, 1, 0, 1] * 4, [0, 0, 0, 1] * 4], [0, 1, 0, 1] * 4),
            "All 2 seeds scored 75.0: their predictions differ, but 16 test examples show steps of 6.2 points only.",
        ),
        (
            of_predictions([[0.5, 1.5, 2.5], [0.5, 1.5, 3.5]], [3.0, 3.0, 3.0], "regression"),
            "All 2 seeds scored 0.0: of constant labels it is not defined (pearson). Use --metric rmse.",
        ),
        (
            of_predictions(2 * [[0, 1, 0, 1] * 4], [0, 1, 0, 1] * 4),
            "All 2 seeds scored 100.0: the seed does not change the score.",
        ),
    ],
    ids=["few examples", "predictions differ", "constant labels", "the same predictions"],
)
def test_equal_scores_that_hide_an_effect_of_the_seed(study, words):
    assert headline(study) == words
    does_nothing = "does not change" in words
    assert ("reach the training" in " ".join(step.text for step in steps(study, SOURCE, 0))) == does_nothing
    assert study_answers(study)[1].lead.startswith("**No:**" if does_nothing else "All have the same score: ")


def test_answers_of_which_a_label_lists_several_are_right_by_any_of_them():
    labels = ['["one","eins"]'] * 12
    study = of_predictions([["one"] * 12, ["eins"] * 12, ["one"] * 6 + ["two"] * 6], labels, "generation")
    numbers = study.metrics()
    assert numbers["seed_mean/exact_match"] == pytest.approx(2.5 / 3)
    # Of three pairs the first and the third agree on half of the examples, rightly; nobody agrees on a wrong answer.
    assert numbers["consistency"] == numbers["correct_consistency"] == pytest.approx(0.5 / 3)
    assert (numbers["robust_share"], numbers["fragile_share"], numbers["never_right_share"]) == (0.5, 0.5, 0.0)
    assert numbers["agreement_on_wrong"] == 0


@pytest.mark.parametrize(
    ("kind", "label", "predictions", "agreement", "words"),
    [
        ("tagging", '["O","B-X","O"]', ['["O","B-X","O"]', '["O","O","O"]'], 2 / 3, "agree to 66.7 % (token_match)."),
        ("tagging", '["O"]', ['["O"]', '["O","O"]'], 1 / 2, "agree to 50.0 % (token_match)."),
        ("ranking", '["a"]', ['["a","b"]', '["b","a"]'], 0.9765, "agree to 97.6 % (ndcg)."),
    ],
)
def test_tags_and_rankings_agree_in_part_and_are_not_right_or_wrong(kind, label, predictions, agreement, words):
    study = of_predictions([[each] * 12 for each in predictions], [label] * 12, kind)
    assert study.metrics()["consistency"] == pytest.approx(agreement, abs=1e-4)
    assert "never_right_share" not in study.metrics()
    text = Page(seeds_document(study, title="t").to_html()).text
    assert words in text
    assert "right under none" not in text


@pytest.mark.parametrize(("metric", "assumed"), [("gap", True), ("gap:lower", False), ("cost", False), ("r2", False)])
def test_an_assumed_direction_is_a_note_and_can_be_turned(metric, assumed):
    name = metric.removesuffix(":lower")
    study = seeds_study(pd.DataFrame({"seed": range(3), name: [0.5, 0.6, 0.7]}), metric=metric, others=[name])
    note = f"Of {name} more is taken to be better: if less is, evaluate, compare and gate its runs with --metric"
    assert [note in each for each in short_notes(study, 0)] == [True] * assumed
