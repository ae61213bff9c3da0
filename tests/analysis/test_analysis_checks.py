"""Numbered checks: each fires on what it is about, with its numbers, and is silent on a sound investigation."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from checks_cases import checks_of
from drawn_tables import drawn

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks import (
    BASELINE_CHECKS,
    PAIR_CHECKS,
    TABLE_CHECKS,
    WHOLE_CHECKS,
    all_checks,
)
from mlflow_l3d.analysis.importance.checks.evidence import Answers, Evidence, PlanFacts
from mlflow_l3d.analysis.importance.checks.tables import disagreement
from mlflow_l3d.analysis.importance.estimators import CROSSED, LEVELS, NESTED
from mlflow_l3d.analysis.importance.verdicts import Advice, verdict_of
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.metrics.known import named


def table(seed=0, rows=20, columns=10, variances=(0.5, 0.25, 0.25)):
    return 0.8 + 0.02 * drawn(np.random.default_rng(seed), (rows, columns), variances)


def golden(seed=1, runs=200, std=0.02):
    return 0.8 + std * np.random.default_rng(seed).standard_normal(runs)


def checks(scores, golden_scores, model=CROSSED, classes=None):
    """Return all checks of one factor."""
    record = importance(scores, golden_scores, factor="f", model=model, chance=F1_MACRO.chance_level(classes))
    return checks_of({"f": record}, golden_scores, classes, model=model)


def fired(*scores, **more):
    return {check.code: check for check in checks(*scores, **more) if check.factor is not None}


def golden_checks(scores, **plan):
    """Return the checks of golden runs alone."""
    evidence = Evidence(importances={}, golden=np.asarray(scores), metric=F1_MACRO, plan=PlanFacts(**plan))
    return all_checks(evidence)


def test_a_complete_list_is_not_asked_for_more_columns():
    for model in (CROSSED, LEVELS):
        message = fired(table(rows=2, columns=3), golden(runs=10), model=model)["L3D007"].message
        assert ("investigation_runs" in message) == (model is CROSSED)
        assert "mitigation_runs" in message


def test_a_sound_investigation_is_silent():
    scores = table(variances=(0.05, 0, 0.95))
    assert importance(scores, golden()).importance_corrected_ci_low > 0
    assert checks(scores, golden(), classes=2) == ()


@pytest.mark.parametrize(
    ("score", "low", "high", "words"),
    [
        (0.3, -0.1, 0.6, "the interval contains 50 %. Use 30 rows."),
        (-0.3, -0.6, 0.1, None),
        (-0.1, 0.2, 0.6, "Dominates: the whole interval lies on the other side of 0."),
        (0.1, -0.6, -0.2, "Minor: the whole interval lies on the other side of 0."),
        (0.3, 0.1, 0.6, None),
        (-0.3, -0.6, -0.1, None),
        (math.nan, -0.1, 0.1, None),
        (0.3, math.nan, math.nan, None),
    ],
)
def test_l3d001_is_a_published_rule_that_the_verdict_does_not_bear_out(score, low, high, words):
    record = dataclasses.replace(
        importance(table(), golden(), factor="f"),
        importance=score,
        importance_corrected=(low + high) / 2,
        importance_corrected_ci_low=low,
        importance_corrected_ci_high=high,
    )
    found = list(disagreement(record, verdict_of(record), Advice("more_rows", "Use 30 rows.", 30)))
    assert [(check.code, check.severity, check.factor) for check in found] == [("L3D001", "warning", "f")] * bool(words)
    for check in found:
        assert f"{score:+.2f}" in check.message
        assert f"{low:+.2f} to {high:+.2f}" in check.message
        assert words in check.message


@pytest.mark.slow
@pytest.mark.parametrize("model", [CROSSED, NESTED])
def test_l3d015_is_about_rows_that_are_spread_unevenly(model):
    """Spreads of rows with a squared coefficient of variation of 0.5, and, with long tails, of 0."""
    generator = np.random.default_rng(3)
    alarms, estimates = 0, []
    for _ in range(30):
        spread = generator.gamma(2, 0.5, (40, 1))
        scores = generator.standard_normal((40, 1)) + spread * generator.standard_normal((40, 8))
        alarms += "L3D015" in fired(scores, golden(), model=model)
        estimates.append(importance(scores, golden(), model=model).unevenness)
        even = generator.standard_normal((40, 1)) + generator.standard_exponential((40, 8))
        assert "L3D015" not in fired(even, golden(), model=model)
    assert alarms >= 28
    assert np.mean(estimates) == pytest.approx(0.5, abs=0.1)


def test_l3d002_names_the_rows_that_lack_cells():
    scores = table()
    scores[[3, 3, 7], [0, 1, 9]] = np.nan
    message = fired(scores, golden())["L3D002"].message
    assert message.startswith("3 cells of 200 have no score (rows 3, 7). The importance uses the scores that")
    assert "No row has a score" not in message
    scores = table()
    scores[5, 5] = np.nan
    assert fired(scores, golden())["L3D002"].message.startswith("1 cell of 200 has no score (row 5). ")


def test_l3d002_names_a_column_that_always_fails():
    scores = table()
    scores[:, 4] = np.nan
    found = fired(scores, golden())
    assert "(rows 0, 1, 2, 3, 4, 5, 6, 7 and 12 more)" in found["L3D002"].message
    assert "No row has a score in column 4" in found["L3D002"].message


def test_l3d003_golden_runs_missing():
    scores = golden()
    scores[[1, 2]] = np.nan
    (found,) = golden_checks(scores)
    assert found.code == "L3D003"
    assert "2 golden runs of 200 have no score" in found.message
    assert "198" in found.message
    for few in ([], [0.5], [0.5, np.nan]):
        (found,) = golden_checks(np.array(few))
        assert found.code == "L3D003"
        assert "at least 2" in found.message


def test_l3d004_constant_scores():
    (found,) = golden_checks(np.full(10, 0.1))
    assert found.code == "L3D004"
    assert "10.00" in found.message
    assert fired(np.full((10, 5), 1 / 3), golden())["L3D004"].factor == "f"
    assert "L3D004" not in fired(table(), golden())


def test_l3d005_collapsed_runs():
    scores = table()
    scores[0, 0] = 0.2
    found = fired(scores, golden(), classes=2)["L3D005"]
    assert found.severity == "info"
    assert "1 of 200 cells (0.50 %)" in found.message
    scores[:10, 0] = 0.2
    assert fired(scores, golden(), classes=2)["L3D005"].severity == "warning"
    assert "L3D005" not in fired(scores, golden())
    assert [check.code for check in golden_checks(np.array([0.2, 0.8, 0.9]), classes=2)] == ["L3D005"]
    assert list(golden_checks(np.array([0.4, 0.8, 0.9]), classes=3)) == []


def test_l3d005_says_how_many_runs_name_one_class():
    answers = Answers(60, 2, np.array([67.0, 173.0]), np.array([10.0, 230.0]))
    (found,) = golden_checks(np.array([0.4, 0.42, 0.9]), classes=2, answers=answers)
    assert found.message.startswith("2 of 3 golden runs (66.67 %) are no better than guessing: they score below 1 / ")
    assert found.message.endswith(" 2 of all 60 runs name one class for everything.")


def rare(tested, predicted, metric=F1_MACRO, **plan):
    """Return L3D016 of runs with so many test examples, and predictions, of each class."""
    answers = Answers(20, 0, np.array(tested, dtype=float), np.array(predicted, dtype=float))
    evidence = Evidence(importances={}, golden=golden(), metric=metric, plan=PlanFacts(answers=answers, **plan))
    return [check.message for check in all_checks(evidence) if check.code == "L3D016"]


def test_l3d016_names_classes_that_no_run_predicts_or_that_are_hardly_tested():
    plan = {"classes": 5, "class_names": ("Biz", "Other", "Sci", "Sports", "World"), "label_column": "Ticket type"}
    (message,) = rare([77, 1, 73, 80, 74], [78, 0, 73, 80, 74], **plan)
    assert message == (
        "class Other: 1 test example, predicted in no run; so f1_macro is at most 80. Label more, or leave it out or "
        "merge it with another class, in pandas: data = data[~data['Ticket type'].astype(str).isin(['Other'])]."
    )
    (message,) = rare([77, 3, 73, 80, 74], [77, 2.5, 73, 80, 74], classes=5)
    assert message.startswith("class 1: 3 test examples; so f1_macro counts each class 1/5. Label more, or ")
    assert "pandas" not in message
    assert rare([77, 1, 73, 80, 74], [78, 0, 73, 80, 74], named("accuracy"), **plan) == []


@pytest.mark.parametrize(
    ("tested", "predicted"),
    [
        ([100, 100], [90, 110]),
        ([67, 173], [0, 240]),  # L3D004 and L3D005 speak of two classes of which one is never predicted
        ([3] * 77, [2, 4, 3] * 25 + [3, 3]),  # all classes have few
        ([20, 60, 70], [5, 70, 75]),
        ([2, 3, 2], [0, 5, 2]),  # no answer is possible
    ],
)
def test_l3d016_is_silent_where_all_classes_are_alike(tested, predicted):
    assert rare(tested, predicted, classes=len(tested)) == []


def test_l3d006_speaks_where_golden_runs_vary_less_than_the_table():
    found = fired(table(), golden(std=0.005))["L3D006"]
    assert "2." in found.message or "1." in found.message
    assert f"{100 * golden(std=0.005).std(ddof=1):.2f}" in found.message
    assert "L3D006" in fired(table(), golden(std=0.08))


@pytest.mark.slow
def test_l3d006_rarely_speaks_on_sound_investigations():
    assert sum("L3D006" in fired(table(seed), golden(seed + 1000)) for seed in range(200)) <= 2


@pytest.mark.parametrize(
    ("rows", "columns", "words", "severity"),
    [
        (9, 10, "may lie too high on average", "info"),
        (2, 10, "at least 3 of each are needed for an interval", "warning"),
        (20, 2, "at least 3 of each are needed for an interval", "warning"),
        (1, 10, "1 row and 10 columns with a score: at least 2 of each", "warning"),
        (20, 1, "20 rows and 1 column with a score: at least 2 of each", "warning"),
    ],
)
def test_l3d007_few_runs(rows, columns, words, severity):
    found = fired(table(rows=rows, columns=columns), golden())["L3D007"]
    assert words in found.message
    assert found.severity == severity


def test_l3d007_is_silent_from_ten_rows_on():
    assert "L3D007" not in fired(table(rows=10, columns=3), golden())


def test_warnings_come_first():
    found = checks(table(rows=5, columns=4), np.array([0.5]))
    severities = [check.severity for check in found]
    assert severities == sorted(severities, reverse=True)
    assert {"L3D003", "L3D007"} <= {check.code for check in found}
    assert all(check.message.endswith(".") and "\n" not in check.message for check in found)


@pytest.mark.parametrize("rows", [3, 4])
def test_few_rows_that_never_change_say_why_there_is_no_interval(rows: int) -> None:
    row = 0.7 + 0.03 * np.random.default_rng(0).standard_normal((rows, 1))
    record = importance(np.repeat(row, 4, axis=1), golden(), factor="data_order")
    assert np.isnan(record.importance_corrected_ci_low)
    found = fired(record.table, golden())["L3D010"]
    assert f"changes no score in any of {rows} rows: its importance has no interval" in found.message
    varies = record.table + 0.01 * np.eye(4)[0]
    assert "L3D010" not in fired(varies, golden())


@pytest.mark.parametrize("places", [[0, 0, 1, 2, 3, 4], [0, 0, 0, 0, 0]])
@pytest.mark.parametrize("axis", [0, 1])
def test_duplicated_seeds_are_named(places: list[int], axis: int) -> None:
    generator = np.random.default_rng(0)
    table = 0.7 + 0.03 * generator.standard_normal((12, 1)) + 0.03 * generator.standard_normal((12, 12))
    golden = 0.7 + 0.04 * generator.standard_normal(60)
    noun = ("row", "column")[axis]
    found = [check for check in checks(table.take(places * 2, axis=axis), golden) if check.code == "L3D010"]
    assert [check.title for check in found] == [f"Duplicated {noun}s"]
    repeated = [at for at, place in enumerate(places * 2) if place in (places * 2)[:at]]
    assert f"{noun}s {', '.join(map(str, repeated[:8]))}" in found[0].message
    assert ("the factor has no effect at all" in found[0].message) == (noun == "column" and len(repeated) == 9)
    assert "L3D010" not in fired(table, golden)


def test_every_check_is_explained_in_the_documentation() -> None:
    root = Path(__file__).parents[2]
    sources = (root / "mlflow_l3d/analysis/importance/checks").glob("*.py")
    codes = {code for path in sources for code in re.findall(r'Check\("(L3D\d{3})"', path.read_text(encoding="utf-8"))}
    table = re.findall(r"^\| (L3D\d{3}) \|", (root / "docs/checks.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(codes) == table


def test_every_check_function_is_in_a_list() -> None:
    """A function that takes evidence and yields checks is a check: without a place in a list it never speaks."""
    lists = (WHOLE_CHECKS, TABLE_CHECKS, PAIR_CHECKS, BASELINE_CHECKS)
    listed = {getattr(check, "func", check) for each in lists for check in each}
    folder = importlib.import_module("mlflow_l3d.analysis.importance.checks")
    written = set()
    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        for name, function in vars(importlib.import_module(module.name)).items():
            hints = getattr(function, "__annotations__", {})
            if list(hints.values())[-2:] == ["Evidence", "Iterator[Check]"] and not name.startswith("_"):
                written.add(function)
                assert function in listed, f"{name}: add it to a list of analysis/importance/checks/__init__.py"
    assert written == listed
