"""What an investigation says first: a sentence that decides, three answers, the factors, and what to do next."""

import math
from dataclasses import replace

import numpy as np
import pytest
from pages import Page

from mlflow_l3d.analysis.consistency.consistency import Consistency
from mlflow_l3d.analysis.consistency.examples import example_votes
from mlflow_l3d.analysis.importance.luck import single_run_limit
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.analysis.importance.verdicts import Advice
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Step, marked
from mlflow_l3d.studies.about import About
from mlflow_l3d.studies.investigation.report.page import investigation_document
from mlflow_l3d.studies.investigation.report.prediction_tables import shares
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import answers, headline, steps
from mlflow_l3d.studies.investigation.results import Evaluation

RUN = "8d700d7ae2b3440c89188f7d6099561f"
SOURCE = Source(task="reviews.csv", approach="head", run_id=RUN, given={"task": "reviews.csv", "factor": "a"})


def said(analysis, at: int) -> str:
    """Return one of the answers without its marks."""
    return marked(answers(Shown(analysis))[at].lead)


@pytest.fixture
def judged(importance, analysis):
    """Return an analysis whose factors have the verdicts of their names."""

    def make(*names: str):
        middles = {"dominates": (0.4, 0.2), "minor": (-0.4, 0.2), "undecided": (0.1, 0.6)}
        records = []
        for name in names:
            middle, width = middles[name.split("_")[0]]
            records.append(importance(name, interval=(middle, middle - width, middle + width)))
        return analysis(records)

    return make


def test_headline_says_how_far_two_runs_lie_apart_by_luck(importance, analysis):
    found = analysis([importance("a", golden=40)])
    std = found.importances["a"].golden.std()
    assert marked(headline(Shown(found))) == (
        f"Between two single runs, a difference below {100 * 1.96 * math.sqrt(2) * std:.1f} points may be luck."
    )
    assert "mse" not in headline(Shown(replace(found, metric=named("mse"))))
    assert "points" not in headline(Shown(replace(found, metric=named("mse"))))


def test_scores_in_two_groups_are_told_of_by_their_own_distances():
    rng = np.random.default_rng(0)
    scores = np.concatenate([0.6 + 0.01 * rng.standard_normal(50), 0.8 + 0.01 * rng.standard_normal(50)])
    limit = single_run_limit(scores, scores.std())
    assert limit < 1.96 * math.sqrt(2) * scores.std()
    first, second = rng.choice(scores, 100_000), rng.choice(scores, 100_000)
    assert np.mean(np.abs(first - second) > limit) == pytest.approx(0.05, abs=0.01)
    normal = rng.standard_normal(2000)
    assert single_run_limit(normal, 1.0) == pytest.approx(1.96 * math.sqrt(2))


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ([0.8] * 6, "All 6 runs scored 80.0: the varied factors change nothing."),
        ([0.8, math.nan], "Too few runs have a score to say how much of it is luck."),
    ],
)
def test_headline_without_luck_or_without_scores(importance, analysis, golden, words):
    record = replace(importance("a"), golden=np.array(golden), golden_std=0.0)
    assert headline(Shown(analysis([record]))) == words


def test_first_answer_holds_range_mean_and_deviation_of_the_golden_runs(importance, analysis):
    record = importance("a")
    record.golden[:3] = math.nan
    golden = 100 * record.golden[3:]
    assert said(analysis([record]), 0) == (
        f"Repeating the training 37 times with other seeds gave {golden.min():.1f} to {golden.max():.1f} "
        f"(f1_macro, %), typically {golden.mean():.1f} ± {golden.std():.1f}."
    )


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        (["dominates"], "dominates dominates: it is involved in 77 % (64 to 88 %) of the variance."),
        (["minor"], "minor is minor: it is involved in 23 % (12 to 36 %) of the variance."),
        (["undecided"], "undecided is undecided: it is involved in 57 % (17 to 93 %) of the variance."),
        (["dominates", "minor", "undecided"], "dominates dominates. minor is minor; undecided is undecided."),
        (
            ["dominates", "dominates_2", "minor"],
            "dominates and dominates_2 dominate. minor is minor. Interactions count for each factor in them.",
        ),
        (
            ["minor", "minor_2"],
            "No factor alone is involved in half of the variance. The largest share has minor: 23 % (12 to 36 %).",
        ),
        (["undecided", "undecided_2"], "Undecided for all 2 factors: 20 rows are too few."),
        (
            ["minor", "undecided", "undecided_2"],
            "No factor is established to dominate. minor is minor; undecided and undecided_2 are undecided.",
        ),
    ],
)
def test_second_answer_has_a_sentence_for_every_case(judged, factors, words):
    assert said(judged(*factors), 1) == words


def test_undecided_for_another_reason_than_runs_says_so(judged):
    check = Check("L3D013", "warning", "Long tails", "x")
    found = replace(judged("dominates", "minor"), checks=(check,))
    assert "long tails" in said(found, 1)
    table = investigation_document(found, title="t").table
    assert table is not None
    assert "dominates is undecided: the scores have long tails" in table.note


def test_third_answer_counts_predictions_that_change(importance, analysis):
    found = analysis([importance("a")])
    assert said(found, 2) == "Two runs agree on 87.5 % of the predictions: about one in 8 changes with the seed."
    none = replace(found, consistencies={})
    assert said(none, 2) == "The runs hold no predictions to compare."
    one = replace(found, consistencies={"a": found.consistencies["a"]})
    assert "two runs that differ in a only" in " ".join(answers(Shown(one))[2].sentences)


@pytest.mark.parametrize(("examples", "told"), [(9, False), (10, True)])
def test_agreement_on_a_few_examples_is_not_told(importance, analysis, examples, told):
    right = np.ones((6, examples), dtype=np.int64)
    votes = example_votes(right, right[0], np.arange(examples))
    golden = Consistency("golden", 1.0, 1.0, 6, 1, 15 * examples // 5, 0.0, examples / 5)
    one = analysis([importance("a")])
    one = replace(one, examples=votes, consistencies={**one.consistencies, "golden": golden})
    assert said(one, 2) == (
        "Two runs agree on 100.0 % of the predictions: none changes."
        if told
        else "Not reported: the runs share fewer than 10 test examples."
    )
    full = " ".join(answers(Shown(one))[2].sentences)
    assert (
        f"over 6 runs: 15 pairs that share {examples / 5:.2g} examples on average, {examples} in all" in full
    ) is told
    assert (f"is not reported: there are {examples} test examples" in full) is not told
    assert bool(shares(one)) is told


def test_steps_name_what_changes_the_answer_most_first(judged):
    found = judged("minor")
    texts = [(step.text, step.command) for step in steps(Shown(found), SOURCE)]
    assert texts[0] == ("What else moves the score?", "mlflow-l3d investigate reviews.csv --factor all")
    assert texts[1][1].startswith(f"mlflow-l3d gate --baseline {RUN} --candidate 'NAME=VALUE' --smallest-effect ")
    advice = {"undecided": Advice("larger_table", "x", 60, 20), "undecided_2": Advice("more_rows", "x", 90)}
    more = replace(judged("undecided", "undecided_2"), advice=advice, cells_failed=3)
    commands = [step.command for step in steps(Shown(more), SOURCE)]
    assert commands == [
        "mlflow-l3d investigate reviews.csv --factor a",
        "mlflow-l3d investigate reviews.csv --factor a --mitigation-runs 90 --investigation-runs 20",
    ]
    assert steps(Shown(judged("undecided")), Source()) == []


def test_no_luck_at_all_asks_whether_seeds_reach_the_training(importance, analysis):
    record = replace(importance("a"), golden=np.full(6, 0.8), golden_std=0.0)
    (step,) = steps(Shown(analysis([record])), SOURCE)
    assert step.command == "mlflow-l3d investigate reviews.csv --factor a --self-test only"


def test_terminal_has_the_answer_first_and_fits_a_screen(judged):
    lines = investigation_document(judged("dominates"), title="t", source=SOURCE, lines=["done"]).to_text().splitlines()
    assert lines[0].startswith("Between two single runs")
    assert len(lines) <= 25
    (row,) = [line for line in lines if line.startswith("dominates ")]
    assert row.split()[:6] == ["dominates", "dominates", "77", "%", "(64", "to"]


def test_page_is_short_and_links_its_runs(judged):
    source = replace(SOURCE, address="https://mlflow.example/#/experiments/1/runs/")
    five = [f"minor_{at}" for at in range(4)]
    document = investigation_document(judged("dominates", *five), title="t", source=source)
    html = document.to_html()
    assert f'<a href="https://mlflow.example/#/experiments/1/runs/{RUN}">MLflow</a>' in html
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("factor verdict")[0].split()) <= 120
    assert len(first.split()) <= 600


def test_size_stays_small(importance, analysis):
    record = importance("factor", rows=100, columns=10, golden=1000)
    assert len(investigation_document(analysis([record]), title="t").to_html().encode()) < 500_000


def test_description_begins_with_the_answer(judged):
    text = Evaluation("r", judged("dominates"), About(title="t")).description()
    first, *_ = text.split("\n\n")
    assert first.startswith("**Between two single runs, a difference below ")
    assert "**dominates dominates:**" in first
    assert "[[" not in text


def test_objects_of_python_have_no_command():
    assert replace(SOURCE, is_typed=False).command() == ""
    assert SOURCE.command("seeds", factor="b") == "mlflow-l3d seeds reviews.csv --factor b"


def test_a_step_without_a_command_ends_with_a_full_stop():
    assert (Step("Try it:").said, Step("Try it:", "ls").said, Step("Try it?").said) == ("Try it.", "Try it:", "Try it?")


def test_a_script_stands_behind_the_command_as_it_was_typed():
    given = {"approach": "command", "command": "python train.py --seed '{seed}' --name 'a b'", "golden_runs": "9"}
    command = Source(approach="command", given=given).command(mitigation_runs="20")
    typed = "mlflow-l3d investigate --golden-runs 9 --mitigation-runs 20 -- python train.py --seed {seed} --name 'a b'"
    assert command == typed
