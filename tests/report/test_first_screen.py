"""What an investigation says first: a sentence that decides, three answers, the factors, and what to do next."""

import math
import re
import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pages import Page
from scipy import stats

from mlflow_l3d.analysis.consistency import Consistency
from mlflow_l3d.analysis.consistency.examples import example_votes
from mlflow_l3d.analysis.consistency.results import PredictionImportance
from mlflow_l3d.analysis.cure import NO_PREDICTIONS, Foreseen, Prediction, Range, Remedy
from mlflow_l3d.analysis.importance import radial_importance
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.analysis.importance.shape import Collapse, single_run_limit
from mlflow_l3d.analysis.importance.verdicts import Advice, verdict_of
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import advise
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.html import shares_bar
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Step, changed_predictions, marked
from mlflow_l3d.studies.investigation.remedies import MemberRows, foresee
from mlflow_l3d.studies.investigation.report import OVERLAP, details, first_table, help_table, investigation_document
from mlflow_l3d.studies.investigation.report.details import luck_details
from mlflow_l3d.studies.investigation.report.runs import Runs
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import answers, headline, steps

RUN = "8d700d7ae2b3440c89188f7d6099561f"
TOO_FEW = "are too few to say how much is luck."
NONE_ALONE = "No factor alone is involved in half of the variance."
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


def test_a_rare_class_comes_first_with_the_line_to_type(importance, analysis):
    message = "class b: 1 test example. Leave it out, in pandas: data = data[1]."
    check = Check("L3D016", "warning", "Rare classes", message)
    first, _ = steps(Shown(replace(analysis([importance("a", golden=40)]), checks=(check,))), SOURCE)
    assert first == Step("class b: 1 test example. Leave it out, in pandas:", "data = data[1]")


def test_headline_says_how_many_runs_are_no_better_than_guessing(importance, analysis):
    found = analysis([importance("a", golden=5)])
    runs = len(found.importances["a"].golden)
    text = marked(headline(Shown(replace(found, guessing=runs))))
    assert text.startswith("100 % of the runs are no better than guessing; a difference below ")


def test_a_factor_that_dominates_by_its_test_examples_says_so(importance, analysis):
    names, moved = ("data_split", "data_order"), 0.01
    dominant = [replace(importance(name, interval=(0.4, 0.2, 0.6)), moves_by_std=moved) for name in names]
    for records, whose in ((dominant, "dominate, data_split mostly"), (dominant[:1], "data_split dominates, mostly")):
        found = replace(analysis(records), test_examples=305, luck_of_tests=0.8 * moved)
        assert f"{whose} by which 305 examples are tested" in said(found, 1)
        for other in (replace(found, luck_of_tests=0.7 * moved), replace(found, tests_drawn=False)):
            assert "examples are tested" not in said(other, 1)
            assert "dominate" in said(other, 1)


def test_that_shares_overlap_stands_once(judged):
    """Below the table, whose shares add up to more than 100 %; not in the answer above it, too."""
    assert OVERLAP in first_table(Shown(judged("dominates", "dominates_too"))).note


def test_a_factor_that_moves_more_than_all_luck_is_an_estimate(importance, analysis):
    record = importance("a", golden=40)

    def note(moved):
        return first_table(Shown(analysis([replace(record, moves_by_std=moved)]))).note

    std = f"{100 * record.golden.std(ddof=1):.1f}"
    more = f"a moves the score by more than ± {std}: two estimates, each with its own error."
    assert note(1.2 * record.golden_std).endswith(more)
    assert "two estimates" not in note(0.9 * record.golden_std)


def test_headline_says_how_far_two_runs_lie_apart_by_luck(importance, analysis):
    found = analysis([importance("a", golden=5)])
    golden = found.importances["a"].golden
    limit = stats.t.ppf(0.975, len(golden) - 1) * math.sqrt(2) * golden.std(ddof=1)
    text = f"Between two single runs, a difference below {100 * limit:.1f} points may be luck."
    assert marked(headline(Shown(found))) == text
    assert "So few runs" not in said(found, 0)
    few = analysis([replace(importance("a"), golden=np.array([0.7, 0.72]))])
    assert marked(headline(Shown(few))).startswith("Between two single runs, a difference below 25.4 points ")
    assert said(few, 0).endswith("So few runs barely show how much scores vary.")
    assert "mse" not in headline(Shown(replace(found, metric=named("mse"))))
    assert "points" not in headline(Shown(replace(found, metric=named("mse"))))


def test_scores_in_two_groups_are_told_of_by_their_own_distances():
    rng = np.random.default_rng(0)
    scores = np.concatenate([0.6 + 0.01 * rng.standard_normal(50), 0.8 + 0.01 * rng.standard_normal(50)])
    limit = single_run_limit(scores)
    assert limit < 1.96 * math.sqrt(2) * scores.std()
    first, second = rng.choice(scores, 100_000), rng.choice(scores, 100_000)
    assert np.mean(np.abs(first - second) > limit) == pytest.approx(0.05, abs=0.01)
    normal = rng.standard_normal(2000)
    assert single_run_limit(normal, 1.0) == pytest.approx(1.96 * math.sqrt(2), rel=1e-3)


@pytest.mark.parametrize(
    ("golden", "spread", "words"),
    [
        ([0.8] * 6, 0.0, "All 6 golden runs scored 80.0: the varied factors change no score."),
        ([0.8] * 6, 0.1, f"All 6 golden runs scored 80.0, but other runs did not: 6 {TOO_FEW}"),
        ([0.7, 0.1 * 7, 0.7], 0.0, f"All 3 golden runs scored 70.0, but other runs did not: 3 {TOO_FEW}"),
        ([0.8, math.nan], 0.1, "Too few runs have a score to say how much of it is luck."),
    ],
)
def test_headline_without_luck_or_without_scores(importance, analysis, golden, spread, words):
    record = importance("a")
    table = 0.8 + spread * (record.table - record.table.mean())
    record = replace(record, golden=np.array(golden), golden_std=0.0, table=table)
    assert headline(Shown(analysis([record]))) == words


def test_first_answer_holds_range_mean_and_deviation_of_the_golden_runs(importance, analysis):
    record = importance("a")
    record.golden[:3] = math.nan
    golden = 100 * record.golden[3:]
    assert said(analysis([record]), 0) == (
        f"Of 237 trainings, 37 with everything redrawn gave {golden.min():.1f} to {golden.max():.1f} "
        f"(f1_macro, %), typically {golden.mean():.1f} ± {golden.std(ddof=1):.1f}."
    )


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        (["dominates"], "dominates dominates: involved in 77 % (64 to 88 %) of the variance."),
        (["minor"], "minor is minor: involved in 23 % (12 to 36 %) of the variance."),
        (["undecided"], "undecided is undecided: involved in 57 % (17 to 93 %) of the variance."),
        (["dominates", "minor", "undecided"], "dominates dominates. minor is minor; undecided is undecided."),
        (["dominates", "dominates_2"], "dominates and dominates_2 dominate."),
        (["dominates", "dominates_2", "minor"], "dominates and dominates_2 dominate. minor is minor."),
        (["minor", "minor_2"], f"{NONE_ALONE} The largest share has minor: 23 % (12 to 36 %)."),
        (["undecided", "undecided_2"], "Undecided for both factors: 20 rows are too few."),
        (
            ["minor", "undecided", "undecided_2"],
            "No factor is established to dominate. minor is minor; undecided and undecided_2 are undecided.",
        ),
    ],
)
def test_second_answer_has_a_sentence_for_every_case(judged, factors, words):
    assert said(judged(*factors), 1) == words


@pytest.mark.parametrize(("alone", "claims"), [(1.0, range(4)), (0.0, range(57, 61))])
def test_interactions_are_claimed_beyond_error_only(analysis, alone, claims):
    rng, notes = np.random.default_rng(4), []
    for _ in range(60):
        a, b, a2, b2 = rng.normal(size=(4, 200))
        base, *swaps = (alone * (x + y) + (1 - alone) * x * y for x, y in ((a, b), (a2, b), (a, b2)))
        records = radial_importance(base, {"a": swaps[0], "b": swaps[1]}, level=0.975)
        notes.append(first_table(Shown(replace(analysis([*records.values()]), design="radial"))).note)
    assert sum(OVERLAP in note for note in notes) in claims
    estimates = sum(note.endswith("Shares are estimates and need not add up to 100 %.") for note in notes)
    assert estimates >= 15 * alone


def test_undecided_for_another_reason_than_runs_says_so(judged):
    found = replace(judged("dominates", "minor"), checks=(Check("L3D013", "warning", "Long tails", "x"),))
    assert "long tails" in said(found, 1)
    table = investigation_document(found, title="t").table
    assert "dominates and minor are undecided: the scores have long tails" in table.note
    assert table.note.count("long tails") == 1


def test_a_reason_of_one_factor_is_not_that_of_all(judged):
    check = Check("L3D010", "warning", "Duplicated columns", "x", "minor")
    reason = "rows or columns have equal scores (L3D010), so the interval is too narrow."
    found, both = judged("minor", "undecided"), (check, replace(check, factor="undecided"))
    assert said(replace(found, checks=(check,)), 1) == f"Undecided for both factors. minor: {reason}"
    assert said(replace(found, checks=both), 1) == f"Undecided for both factors: {reason}"


@pytest.mark.parametrize("agreement", ["exact_match", "token_match", None, "regression"])
def test_answers_whose_votes_only_cure_predicts_are_not_called_missing(importance, analysis, agreement):
    found = foresee(MemberRows(design_named("crossed")), replace(analysis([importance("a")]), agreement=agreement), 0)
    predicted = "Type mlflow-l3d cure RUN: it predicts what votes of such answers leave."
    assert found.reason == (NO_PREDICTIONS if agreement in (None, "regression") else predicted)


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
    agree = "Two runs agree on 100.0 % of the predictions: none changes."
    assert said(one, 2) == (agree if told else "Not reported: the runs share fewer than 10 test examples.")
    full = " ".join(answers(Shown(one))[2].sentences)
    counted = f"over 6 runs: 15 pairs that share {examples / 5:.2g} examples on average, {examples} in all"
    assert (counted in full) is told
    assert (f"is not reported: there are {examples} test examples" in full) is not told
    assert bool(shares_bar(one.examples, ("every", "some", "none"))) is told


def test_steps_name_what_changes_the_answer_most_first(judged):
    found = judged("minor")
    texts = [(step.text, step.command) for step in steps(Shown(found), SOURCE)]
    assert texts[0] == ("What else moves the score?", "mlflow-l3d investigate reviews.csv --factor all")
    gate = f"mlflow-l3d gate --baseline {RUN} --candidate hyperparameters=NAME=VALUE --smallest-effect "
    assert texts[1][1].startswith(gate)
    script = replace(SOURCE, approach="command", given={"command": "python train.py --seed {seed}"})
    assert " --candidate 'command=python train.py --seed {seed}' " in steps(Shown(found), script)[1].command
    given = {**SOURCE.given, "metric": "accuracy"}
    assert steps(Shown(found), replace(SOURCE, given=given))[1].command.endswith(" --metric accuracy")
    no_way = replace(judged("undecided"), advice={"undecided": Advice("unaffordable", "It is too close to 0.")})
    assert steps(Shown(no_way), SOURCE)[0].text == "It is too close to 0."
    advice = {"undecided": Advice("larger_table", "x", 60, 20), "undecided_2": Advice("more_rows", "x", 90)}
    more = replace(judged("undecided", "undecided_2"), advice=advice, cells_failed=3)
    commands = [step.command for step in steps(Shown(more), SOURCE)]
    again = "mlflow-l3d investigate reviews.csv --factor a"
    assert commands == [again, f"{again} --mitigation-runs 90 --investigation-runs 20"]
    assert steps(Shown(judged("undecided")), Source()) == []


def test_the_luck_of_the_test_examples_comes_before_more_runs(judged):
    found = replace(judged("undecided"), advice={"undecided": Advice("more_rows", "x", 90)})
    std = found.importances["undecided"].golden_std
    few = replace(found, test_examples=40, luck_of_tests=0.9 * std)
    assert said(few, 0).endswith(f" 40 test examples alone cause ± {90 * std:.1f}.")
    first, second = steps(Shown(few), SOURCE)
    assert first.text.startswith("Test more examples, or label more, since 40 alone cause ")
    assert second.text == "More runs may settle undecided; finished ones count:"
    more_step, *others = (steps(Shown(few), replace(SOURCE, unused_tests=number))[0] for number in (1132, 0, 1))
    assert more_step.command == SOURCE.command(test_size="80")
    assert steps(Shown(few), replace(SOURCE, unused_tests=20))[0].command == SOURCE.command(test_size="60")
    more, all_used, one_left = (step.text for step in (more_step, *others))
    assert not any(step.command for step in others)
    assert one_left.startswith("Label more examples (only 1 test examples are unused), since ")
    assert more.startswith("Test more examples (test_size; 1,132 are unused), since 40 alone cause ")
    assert all_used.startswith("Label more examples (all test examples are in use), since 40 alone cause ")
    above = replace(few, luck_of_tests=1.1 * std)
    assert said(above, 0).endswith(" 40 test examples alone cause about all of it.")
    assert steps(Shown(above), SOURCE)[0].said.endswith(", since 40 alone cause about all of the luck.")
    for luck in (0.9 * std, 1.1 * std):
        fixed = replace(few, luck_of_tests=luck, tests_drawn=False)
        shared = f" All runs share their 40 test examples, whose luck comes on top: ± {100 * luck:.1f}."
        assert said(fixed, 0).endswith(shared)
        assert steps(Shown(fixed), SOURCE)[0] == second
    unknown = replace(few, luck_of_tests=math.nan, tests_drawn=False)
    assert said(unknown, 0) == said(found, 0)
    many = replace(found, test_examples=4000, luck_of_tests=0.1 * std)
    assert steps(Shown(many), SOURCE)[0] == second
    two = Shown(replace(found, test_examples=2))
    assert headline(two) == "2 test examples: no answer is possible."
    assert steps(two, SOURCE)[0].said == "Test more examples, or label more."
    assert all("More runs" not in step.text for step in steps(two, SOURCE))
    run = Consistency("golden", 0.9, 0.8, 6, 1, 15, 0.0, 1.5)
    for common, is_told in ((1.5, False), (200, True)):
        compared = replace(two.analysis, consistencies={"golden": replace(run, common_examples=common)})
        assert ("Two runs agree" in said(compared, 2)) is is_told
        assert ("Two runs agree" in details.sentence(Shown(compared), SOURCE)) is is_told
        assert details.sentence(Shown(compared), SOURCE).startswith("Each run had only 2 test examples, so ")
    cells = pd.DataFrame({"duration_seconds": [0.5, 1.5]})
    record = found.importances["undecided"]
    rows, columns = record.table.shape
    seconds = 90 * columns + round(len(record.golden) * 90 / rows) - len(record.golden) - rows * columns
    assert f" (about {seconds / 60:.0f} min of training); finished" in steps(Shown(many), SOURCE, Runs(cells))[0].text


def test_no_limit_exceeds_the_range_of_the_metric(judged):
    found = judged("dominates")
    record = replace(found.importances["dominates"], golden=np.array([0.0, 1.0, 0.0, 1.0]), golden_std=0.6)
    text = headline(Shown(replace(found, importances={"dominates": record})))
    assert text.startswith("Between two single runs, a difference below 100.0 points")


@pytest.mark.parametrize("code", ["L3D005", "L3D009", "L3D010", "L3D013"])
def test_no_step_asks_for_runs_that_cannot_decide(judged, code):
    """The interval contains 0, and would not be believed if it did not."""
    found, check = judged("undecided"), Check(code, "warning", "x", "x")
    record = found.importances["undecided"]
    collapse = Collapse(40, 4, {}, {}) if code == "L3D005" else None
    verdict = verdict_of(record, [check], collapse)
    assert (verdict.word, verdict.needs_runs) == ("undecided", False)
    assert code in verdict.reason
    advice = advise(design_named("nested"), record, verdict)
    assert ("Compare the predictions of the equal rows or columns." in advice.text) == (code == "L3D010")
    first, second = steps(Shown(replace(found, advice={"undecided": advice})), SOURCE)
    assert (first.text, first.command) == (advice.text, "")
    assert second.text == "What else moves the score?"


def test_advice_on_a_factor_is_said_once_on_the_page(judged):
    found = replace(judged("undecided"), advice={"undecided": Advice("more_rows", "Take 90 rows.", 90)})
    assert investigation_document(found, title="t").to_html().count("Take 90 rows.") == 1


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


def test_what_would_help_is_said_with_numbers_and_the_command(judged):
    def vote(k: int, std: float) -> Prediction:
        ranges: dict[str, Any] = {
            "std_before": 0.0125,
            "std": Range(std, std / 2, 24 * std),
            "mean_change": Range(0.034, 0.01, 0.06),
            "ratio": Range(std / 0.0125, 0.2, 0.9) if k < 9 else Range(),
        }
        return Prediction(remedy=Remedy("vote", ("data_order",), k), basis="exact", trainings=k, **ranges)

    none = judged("dominates", *[f"minor_{at}" for at in range(4)])
    found = replace(none, remedies=Foreseen(tuple(vote(k, 0.01 / k) for k in (3, 5, 9)), 0.0125))
    assert len(answers(Shown(none))) == 3
    vote_of_3, mean = "A vote of 3 runs differing in data_order", "mean +3.4 (+1.0 to +6.0)."
    assert said(found, 3) == f"{vote_of_3} leaves ± 0.3 of ± 1.2 points (20 to 90 %); {mean}"
    unsure = replace(none, remedies=Foreseen((replace(vote(3, 0.01), ratio=Range(0.8, 0.6, 1.1)),), 0.0125))
    assert said(unsure, 3) == f"{vote_of_3} may leave ± 1.0 of ± 1.2 points (60 to 110 %); {mean}"
    doubtful = replace(vote(3, 0.01), ratio=Range(0.92, 0.83, 0.997))
    shown = Shown(replace(none, remedies=Foreseen((doubtful,), 0.0125)))
    assert steps(shown, SOURCE)[-1].command == f"mlflow-l3d cure {RUN}"  # 20 golden runs will not show it
    commands = [step.command for step in steps(Shown(found), SOURCE)]
    assert commands[-1] == f"mlflow-l3d cure {RUN} --verify 1 --remedy 'vote of 3 runs over data_order'"
    assert len(commands) <= 2
    document = investigation_document(found, title="t", source=SOURCE)
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("factor verdict")[0].split()) <= 120
    assert len(first.split()) <= 600
    assert "± 0.1 0.1 to 2.7" in first.replace("(", "").replace(")", "")
    assert "(20 to 90 %)" in first
    table = help_table(Shown(found))
    assert "Arrow" not in "".join(table.lines())  # nothing is drawn in the terminal
    longest = Remedy("mean", ("model_initialisation",), 4)
    needs = tuple(replace(each, remedy=longest, ratio=Range(0.9, 0.8, 1.02)) for each in found.remedies.best)
    wide = help_table(Shown(replace(found, remedies=Foreseen(needs, 0.0125))))
    assert sum(line.startswith("---") for line in wide.lines()) == 1  # no second table for the last column
    assert "Arrow: the interval is longer." in first  # 2.7 is more than twice 1.2
    assert document.to_html().count(">▶</text>") == 1
    alone = replace(judged("dominates"), remedies=found.remedies)
    assert len(investigation_document(alone, title="t", source=SOURCE, lines=["done"]).to_text().splitlines()) <= 25
    guessing = replace(found, guessing=30)
    assert said(guessing, 3).startswith("First make all runs better than guessing (L3D005). What is predicted below")
    nothing = replace(found, remedies=Foreseen((), 0.0125, "No vote helps."))
    assert said(nothing, 3) == "No vote helps."
    assert not any("cure" in step.command for step in steps(Shown(nothing), SOURCE))
    unlearned = replace(nothing, guessing=30)  # what is for it can be verified without a prediction
    assert steps(Shown(unlearned), SOURCE)[-1].command == f"mlflow-l3d cure {RUN}"
    one = replace(judged("minor"), remedies=Foreseen((), 0.0125, "No vote helps."), tests_drawn=True, test_examples=50)
    one = replace(one, luck_of_tests=1.0)  # the first step is to test more examples
    assert steps(Shown(one), SOURCE)[1].text.startswith("What else moves the score?")
    first_step, second = steps(Shown(guessing), SOURCE)
    assert first_step.text.startswith("First make all runs better than guessing (L3D005): ")
    assert "--verify" not in second.command
    cured = replace(SOURCE, given={**SOURCE.given, "cure": '{"kind": "vote", "over": ["data_order"], "members": 5}'})
    lead = answers(Shown(nothing), cured)[3].lead
    assert lead == "These runs have a remedy: a vote of 5 runs differing in data_order. No vote helps."


def test_intervals_are_named_by_the_level_at_which_they_hold_together(judged):
    note = marked(first_table(Shown(judged("minor", "minor_2"))).note)
    decided = "Above 50 %: dominates; below: minor; else undecided."
    assert note == f"The intervals of all factors hold together with 95 %. {decided}"
    pairs = first_table(Shown(replace(judged("minor", "minor_2"), design="radial"))).note
    assert marked(pairs) == note.replace("95 %.", "95 %, somewhat less if factors interact strongly.")
    alone = first_table(Shown(judged("minor"))).note
    assert marked(alone) == "95 % interval above 50 %: dominates; below: minor; else undecided."
    found = judged("minor", "minor_2")
    ends: dict[str, Any] = {"golden_std_ci_low": 0.01, "golden_std_ci_high": 0.02}
    records = {name: replace(record, level=0.975, **ends) for name, record in found.importances.items()}
    page = Page(investigation_document(replace(found, importances=records), title="t").to_html()).text
    text = page.replace("\N{NO-BREAK SPACE}", " ")
    together = " (so that the intervals of all factors hold together with 95 %)"
    assert f"The 97.5 % intervals hold for each factor{together}" in text
    assert re.search(r"The 97\.5 % interval of the standard deviation is [\d.]+ to [\d.]+ \(so that", text)


def test_size_stays_small(importance, analysis):
    record = importance("factor", rows=100, columns=10, golden=1000)
    assert len(investigation_document(analysis([record]), title="t").to_html().encode()) < 500_000


def test_description_begins_with_the_answer(judged):
    described = investigation_document(judged("dominates"), title="t").description("a note", first=1)
    first, second, *_, note = described.split("\n\n")
    assert first.startswith("**Between two single runs, a difference below ")
    assert "**dominates dominates:**" in first
    assert second.startswith("**How much is luck?** ")
    assert note == "a note"
    assert "[[" not in described


def test_objects_of_python_have_no_command():
    assert replace(SOURCE, is_typed=False).command() == ""
    assert SOURCE.command("seeds", factor="b") == "mlflow-l3d seeds reviews.csv --factor b"


def test_steps_that_only_python_can_take_are_in_words(judged):
    source = replace(SOURCE, is_typed=False)
    advice = {"undecided": Advice("more_rows", "Use 40 rows.", 40)}
    found = replace(judged("undecided"), advice=advice, cells_failed=1)
    failed, more = steps(Shown(found), source)
    assert failed.said == "1 run failed. If you remove the cause, the same command trains the rest."
    assert failed.command == ""
    assert more.said == "More runs (mitigation_runs=40) may settle undecided; finished ones count."
    assert more.command == ""
    other, gate = steps(Shown(judged("minor")), source)
    assert (other.said, other.command) == ("What else moves the score? factor=all shows it.", "")
    assert gate.command.startswith(f"mlflow_l3d.gate(baseline={RUN!r}, candidate='RUN_ID', smallest_effect=")
    assert source.on_runs("cure", RUN) == f"mlflow_l3d.cure({RUN!r})"
    assert source.on_runs("cure", RUN, verify=1) == "mlflow_l3d.cure(result, verify=1)", "an id trains no object"
    assert int(gate.command.split("most_runs=")[1].rstrip(")")) <= len(Shown(found).golden_scores)
    whole = judged("minor")
    few = {name: replace(record, golden=record.golden[:6]) for name, record in whole.importances.items()}
    *_, gate = steps(Shown(replace(whole, importances=few)), source)
    assert gate.command.endswith("most_runs=6)")
    assert "runs each, and 6 are here. Investigate it" in gate.text


def test_a_step_without_a_command_ends_with_a_full_stop():
    assert (Step("Try it:").said, Step("Try it:", "ls").said, Step("Try it?").said) == ("Try it.", "Try it:", "Try it?")


def test_a_script_stands_behind_the_command_as_it_was_typed():
    given = {"approach": "command", "command": "python train.py --seed '{seed}' --name 'a b'", "golden_runs": "9"}
    several = {**given, "command": f"{given['command']};{given['command']} --rate 2"}
    typed = shlex.split(Source(approach="command", given=several).command("sweep"))
    assert typed[typed.index("--command") + 1] == several["command"]
    command = Source(approach="command", given=given).command(mitigation_runs="20")
    typed = "mlflow-l3d investigate --golden-runs 9 --mitigation-runs 20 -- python train.py --seed {seed} --name 'a b'"
    assert command == typed


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.4, "4 in 10 change"), (0.364, "one in 3 changes"), (0.149, "one in 7 changes")]
    + [(share, "") for share in (math.nan, 0.41, 1.0)],
)
def test_a_share_is_one_in_so_many_only_if_that_is_right_and_not_large(share, words):
    assert changed_predictions(share) == (f": **about {words}** with the seed" if words else "")


def test_agreement_is_not_reported_of_few_examples_and_not_logged_if_runs_share_less_than_one(importance, analysis):
    found = analysis([importance("a")])
    golden = replace(found.consistencies["golden"], pairs_of_predictions=200, fleiss_kappa=0.5, common_examples=20.0)
    whole = replace(found, consistencies={"golden": golden}, examples=None)
    names = {"consistency/golden", "correct_consistency/golden", "fleiss_kappa/golden"}
    assert names <= set(whole.metrics())
    few = replace(golden, common_examples=0.96)
    for each in (few, replace(golden, pairs_of_predictions=9)):
        withheld = replace(whole, consistencies={"golden": each})
        assert (names <= set(withheld.metrics())) == (each is not few)
        assert withheld.reported_agreement("golden") is None
        # The factor's part in the instability is a ratio to the golden runs' one.
        shares = replace(withheld, prediction_importances={"a": PredictionImportance("a", *(0.5,) * 5, 4, ())})
        assert ("prediction_share" in shares.metrics()) == (each is not few)
    lead = answers(Shown(replace(whole, consistencies={"golden": few})))[2].lead
    assert "two runs share less than one test example on average" in lead
    apart = {"b": replace(few, group="b", consistency=0.1)}
    alone = replace(whole, consistencies={"a": replace(golden, group="a"), **apart})
    for kind, word in ((None, "on"), ("rougeL", "to")):
        lead = answers(Shown(replace(alone, agreement=kind)))[2].lead
        assert f"[[Two runs that differ in a only agree|agree]] {word} " in lead


def test_the_interval_of_the_spread_says_what_it_cannot_count(judged):
    """Of 40 runs none collapsed: up to 7 % of all may (1 - 0.05^(1/40)); of 200 at most 1.5 %, which is left unsaid."""
    found = judged("dominates")

    def details(times: int, *checks: Check, level: float = 0.95) -> list[str]:
        ends = {"golden_std_ci_low": 0.01, "golden_std_ci_high": 0.02, "level": level}
        [(name, record)] = found.importances.items()
        records = {name: replace(record, golden=np.tile(record.golden, times), **ends)}
        return [*luck_details(Shown(replace(found, importances=records, checks=checks)))]

    runs = found.importances["dominates"].golden.size
    assert runs == 40
    assert details(1)[0].startswith("The 95 % interval of the standard deviation is 1.00 to 2.00")
    assert details(1)[1] == "It leaves out collapses that no run shows: up to 7 % of all."
    assert "collapses" not in " ".join(details(5))
    below = Check("L3D005", "warning", "Golden runs below chance", "x")
    assert "that no run shows" not in " ".join(details(1, below)), "the tail of the others, if not apart from them"
    for factor, is_said in ((None, True), ("dominates", False)):
        text = " ".join(details(1, Check("L3D013", "warning", "Long tails", "x", factor)))
        assert ("it covers 60 to 95 %" in text) == is_said
    five_factors = details(1, Check("L3D013", "warning", "Long tails", "x"), level=0.99)
    assert "it covers 60 to 99 %" in " ".join(five_factors)
