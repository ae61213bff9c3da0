"""What a comparison says: the winner first, three answers, every pair around 0, and what would settle an open pair."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pages import Page

from mlflow_l3d.analysis.comparison import SelfCheck, compare_systems
from mlflow_l3d.analysis.comparison.system import System
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.comparison.report import comparison_document, first_table, score_strips, words
from mlflow_l3d.studies.comparison.report.tables import difference_table, luck_table
from mlflow_l3d.studies.comparison.report.words import (
    ComparedParent,
    advice_on,
    answers,
    differing_sentence,
    headline,
    steps,
)
from mlflow_l3d.studies.comparison.results import ComparedRuns

FIRST = (0.5, 0.6, 0.7, 0.8)
SLIGHTLY, CLOSE, APART = (0.9, 0.3, 0.75, 0.55), (0.501, 0.6, 0.699, 0.8), (0.4, 0.51, 0.59, 0.7)
LOWER, WIDE = np.array(APART) - 0.1, {"smallest_effect": 0.02}
SOURCE = Source(run_id="r1", given={"runs": "a,b"})


def systems(rows):
    return [System(name, np.array(scores), {"data_order": np.arange(len(scores))}) for name, scores in rows.items()]


def compared(second, *, metric="accuracy", **options):
    return compare_systems({"task": systems({"A": FIRST, "B": second})}, named(metric), **options)


def among(rows, **options):
    return compare_systems({"task": systems(rows)}, named("accuracy"), **options)


def document(comparison, **more):
    scores = pd.DataFrame({"task": "task", "system": ["A"] * 4, "score": FIRST})
    return comparison_document(comparison, scores, pd.DataFrame(), **more)


def said(comparison, at):
    return marked(answers(comparison)[at].lead)


@pytest.mark.parametrize(
    ("second", "options", "words"),
    [
        (APART, {}, "A is better than B by 10.0 points."),
        (FIRST, {}, "No difference between A and B is established."),
        (CLOSE, {"smallest_effect": 0.01}, "A and B are equivalent within 1 point."),
        (CLOSE, {"smallest_effect": 0.015}, "A and B are equivalent within 1.5 points."),
        (APART, {"metric": "rmse"}, "B is better than A by 0.1000."),
        (CLOSE, {"metric": "rmse", "smallest_effect": 0.01}, "A and B are equivalent within 0.01."),
    ],
)
def test_headline_of_two_names_the_winner_first(second, options, words):
    assert headline(compared(second, **options)) == words


@pytest.mark.parametrize("second", [APART, CLOSE])
def test_nothing_is_decided_about_a_system_that_lost_more_than_a_tenth_of_its_runs(second):
    both, effect = systems({"A": FIRST, "B": second}), {"smallest_effect": 0.01}
    verdicts = []
    for lost in (0, 1):
        tasks = {name: [both[0], replace(both[1], lost=lost)] for name in ("one", "two")}
        found = compare_systems({"one": tasks["one"]}, named("accuracy"), **effect)
        over = compare_systems(tasks, named("accuracy"), **effect)
        verdicts.append({pair.verdict for pair in (*found.differences, *over.differences, *over.over_tasks)})
    assert len(verdicts[0]) == 1
    assert [*verdicts[0], *verdicts[1]] == ["better" if second == APART else "equivalent", "undecided"]
    assert headline(found) == "No verdict on A and B: too many runs failed."
    assert {each.group for each in found.ranks} == {"a"}
    assert said(found, 0).startswith("Not known:")
    fix = "More than 10 % of the runs of B failed: correct their error, and compare again."
    assert [step.text for step in steps(found, {}, SOURCE)] == [said(found, 2)] == [fix]


def test_headline_names_the_winner_first_if_it_is_the_second():
    found = among({"A": APART, "B": FIRST})
    assert headline(found) == "B is better than A by 10.0 points."
    table = first_table(found)
    assert (table.rows[0][0], table.kinds) == ("B - A", ("better",))
    assert table.rows[0][-1].startswith("+10.0\n(+")
    given = among({"B": FIRST, "A": APART})
    assert difference_table(found).rows == difference_table(given).rows  # both have the signs of the headline


@pytest.mark.parametrize(
    ("second", "third", "options", "words"),
    [
        (CLOSE, SLIGHTLY, {}, "No difference between the 3 systems is established."),
        (APART, LOWER, {}, "A is the best of 3 systems, 10.0 points ahead of B."),
        (CLOSE, (0.502, 0.599, 0.7, 0.802), WIDE, "All 3 systems are equivalent within 2 points."),
        (CLOSE, LOWER, {}, "The best of 3 systems is A or B."),
        (CLOSE, LOWER, WIDE, "The best of 3 systems is A or B; they are equivalent within 2 points."),
    ],
)
def test_headline_of_several_says_which_may_be_best(second, third, options, words):
    assert headline(among({"A": FIRST, "B": second, "C": third}, **options)) == words


def test_first_answer_holds_the_interval_and_what_it_allows_for():
    found = compared(APART)
    one = found.differences[0]
    limits = f"{100 * one.joint_low:+.1f} to {100 * one.joint_high:+.1f}"
    words = f"Unlikely: 95 % interval {limits} points. It allows for the luck of runs, not of test examples."
    assert said(found, 0) == words
    counted = replace(found, differences=(replace(one, spread=replace(one.spread, examples=400)),))
    assert said(counted, 0).endswith("It allows for the luck of runs and of 400 test examples.")
    opened = compared(SLIGHTLY)
    assert said(opened, 0).startswith("Yes: A is ahead by 2.5 points, 95 % interval -")
    assert said(compared(FIRST), 0).startswith("Yes: the means are about equal, 95 % interval ")
    alike = compared(CLOSE, smallest_effect=0.01)
    assert said(alike, 0).startswith("It is too small to matter: 95 % interval ")
    assert "and for 3 pairs at once" in said(among({"A": FIRST, "B": APART, "C": SLIGHTLY}), 0)


def test_first_answer_of_an_error_has_the_signs_of_the_table():
    found = compared(APART, metric="rmse")
    one = found.differences[0]
    assert one.difference > 0
    limits = f"{-one.joint_high:+.4f} to {-one.joint_low:+.4f}"
    assert f"interval {limits} (less is better). It" in said(found, 0)
    assert f"({limits})" in first_table(found).rows[0][-1]


def test_first_answer_gives_the_p_value_if_it_claims_more_than_the_joint_interval():
    found = among({"A": FIRST, "B": APART, "C": LOWER})
    one = replace(found.differences[0], joint_low=-0.01, p_adjusted=0.04)
    claimed = said(replace(found, differences=(one, *found.differences[1:])), 0)
    assert claimed.startswith("Unlikely: p = 0.040 for 3 pairs, though 95 % interval -1.0 to")


def test_second_answer_is_the_probability_that_a_run_of_the_winner_wins():
    found = compared(APART)
    share = found.differences[0].run_wins.value
    assert share > 0.5
    assert said(found, 1) == f"One run of A beats one of B in {100 * share:.0f} % of cases."
    assert said(among({"A": APART, "B": FIRST}), 1) == f"One run of B beats one of A in {100 * share:.0f} % of cases."


OF_EACH = "runs of each, if the true difference is the one found."


@pytest.mark.parametrize(
    ("second", "options", "words"),
    [
        (APART, {}, "Nothing: the pair is decided."),
        (FIRST, {}, "A against B. To settle it takes a smallest effect."),
        (FIRST, {"smallest_effect": 0.01}, f"A against B. To settle it takes 100 {OF_EACH}"),
        (SLIGHTLY, {}, f"A against B. To settle it takes 1,311 {OF_EACH}"),
    ],
)
def test_third_answer_says_what_would_settle_an_open_pair(second, options, words):
    found = compared(second, **options)
    assert said(found, 2) == words
    assert answers(found)[2].sentences[1:] == advice_on(found.differences[0]).sentences


def test_third_answer_counts_the_open_pairs():
    found = among({"A": FIRST, "B": CLOSE, "C": LOWER})
    assert said(found, 2).startswith("1 of 3 pairs: A against B. To settle it takes ")
    found = among({"A": FIRST, "B": CLOSE, "C": SLIGHTLY})
    assert said(found, 2).startswith("3 of 3 pairs: A against B, A against C and 1 more. To settle ")


@pytest.mark.parametrize(
    ("changes", "do", "why"),
    [
        ({"verdict": "better"}, "settled", "The 12 runs of each settle it."),
        ({"verdict": "better", "runs": (12, 15)}, "settled", "The 12 and 15 runs of each settle it."),
        ({"runs_to_settle": 16.0}, "16 runs", "12 are there"),
        ({"spread": (0.94, 0.06)}, "more runs and test examples", "about 900 test examples"),
        ({"spread": (0.2, 0.8)}, "more test examples", "about 900 test examples"),
        ({"examples_needed": math.inf}, "a smallest effect", "There is no difference to settle."),
    ],
)
def test_advice_follows_the_verdict_and_what_the_difference_varies_by(changes, do, why):
    found = compared(APART)
    base = {"runs": (12, 12), "verdict": "undecided", "examples_needed": 900.0, "runs_to_settle": math.inf}
    one = found.differences[0]
    of_runs, of_examples = changes.get("spread", (one.spread.of_runs, one.spread.of_examples))
    spread = replace(one.spread, of_runs=of_runs, of_examples=of_examples)
    one = replace(one, **base | changes | {"spread": spread})
    assert advice_on(one).short == do
    assert why in advice_on(one).text
    assert luck_table(replace(found, differences=(one,))).rows[0][-1] == do


PARENTS = [
    ComparedParent("task", "A", "a", "0", {}, "mlflow-l3d investigate reviews.csv --golden-runs RUNS"),
    ComparedParent("task", "B", "b", "0", {}, "mlflow-l3d seeds --seeds RUNS"),
]


def step_of(comparison, parents=PARENTS, source=SOURCE):
    return [(step.text, step.command) for step in steps(comparison, parents, source)]


def opened(**changes):
    found = compared(SLIGHTLY)
    return replace(found, differences=(replace(found.differences[0], **changes),))


def test_steps_are_the_commands_of_both_sides_for_the_runs_that_an_open_pair_needs():
    found = opened(runs_to_settle=44.0)
    assert step_of(found) == [
        (
            "A against B takes about 44 runs of each (80 % power). Finished ones count:",
            "mlflow-l3d investigate reviews.csv --golden-runs 44",
        ),
        ("The same for B; then compare again:", "mlflow-l3d seeds --seeds 44"),
    ]
    assert step_of(opened(runs_to_settle=44.0, runs=(4, 50)))[1:] == []
    named = [PARENTS[0]._replace(command="mlflow-l3d investigate RUNS.csv --golden-runs RUNS -- python $RUNS")]
    command = step_of(found, parents=named)[0][1]
    assert command == "mlflow-l3d investigate RUNS.csv --golden-runs 44 -- python $RUNS"
    words = "A against B takes about 44 runs of each (80 % power). Add runs, and compare again."
    assert step_of(found, parents=[]) == [(words, "")]


def test_no_fewer_runs_are_advised_than_there_are():
    found = opened(runs_to_settle=3.0, runs=(160, 80))
    assert said(found, 2) == f"A against B. To settle it takes 160 {OF_EACH}"
    assert "80 % probability; 160 and 80 are there." in advice_on(found.differences[0]).text
    assert [command for _, command in step_of(found)] == ["mlflow-l3d seeds --seeds 160"]
    alike = opened(runs_to_settle=3.0, runs=(80, 80))
    assert said(alike, 2) == "A against B. To settle it takes shared configurations."
    assert "train both with the same root_seed" in advice_on(alike.differences[0]).text
    ((text, command),) = step_of(alike)
    assert (text[:42], command) == ("A against B: train both with the same root", "")


def test_steps_name_what_settles_a_pair_if_runs_do_not():
    for scores in (SLIGHTLY, FIRST):  # 1,311 runs of each
        ((text, command),) = step_of(compared(scores))
        assert text.startswith("Name the largest difference that does not matter to you. From ")
        effect = float(command.removeprefix("mlflow-l3d compare --runs a,b --smallest-effect ")) / 100
        assert compared(scores, smallest_effect=effect).differences[0].verdict == "equivalent"
    used = compared(SLIGHTLY).differences[0].spread.examples
    assert step_of(opened(runs_to_settle=math.inf, examples_needed=904.0)) == [
        (
            "A against B: no number of runs alone settles it. With unlimited runs it takes about 900 test examples "
            f"({used:,} were used): raise test_size of both, or evaluate larger files, if there are so many.",
            "",
        )
    ]


def test_step_of_a_decided_comparison_is_the_check_of_its_claims():
    command = "mlflow-l3d compare --runs a,b --self-check 1000"
    assert step_of(compared(APART)) == [("How often is such a claim false? Compare each system with itself:", command)]
    checked = replace(SOURCE, given={**SOURCE.given, "self_check": "1000"})
    assert step_of(compared(APART), source=checked) == []


def test_in_what_the_systems_differ_is_said_in_one_sentence():
    def sides(*choices):
        return [ComparedParent("task", name, name, "0", each) for name, each in zip("ABC", choices, strict=False)]

    found = compared(APART)
    assert differing_sentence(found, []) == ""
    assert differing_sentence(found, sides({}, {})) == "No recorded parameter of the two differs."
    two = sides({"approach": "head", "shots": "2"}, {"approach": "icl"})
    assert differing_sentence(found, two) == "They differ in approach (head and icl) and shots (2 and none)."
    many = sides(dict.fromkeys("abcd", "1"), dict.fromkeys("abcd", "2"))
    assert differing_sentence(found, many) == "They differ in a (1 and 2), b (1 and 2), c (1 and 2) and 1 more."
    sized = sides({"golden_runs": "9", "rate": "1"}, {"golden_runs": "3", "rate": "2"})
    assert differing_sentence(found, sized) == "They differ in rate (1 and 2) and golden_runs (9 and 3)."
    three = sides({"approach": "a"}, {"approach": "b"}, {"approach": "c", "shots": "1"})
    assert differing_sentence(found, three) == "They differ in approach and shots."
    assert differing_sentence(found, two) in document(found, parents=two).notes


def test_long_names_become_letters():
    names = [f"learning_rate=0.{at} batch_size=32 epochs=5" for at in (1, 2)]
    found = among(dict(zip(names, (FIRST, APART), strict=True)))
    assert headline(found) == "A is better than B by 10.0 points."
    legend = f"A: {names[0]}, B: {names[1]}"
    assert legend in document(found).about
    # MLflow shows two lines, and the list of `view` what is bold.
    assert document(found).description().startswith(f"**A is better than B by 10.0 points. ({legend})** ")
    text = " ".join(document(found).to_text().split())
    assert text.startswith(f"A is better than B by 10.0 points. {'=' * 34} {legend}")


def test_first_table_has_a_row_for_each_pair_with_its_joint_interval():
    found = among({"A": FIRST, "B": APART, "C": SLIGHTLY}, smallest_effect=0.02)
    table = first_table(found)
    assert [row[0] for row in table.rows] == ["A - B", "A - C", "C - B"]  # the better one of a pair comes first
    for row, one, kind in zip(table.rows, found.differences, table.kinds, strict=True):
        sign = 1 if one.difference > 0 else -1
        value, low, high = (100 * sign * number for number in (one.difference, one.joint_low, one.joint_high))
        low, high = sorted((low, high))
        assert str(row[1]) == kind == ("better" if one.verdict == "worse" else one.verdict)
        assert row[3] == f"{value:+.1f}\n({low:+.1f} to {high:+.1f})"
        assert 'class="band"' in row[2].html
    frame, joint = ComparedRuns("r1", (), found, pd.DataFrame(), pd.DataFrame()).to_frame(), found.differences
    assert frame["low (pp)"].tolist() == pytest.approx([100 * one.joint_low for one in joint])
    assert frame["high (pp)"].tolist() == pytest.approx([100 * one.joint_high for one in joint])
    assert "Grey on the page: up to 2 points" in table.note
    assert 'class="band"' not in first_table(among({"A": FIRST, "B": APART})).rows[0][2].html


def test_first_table_of_many_systems_shows_the_best_against_the_others():
    found = among(
        {name: np.array(FIRST) + 0.05 * at + 0.01 * at * np.array(SLIGHTLY) for at, name in enumerate("ABCDE")}
    )
    table = first_table(found)
    assert [row[0] for row in table.rows] == ["E - A", "E - B", "E - C", "E - D"]
    assert "Not shown: 6 rows." in table.note
    assert len(document(found).sections[0].parts[0].rows) == 10


def test_over_tasks_the_mean_over_them_decides():
    rows = {"A": FIRST, "B": APART}
    tasks = {name: systems({key: np.array(each) - at for key, each in rows.items()}) for at, name in enumerate("xyz")}
    found = compare_systems(tasks, named("accuracy"))
    one = found.over_tasks[0]
    assert headline(found) == "A is better than B by 10.0 points over 3 tasks."
    assert said(found, 0).endswith("It allows for luck on each task, and for tasks that differ.")
    assert said(found, 1) == "One run of A beats one of B in 62 % of cases."
    table = first_table(found)
    assert [row[0] for row in table.rows] == ["all tasks", "x", "y", "z"]
    assert table.head[0] == "A - B"
    assert table.rows[0][3].startswith(f"{100 * one.found.difference:+.1f}\n({100 * one.found.low:+.1f} to ")


def test_a_claimed_difference_is_not_rounded_to_0_where_errors_of_single_tasks_have_fewer_digits():
    slightly = np.array(FIRST) - 0.00049 - 0.0018 * np.array([1, -1, 1, -1])
    found = compare_systems({str(at): systems({"A": FIRST, "B": slightly}) for at in range(40)}, named("accuracy"))
    assert headline(found) == "A is better than B by 0.05 points over 40 tasks."
    assert first_table(found).rows[0][-1] == "+0.05\n(+0.02 to +0.08)"
    assert difference_table(found).rows[-1][3:5] == ("+0.05", "+0.02 to +0.08")


def test_the_decimals_of_a_table_are_decided_once(monkeypatch):
    found = among({"A": FIRST, "B": APART, "C": LOWER, "D": SLIGHTLY})
    looked, plain = [], words.judged
    monkeypatch.setattr(words, "judged", lambda comparison: looked.append(1) or plain(comparison))
    assert len(difference_table(found).rows) == 6
    assert len(looked) == 1 + 6  # which of a pair is first is decided for each
    few, many, plainly = [], [], words.change
    for calls, names in ((few, "AB"), (many, "ABCD")):
        systems_of = dict(zip("ABCD", (FIRST, APART, LOWER, SLIGHTLY), strict=True))
        found = among({name: systems_of[name] for name in names})
        monkeypatch.setattr(words, "change", lambda *args, calls=calls: calls.append(1) or plainly(*args))
        assert first_table(found).rows
    assert len(few) == len(many) == 1


def test_what_is_paired_and_what_is_not_is_said():
    one = System("A", np.array([0.5, 0.6, 0.8]), {"data_split": np.arange(3), "data_order": np.arange(3)})
    other = System("B", np.array([0.4, 0.6, 0.7]), {"data_split": np.arange(3), "sample_choice": np.arange(3)})
    table = luck_table(compare_systems({"t": [one, other]}, named("accuracy")))
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["configurations\nof shared runs"] == "data_split"
    assert row["of one\nsystem alone"] == "data_order, sample_choice"


def test_false_claims_are_warned_of_on_the_first_screen():
    check = SelfCheck("A", 1000, 200, 0.05)
    doubt = "Do not trust these verdicts: compared with itself, A differs in 20.0 %, not 5.0 %."
    assert document(compared(APART), checks=[check]).notes == [doubt]


def test_a_self_check_that_holds_is_told_next_to_its_nominal_rate():
    checks = [SelfCheck("A", 100, 4, 0.05), SelfCheck("A-B", 100, 6, 0.05)]
    note = "A/A: if nothing differs, at most 6.0 % of 100 comparisons claim a difference (5.0 % may)."
    assert note in " ".join(document(compared(APART), checks=checks).to_text().split())


def test_the_first_screen_is_short():
    found = among({"A": FIRST, "B": APART, "C": SLIGHTLY}, smallest_effect=0.02)
    shown = document(found, parents=[PARENTS[0]._replace(system=name) for name in "ABC"], source=SOURCE)
    assert len(shown.to_text().splitlines()) <= 25
    before, _, _ = Page(shown.to_html(folded=False)).text.partition("verdict")
    assert len(before.split()) <= 120
    assert len(Page(shown.to_html(folded=False)).text.split()) <= 300


def test_every_run_is_a_dot():
    strips = next(section for section in document(compared(APART)).sections if section.title == "Every run").parts
    assert [part.html.count('class="dot"') for part in strips] == [4]
    scores = pd.DataFrame({"task": "task", "system": "A", "score": np.linspace(0, 1, 301)})
    (many,) = score_strips(compared(APART), scores)
    assert (strips[0].caption, many.caption) == ("A. Dots: runs.", "A. A bar: how many runs.")
