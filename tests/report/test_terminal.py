import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlflow_l3d.analysis.consistency.examples import example_votes
from mlflow_l3d.analysis.consistency.results import Consistency, PredictionImportance
from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import points, shorten, signed
from mlflow_l3d.report.table import WIDTH
from mlflow_l3d.studies.investigation.report.factor_tables import factor_texts
from mlflow_l3d.studies.investigation.report.page import investigation_document
from mlflow_l3d.studies.investigation.report.prediction_tables import prediction_text, shares
from mlflow_l3d.studies.investigation.report.verdicts import Shown, by_code
from mlflow_l3d.studies.investigation.report.words import answers


def text_of(analysis, title="t", **more):
    return investigation_document(analysis, title=title, **more).to_text()


def table_line(text: str, factor: str) -> list[str]:
    """Return the words of a factor's line in the table, which stands before its verdict."""
    return next(line for line in text.splitlines() if line.startswith(factor)).split()


def test_table_holds_the_numbers_of_the_record(importance, analysis):
    record = replace(importance("data_order", missing=[(3, 4)], interval=(-0.31, -0.9, 0.1)), moves_by_std=0.0123)
    words = table_line(text_of(analysis([record]), title="t"), "data_order")
    assert words[1:5] == ["undecided", "-0.31", "[-0.90,", "+0.10]"]
    assert words[5:8] == [f"{100 * each:.2f}" for each in (0.0123, record.golden_std, np.nanmean(record.table))]
    assert words[8:] == ["93.4", "74.1", f"{record.importance:+.2f}", "no", "1"]


def test_factors_stand_by_corrected_importance_and_unknown_ones_last(importance, empty, analysis):
    scores = {"low": -0.5, "high": 0.7, "middle": 0.0}
    made = [replace(importance(name, interval=(score, -1, 1)), importance=-score) for name, score in scores.items()]
    records = [empty("nothing"), *made]
    found = analysis(records)
    assert [record.factor for record in Shown(found).records] == ["high", "middle", "low", "nothing"]
    lines = text_of(found, title="t").splitlines()
    starts = [lines.index(next(line for line in lines if line.startswith(name))) for name in ("high", "middle", "low")]
    assert starts == sorted(starts)
    assert found.to_frame()["factor"].tolist() == ["high", "middle", "low", "nothing"]


@pytest.mark.parametrize(
    ("score", "low", "high", "word", "important"),
    [
        (0.3, 0.1, 0.5, "dominates", True),
        (0.3, -0.1, 0.5, "undecided", True),
        (0.3, 0.0, 0.5, "undecided", True),
        (0.3, -0.5, -0.1, "minor", True),
        (0.3, math.nan, math.nan, "undecided", True),
        (0.0, -0.5, -0.1, "minor", False),
        (-0.3, 0.1, 0.5, "dominates", False),
        (math.nan, 0.1, 0.5, "dominates", None),
        (math.inf, 0.1, 0.5, "dominates", None),
    ],
)
def test_the_interval_decides_and_the_published_rule_has_a_column_of_its_own(
    importance, analysis, score, low, high, word, important
):
    record = replace(importance("data_order", interval=(0.0, low, high)), importance=score)
    found = analysis([record])
    assert (Shown(found).verdict(record), Shown(found).is_important(record)) == (word, important)
    assert Shown(found).sentence(record).startswith(f"{word}. It moves the score by")
    texts = text_of(found, title="t").splitlines()
    assert word in next(line for line in texts if line.startswith("data_order "))
    assert found.to_frame()["verdict"].tolist() == [word]


def test_sentence_names_why_there_is_no_importance(importance, empty, analysis):
    record = replace(importance("a"), importance_corrected=math.nan)
    every = [empty("none"), record, *(replace(record, factor=name, **how) for name, how in _LACKING.items())]
    shown = Shown(analysis(every))
    said = {each.factor: shown.sentence(each) for each in every}
    assert "0 rows with a score" in said["none"]
    assert "fewer than 2 golden runs" in said["few"]
    assert "all golden runs have the same score" in said["equal"]


_LACKING = {"few": {"golden": np.array([0.8, math.nan])}, "equal": {"golden_std": 0.0}}


def test_verdicts_and_checks_follow_the_table(importance, analysis):
    check = Check("L3D009", "warning", "Few rows", "Only 3 rows; ask for 20.", "data_order")
    record = importance("data_order", interval=(-0.4, -0.9, 0.1))
    text = text_of(analysis([record], checks=(check,)), title="My run", lines=["task: x"])
    assert text.startswith("My run\n======\ntask: x\n")
    flat = " ".join(text.split())
    assert "data_order: undecided. It moves the score by n/a points (std), 23 % of the variance (1 to 57 %)" in flat
    assert "L3D009 [data_order] warning, Few rows: Only 3 rows; ask for 20." in flat
    assert flat.index("data_order: undecided") < flat.index("L3D009")


def test_golden_numbers_are_those_of_the_golden_runs(importance, analysis):
    record = importance("data_order")
    record.golden[:3] = math.nan
    golden = 100 * record.golden[3:]
    flat = " ".join(text_of(analysis([record]), title="t").split())
    assert f"luck: {golden.mean():.2f} +- {golden.std():.2f}." in flat
    assert f"scored {golden.min():.2f}, the luckiest {golden.max():.2f}: {np.ptp(golden):.2f} points apart" in flat
    assert f"more than {1.96 * math.sqrt(2) * golden.std():.1f} points" in flat
    assert "87.5 % agree" in flat
    assert (
        "Both are right on 70.2 %, and agree on a wrong answer on 17.3 %. Another run changes about one prediction "
        "in 8." in flat
    )


def test_nothing_at_all_shows_as_not_available(empty, analysis):
    text = text_of(analysis([empty("data_order")], predictions=False), title="t")
    assert table_line(text, "data_order")[1:] == ["undecided", *["n/a"] * 7, "12"]
    assert "nan" not in text.replace("n/a", "")
    assert "The runs hold no predictions" in " ".join(text.split())
    assert "0 golden runs have a score" in text_of(analysis([]))


def test_predictions_of_one_factor_stand_in_for_golden_ones(importance, analysis):
    found = analysis([importance("data_order")])
    without = replace(found, consistencies={"data_order": found.consistencies["data_order"]})
    assert "two runs that differ in data_order only" in answers(Shown(without))[2].sentences[0]
    assert answers(Shown(without))[2].short == "93.4 % agree"


def test_answer_names_the_factors_that_dominate(importance, analysis):
    above, open_, below = (
        importance(name, interval=(middle, middle - width, middle + width))
        for name, middle, width in (("above", 0.4, 0.2), ("open", 0.5, 0.6), ("below", -0.4, 0.2))
    )
    which = answers(Shown(analysis([below, open_, above])))[1]
    assert (which.short, which.sentences[0]) == ("above", "Dominates: above. Minor: below. Undecided: open.")
    assert answers(Shown(analysis([below, open_])))[1].short == "undecided"
    assert answers(Shown(analysis([below])))[1].short == "not below"
    assert answers(Shown(analysis([below, replace(below, factor="other")])))[1].short == "none of them"


def test_checks_of_one_code_are_one_paragraph_that_names_the_factors():
    rest = "Look at them. Raise mitigation_runs."
    checks = [Check("L3D007", "info", "Few", f"{at} rows. {rest}", name) for at, name in enumerate("abc")]
    checks += [Check("L3D003", "info", "Golden", "None."), Check("L3D007", "warning", "Few", "No rows.", "d")]
    few, golden, none = by_code(checks)
    assert (few.factors, few.message) == (("a", "b", "c"), f"a: 0 rows. b: 1 rows. c: 2 rows. {rest}")
    assert (golden.factors, golden.message, none.message) == ((), "None.", "No rows.")
    assert by_code([checks[0], replace(checks[0], factor="b")])[0].message == checks[0].message


def test_widest_table_fits(importance, analysis):
    stds = dict.fromkeys(("contributed_std", "mitigated_std", "golden_std", "score_std"), 0.1234)
    record = importance("model_initialisation", interval=(-0.41, -0.91, -0.11))
    record = replace(record, importance=-12.34, cells_missing=2000, **stds)
    text = text_of(analysis([record]), title="t")
    assert max(map(len, text.splitlines())) <= WIDTH


@given(
    name=st.text(min_size=1, max_size=60),
    title=st.text(max_size=200),
    values=st.lists(st.floats(-99, 99) | st.just(math.nan), min_size=4, max_size=4),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_and_number_gives_printable_lines_that_fit(importance, analysis, name, title, values):
    score, *bounds = values
    record = replace(importance(name, interval=tuple(bounds)), importance=score)
    text = text_of(analysis([record]), title=title)
    assert all(len(line) <= WIDTH + 6 for line in text.splitlines())
    assert all(char == "\n" or char.isprintable() for char in text)


def test_escape_codes_do_not_reach_the_terminal():
    assert shorten("a\x1b[31m\nb", 20) == "a [31m b"
    assert shorten("x" * 30, 10) == "xxxxxxx..."


def test_numbers():
    assert (points(0.12345), points(math.nan), points(math.inf), points(-0.0)) == ("12.35", "n/a", "n/a", "0.00")
    assert (signed(0.5), signed(-0.0), signed(-math.inf)) == ("+0.50", "+0.00", "n/a")


def test_interval_without_bounds(importance, analysis):
    for bounds, shown in (((math.nan, 0.5), "+0.30 n/a"), ((-0.1, 0.5), "+0.30 [-0.10, +0.50]")):
        texts = factor_texts(Shown(analysis([importance("a", interval=(0.3, *bounds))])))
        assert texts[0]["interval"] == shown


def test_a_metric_that_is_not_read_in_percent_keeps_its_unit(importance, analysis):
    found = replace(analysis([importance("data_order")]), metric=named("mse"))
    text = " ".join(text_of(found, title="t").split())
    assert f"{found.importances['data_order'].golden_std:.3f}" in text
    assert "units: units of mse" in text
    assert "percentage" not in text
    assert "points" not in text
    golden = found.importances["data_order"].golden
    assert f"unluckiest run scored {golden.max():.3f}, the luckiest {golden.min():.3f}" in text


@pytest.mark.parametrize(
    ("share", "low", "high", "shown"),
    [
        (0.5, 0.25, 0.75, "+0.10 (-0.37 to +0.37)\n0.50 (0.25 to 0.75)"),
        (3.73, 0.0, 603453.5, "+0.10 (-1.00 to +1.00)\n3.73 (0.00 to any)"),
        (0.5, math.nan, math.nan, "+0.10\n0.50"),
        (0.5, 0.0, math.inf, "+0.10 (-1.00 to +1.00)\n0.50 (0.00 to any)"),
    ],
)
def test_the_ratio_of_predictions_has_an_end_that_says_something(share, low, high, shown):
    record = PredictionImportance("f", share, low, high, 0.1, 0.9, 20, ("rows",))
    assert prediction_text(record) == shown


@pytest.mark.parametrize(("examples", "told"), [(9, False), (10, True)])
def test_a_share_says_what_it_rests_on_and_is_not_told_of_a_few_examples(importance, analysis, examples, told):
    right = np.ones((6, examples), dtype=np.int64)
    votes = example_votes(right, right[0], np.arange(examples))
    golden = Consistency("golden", 1.0, 1.0, 6, 1, 15 * examples // 5, 0.0, examples / 5)
    one = analysis([importance("data_order")])
    one = replace(one, examples=votes, consistencies={**one.consistencies, "golden": golden})
    flat = " ".join(text_of(one, title="t").split())
    assert ("100.0 % agree" in flat) is told
    each = f"{examples / 5:.2g} examples on average, {examples} in all"
    assert (f"over 6 runs: 15 pairs that share {each}" in flat) is told
    assert (f"100.0 % of the {examples} examples that two or more runs saw are right in every run" in flat) is told
    assert (f"is not reported: there are {examples} test examples" in flat) is not told
    assert bool(shares(one)) is told
