"""Runs as members of ensembles: which share their examples, and what would help by them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from cure_cases import known
from scipy.stats import binom

from mlflow_l3d.analysis.cure import NO_PREDICTIONS, Prediction, Range, Remedy, helping, helps, simplest
from mlflow_l3d.analysis.cure.ensembles import RunPredictions
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.remedies import labels_note, plain_words, remedy_words
from mlflow_l3d.studies.investigation import remedies as rows_of
from mlflow_l3d.studies.investigation.remedies import MemberRows, nothing_helps, predicted, why_not
from mlflow_l3d.tracking.earlier.predictions import run_predictions

RIGHT = 0.7
NO_SCORES = np.zeros(0)


def cell(phase: str = "investigation", factor: str | None = "a", row: int | None = 0, column: int | None = 0) -> Any:
    return SimpleNamespace(phase=phase, factor=factor, row=row, column=column, cell_key="k")


def run(ids: Any, right: Any, column: int = 0, test: Any = None) -> RunPredictions:
    """Return a run on examples whose true class is their id modulo 2."""
    ids = np.asarray(ids)
    labels = ids % 2
    test = np.ones(len(ids), dtype=bool) if test is None else np.asarray(test)
    return RunPredictions(column, ids, labels, np.where(right, labels, 1 - labels), test)


def coins(rows: int = 30, columns: int = 11, examples: int = 400, factor: str = "a") -> MemberRows:
    """Return runs of one factor whose every prediction is right with the probability RIGHT, independently."""
    random, members = np.random.default_rng(5), MemberRows(design_named("crossed"))
    for row in range(rows):
        ids = random.permutation(10_000)[:examples]
        for column in range(columns):
            members.add(cell("investigation", factor, row, column), run(ids, random.random(examples) < RIGHT, column))
    return members


def test_votes_of_independent_runs_have_the_mean_and_the_spread_of_the_binomial_distribution() -> None:
    before = math.sqrt(RIGHT * (1 - RIGHT) / 400)
    spread = Range(before, 0.95 * before, 1.05 * before)
    predictions, reasons = predicted(coins(), named("accuracy"), 2, spread, NO_SCORES, most_members=5)
    votes = {each.remedy.members: each for each in predictions if each.remedy.kind == "vote"}
    assert set(votes) == {3, 5}  # ties decide even numbers
    for k in (3, 5):
        right = binom.sf(k // 2, k, RIGHT)
        assert votes[k].mean_change.value == pytest.approx(right - RIGHT, abs=0.005)
        assert votes[k].std.value == pytest.approx(math.sqrt(right * (1 - right) / 400), rel=0.12)
        assert votes[k].consistency.value == pytest.approx(right**2 + (1 - right) ** 2, abs=0.01)
    assert "no validation scores of the runs are known" in " ".join(reasons)
    assert "try the same seeds: design=nested predicts more exactly" in reasons[0]  # how much: tests of the closed form
    nested = replace(coins(4, 7, 100), design=design_named("nested"))
    _, others = predicted(nested, named("accuracy"), 2, spread, NO_SCORES, most_members=3)
    assert "design=nested" not in " ".join(others)


def test_only_examples_that_all_runs_of_a_row_share_count() -> None:
    members = MemberRows(design_named("crossed"))
    members.add(cell(), run(range(20), [True] * 20))
    members.add(cell(column=1), run([*range(19, 1, -1), 98, 99], [at < 9 for at in range(20)], 1))
    (row,) = members.rows("a")
    assert row.examples.tolist() == list(range(2, 20))
    right = row.predictions == row.labels
    assert right[0].all()
    assert right[1].tolist() == [False] * 9 + [True] * 9  # in another order: 19 to 11 are right


def test_runs_that_draw_their_own_test_examples_share_the_reference_set_alone() -> None:
    members, reference = MemberRows(design_named("crossed")), [False] * 20 + [True] * 12
    for column in range(2):
        ids = [*range(column * 15, column * 15 + 20), *range(100, 112)]
        members.add(cell(column=column), run(ids, [True] * 32, column, np.logical_not(reference)))
    (row,) = members.rows("a")
    assert row.examples.tolist() == list(range(100, 112))  # not the five that the two happen to share
    assert not row.test.any()
    alone = MemberRows(design_named("crossed"))
    for column in range(2):
        alone.add(cell(column=column), run(range(column * 5, column * 5 + 20), [True] * 20, column))
        alone.add(cell(row=1, column=column), run(range(column * 15, column * 15 + 20), [True] * 20, column))
    assert len(alone.rows("a")) == 1  # three in four are enough, one in four is not
    predictions, (reason,) = predicted(alone, named("accuracy"), 2, Range(0.1), NO_SCORES)
    assert predictions == []
    assert reason == (
        "Runs that differ in a share too few test examples (less than half of a run's, or fewer than 10): "
        "reference_size=200 gives them some, test_selection=fixed the same; a script does so itself."
    )


def test_no_ensemble_is_named_that_cannot_be_verified() -> None:
    members, random, drawn = MemberRows(design_named("nested")), np.random.default_rng(0), [True] * 20 + [False] * 50
    for row in range(12):
        for column in range(3):
            ids = [*random.permutation(900)[:20], *range(1000, 1050)]
            members.add(cell(row=row, column=column), run(ids, random.random(70) < RIGHT, column, drawn))
    predictions, reasons = predicted(members, named("accuracy"), 2, spread := Range(0.1, 0.09, 0.11), NO_SCORES)
    assert any(helps(each, spread.value, 1.0) for each in predictions)
    assert not helping(predictions, spread.value, 1.0)  # `cure --verify` refuses them
    assert reasons[0].startswith("Ensembles over a cannot be verified: their members draw test examples of their own.")


def test_a_base_run_is_the_first_member_of_each_of_its_swaps() -> None:
    members = MemberRows(design_named("radial"))
    for row in range(3):
        members.add(cell("base", None, row, None), run(range(20), [True] * 20))
        for factor in ("a", "b"):
            members.add(cell("swap", factor, row, None), run(range(20), [False] * 20))
    assert members.factors == ["a", "b"]
    for row in members.rows("b"):
        assert (row.predictions == row.labels).mean(axis=1).tolist() == [1.0, 0.0]
        assert row.columns is None
    independent = members.independent()
    assert len(independent) == 3


def test_ensembles_that_need_labels_say_so() -> None:
    members = coins(4, 7, 100, "data_order+label_selection")
    spread, metric = Range(0.05, 0.04, 0.06), named("accuracy")
    assert predicted(members, metric, 2, spread, NO_SCORES)[0]
    cause = SimpleNamespace(importances={"data_order+label_selection": SimpleNamespace(importance_corrected=-0.1)})
    said = "Ensembles over data_order+label_selection need several times the labels."
    assert nothing_helps([], [], cast("Any", cause)) == said
    vote = Remedy("vote", ("data_order", "label_selection"), 5)
    assert remedy_words(vote) == "vote of 5 runs over data_order and label_selection"
    assert plain_words(vote) == "a vote of 5 runs differing in data_order and label_selection"
    assert plain_words(vote, 1) == "a vote of 5 runs differing in 2 factors"
    mean, best = (plain_words(Remedy(kind, ("data_order",), 4)) for kind in ("mean", "choose"))
    assert mean == "averaging the class scores of 4 runs differing in data_order"
    assert best == "taking the best of 4 runs differing in data_order"
    said = " Runs differing in 2 factors need different labels: k runs up to k times as many."
    assert labels_note([vote, Remedy("vote", ("data_order",), 5)]) == said
    assert not labels_note([Remedy("fix", ("label_selection",))])


def test_each_factor_has_its_own_reason_first_that_which_more_runs_settle() -> None:
    members = coins(3, 2, 20, "b")
    for row in range(3):
        for column in range(2):
            ids = range(100 * column, 100 * column + 20)
            members.add(cell("investigation", "a", row, column), run(ids, [True] * 20, column))
    _, reasons = predicted(members, named("accuracy"), 2, Range(0.1), NO_SCORES)
    assert [reason.split(":")[0] for reason in reasons[:2]] == [
        "Ensembles over b",
        "Runs that differ in a share too few test examples (less than half of a run's, or fewer than 10)",
    ]


def test_an_ensemble_that_lacks_columns_is_named_once_with_the_fewest_that_it_needs() -> None:
    members, random = coins(3, 4, 40), np.random.default_rng(3)
    for run_of in (each for runs in members._runs.values() for each in runs):
        run_of.scores = random.random((40, 2)).astype(np.float32)
    _, reasons = predicted(members, named("accuracy"), 2, Range(0.1), NO_SCORES)
    why = "Ensembles over a: unknown, as they need investigation_runs=5."
    assert [each for each in reasons if "Ensembles" in each] == [why]


def test_luck_of_a_test_set_is_the_binomial_one_of_the_accuracy() -> None:
    members = MemberRows(design_named("crossed"))
    for column in range(3):
        right = [at < 30 for at in range(40)]
        members.add(cell("golden", None, None, None), run(range(40 * column, 40 * column + 40), right))
    accuracy, f1 = (members.luck_of_any_tests(named(name), 2) for name in ("accuracy", "f1_macro"))
    assert accuracy == pytest.approx(math.sqrt(0.75 * 0.25 / 40))
    assert f1 == pytest.approx(accuracy, rel=0.25)
    assert members.test_size == 40
    assert math.isnan(MemberRows(design_named("crossed")).luck_of_any_tests(named("accuracy"), 2))


@pytest.mark.parametrize("name", ["mae", "rmse", "pearson", "token_accuracy", "exact_match", "ndcg_at_10"])
def test_luck_of_a_test_set_is_that_of_resampled_examples(name: str) -> None:
    members, draw, metric = MemberRows(design_named("crossed")), np.random.default_rng(5), named(name)
    labels = draw.normal(size=200)
    predictions = labels + draw.normal(size=200)
    if metric.kinds != ("regression",):
        right = draw.random((200, 3)) < 0.7
        forms = {"tagging": '["a","b","c"]', "ranking": '["a"]', "generation": "a"}
        labels = np.full(200, forms[metric.kinds[0]], dtype=object)
        answers = {
            "tagging": lambda row: json.dumps([t if one else "x" for t, one in zip("abc", row, strict=True)]),
            "ranking": lambda row: json.dumps(["a", "b"] if row[0] else ["b", "a"]),
            "generation": lambda row: "a" if row[0] else "b",
        }
        predictions = np.array([answers[metric.kinds[0]](row) for row in right], dtype=object)
    members.add(
        cell("golden", None, None, None),
        RunPredictions(-1, np.arange(200), labels, predictions, np.ones(200, dtype=bool)),
    )
    drawn = [draw.integers(200, size=200) for _ in range(200)]
    truth = np.std([metric.function(labels[each], predictions[each]) for each in drawn])
    assert members.luck_of_any_tests(metric, None) == pytest.approx(truth, rel=0.2)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of, "MOST_PREDICTIONS", 50)
    members = coins(2, 2, 20)
    assert not members.is_whole
    assert members.factors == []
    assert why_not(members, named("accuracy"), 0.1).startswith("The runs hold more than ")
    few, many = run(range(4), [True] * 4), run(range(4), [True] * 4)
    many.predictions = np.array([-1, 0, 128, 5])
    for each in (few, many):
        MemberRows(design_named("crossed")).add(cell(), each)
    assert (few.predictions.dtype, many.predictions.dtype) == (np.int8, np.int16)
    assert many.predictions.tolist() == [-1, 0, 128, 5]


def test_predictions_are_read_as_what_they_are() -> None:
    table = pa.table({"example_id": [1, 2], "label": [0, 1], "prediction": [1, None], "score_0": [0.1, 0.9]})
    read = run_predictions(cell(), table, "classes")
    assert read.predictions.tolist() == [1, -1]
    assert read.scores.shape == (2, 1)
    numbers = pa.table({"example_id": [1, 2], "label": [0.5, 1.0], "prediction": [1.0, math.nan]})
    assert run_predictions(cell(), numbers, "numbers") is None


@pytest.mark.parametrize(
    ("metric", "size", "design", "std", "words"),
    [
        ("accuracy", 9, "crossed", 0.0, "do not vary"),
        ("accuracy", 9, "crossed", math.nan, "too few independent runs"),
        ("accuracy", 9, "random", 0.1, "The strategy random does not show"),
        ("accuracy", 0, "crossed", 0.1, NO_PREDICTIONS),
        ("synthetic_score", 0, "crossed", 0.1, NO_PREDICTIONS),
        (
            "synthetic_score",
            9,
            "crossed",
            0.1,
            "Runs report synthetic_score as a number. For votes of runs, name a metric of",
        ),
    ],
)
def test_nothing_is_predicted_without_a_reason(metric: str, size: int, design: str, std: float, words: str) -> None:
    assert words in why_not(MemberRows(design_named(design), size=size), named(metric), std)


def test_the_fewest_members_that_reach_most_are_named_if_they_help() -> None:
    def vote(members: int, std: float, low: float = -0.01, high: float = 0.01) -> Prediction:
        left = Range(std, 0.9 * std, 1.1 * std)
        return known(Remedy("vote", ("a",), members), left, mean_change=Range(0.0, low, high))

    series = [vote(k, std) for k, std in ((3, 0.08), (4, 0.065), (5, 0.061), (9, 0.06))]
    (chosen,) = simplest([*series[::-1], replace(series[0], std=Range())])
    assert chosen.remedy.members == 4
    assert helps(chosen, 0.1, 1.0)
    assert not helps(chosen, 0.068, 1.0)  # it leaves more than 95 %
    assert not helps(vote(3, 0.05, -0.03, -0.01), 0.1, 1.0)
    assert helps(vote(3, 0.05, -0.03, -0.01), 0.1, -1.0)  # a smaller error is a better one


def test_the_luck_of_test_examples_is_that_of_a_share() -> None:
    members = MemberRows(design_named("crossed"))
    for index in range(2):
        members.add(
            cell("golden", None, None, None), run(range(50 * index, 50 * index + 100), [at < 70 for at in range(100)])
        )
    assert members.luck_of_tests(named("accuracy"), 2) == pytest.approx(0.7 * 0.3 / 100)
    assert members.test_size == 100
    # No mean over examples: the jackknife, of a score that is almost one here.
    assert members.luck_of_tests(named("f1_macro"), 2) == pytest.approx(0.7 * 0.3 / 100, rel=0.1)
    same = MemberRows(design_named("crossed"))
    for _ in range(2):
        same.add(cell("golden", None, None, None), run(range(100), [True] * 100))
    assert math.isnan(same.luck_of_tests(named("accuracy"), 2))  # runs with one test set draw none
    assert (members.draw_tests, same.draw_tests) == (True, False)
    pooled = MemberRows(design_named("crossed"))  # rows without golden runs
    for row in range(2):
        pooled.add(cell("investigation", "a", row, 0), run(range(100), [True] * 100))
    assert not pooled.draw_tests
    pooled.add(cell("investigation", "a", 2, 0), run(range(1, 101), [True] * 100))
    assert pooled.draw_tests


def test_what_runs_predict_of_their_own_test_examples() -> None:
    """A class that is hardly tested spoils a macro average: an investigation says so by these numbers."""
    members, tested = MemberRows(design_named("crossed")), [True] * 4 + [False]
    for phase, labels, predictions in (
        ("golden", [0, 0, 1, 2, 2], [0, 0, 0, 0, 2]),
        ("investigation", [0, 1, 1, 2, 2], [1, -1, 1, 0, 2]),
    ):
        answers = RunPredictions(-1, np.arange(5), np.array(labels), np.array(predictions), np.array(tested))
        members.add(cell(phase, column=0), answers)
    answers = members.answers(3)
    assert (answers.runs, answers.constant) == (2, 1)
    assert answers.tested.tolist() == [1.5, 1.5, 1.0]
    assert answers.predicted.tolist() == [2.5, 1.0, 0.0]
    assert members.answers(None) is None
    assert MemberRows(design_named("crossed")).answers(3) is None
