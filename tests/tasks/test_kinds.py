"""Scores and choices in a user's own file, and the parts that its column `split` names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_files import written

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.kinds import Reading, check_one_sort
from mlflow_l3d.tasks.resolve import bind_task, inactive_factors, load_task
from mlflow_l3d.tasks.settings import SplitSettings

OWN = SplitSettings(source="own")
PLAIN = SplitSettings(num_labelled=4, test_size=2)


def write(folder: Path, columns: dict[str, list[object]], name: str = "mine.parquet") -> str:
    return str(written(folder / name, pd.DataFrame(columns)))


def lettered(**letters: str) -> dict[str, list[object]]:
    return {column: [f"{letter}{k}" for k in range(12)] for column, letter in letters.items()}


def pairs() -> dict[str, list[object]]:
    return lettered(sentence1="a", sentence2="b")


def choices() -> dict[str, list[object]]:
    return lettered(premise="p", choice1="x", choice2="y")


SCORES = [0.5 + k / 4 for k in range(12)]
PARTS = ["train"] * 8 + ["dev"] * 3 + ["TEST"]


@pytest.mark.parametrize("name", ["mine.parquet", "mine.csv", "mine.jsonl"])
def test_decimal_numbers_are_scores(tmp_path: Path, name: str) -> None:
    task = load_task(write(tmp_path, {**pairs(), "label": SCORES}, name), settings=PLAIN)
    assert (task.kind, task.metric, task.class_names, task.choices) == ("regression", "pearson", (), ())
    assert task.labels.dtype == np.float64
    assert task.labels.tolist() == SCORES
    assert task.texts == (tuple(f"a{k}" for k in range(12)), tuple(f"b{k}" for k in range(12)))
    assert "read as scores" in " ".join(task.notes)
    split = task.split({"data_split": 1, "label_selection": 2})
    assert [len(part) for part in (split.train, split.validation, split.test)] == [3, 1, 2]
    other = task.split({"data_split": 1, "label_selection": 3})
    assert other.train.tolist() != split.train.tolist()
    assert inactive_factors(task) == {}


def test_whole_numbers_are_scores_where_it_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, {**pairs(), "label": [k % 3 for k in range(12)]})
    classes, scores = load_task(path), load_task(path, Reading(task_kind="regression"))
    assert (classes.kind, scores.kind) == ("classification", "regression")
    assert scores.labels.tolist() == classes.labels.tolist()
    assert scores.fingerprint != classes.fingerprint
    decimals = write(tmp_path, {**pairs(), "label": [float(k % 3) for k in range(12)]})
    with pytest.raises(ParameterError, match=r"^label_column=label: .*may be classes or scores \(regression\)\."):
        load_task(decimals)
    assert load_task(decimals, Reading(task_kind="regression")).fingerprint == scores.fingerprint


def test_choices_beside_what_they_have_in_common(tmp_path: Path) -> None:
    labels = [k % 2 for k in range(12)]
    path = write(tmp_path, {**choices(), "label": labels, "split": PARTS})
    task = load_task(path, Reading(task_kind="multiple_choice"), settings=PLAIN)
    assert (task.kind, task.metric, task.class_names) == ("multiple_choice", "accuracy", ("choice1", "choice2"))
    assert task.texts == (tuple(f"p{k}" for k in range(12)),)
    assert task.choices == (tuple(f"x{k}" for k in range(12)), tuple(f"y{k}" for k in range(12)))
    assert task.labels.tolist() == labels
    # The order of the choices is that in which they are named, and labels may be their names.
    turned = write(tmp_path, {**choices(), "label": [f"choice{2 - label}" for label in labels]}, "turned.csv")
    found = load_task(turned, Reading(choice_columns="choice2, choice1"))
    assert found.choices == task.choices[::-1]
    assert found.class_names == ("choice2", "choice1")
    assert found.labels.tolist() == labels


def test_columns_of_choices_are_texts_with_a_drawn_split_and_choices_with_the_own_one(tmp_path: Path) -> None:
    columns = {**choices(), "question": ["cause"] * 12, "label": [k % 2 for k in range(12)], "split": PARTS}
    path = write(tmp_path, columns)
    drawn, own = load_task(path, settings=PLAIN), load_task(path, settings=OWN)
    assert (drawn.kind, len(drawn.texts)) == ("classification", 4)
    assert "task_kind=multiple_choice reads them as choices" in " ".join(drawn.notes)
    assert (own.kind, len(own.texts), len(own.choices)) == ("multiple_choice", 2, 2)
    named = load_task(path, Reading(text_column="choice1"), settings=OWN)
    assert (named.kind, named.texts) == ("classification", (own.choices[0],))


def test_four_choices_numbered_from_zero(tmp_path: Path) -> None:
    columns = {"question": ["q"] * 8} | {f"choice_{c}": [f"{c}{k}" for k in range(8)] for c in range(4)}
    task = load_task(write(tmp_path, {**columns, "label": [*range(4)] * 2}), Reading(task_kind="multiple_choice"))
    assert task.class_names == ("choice_0", "choice_1", "choice_2", "choice_3")


def message(path: str, **more: str) -> str:
    with pytest.raises(L3DError) as caught:
        load_task(path, Reading(**more))  # type: ignore[arg-type]
    line = str(caught.value)
    assert "\n" not in line
    assert not line.startswith("task=/")
    return line


def with_choice(row: int, **cells: object) -> dict[str, list[object]]:
    columns = choices()
    for name, cell in cells.items():
        columns[name][row] = cell
    return columns


@pytest.mark.parametrize(
    ("columns", "labels", "more", "line"),
    [
        (pairs(), SCORES, {"task_kind": "classification"}, "label_column=label: must hold whole numbers or class"),
        (
            pairs(),
            ["good", "Good"] * 6,
            {"task_kind": "regression"},
            "label_column=label: must hold numbers (scores) for regression, not str. Class names are for",
        ),
        (pairs(), [True, False] * 6, {"task_kind": "regression"}, "label_column=label: must hold numbers (scores)"),
        (pairs(), [*SCORES[:-1], None], {}, "label_column=label: 1 of 12 labels are missing, the first in row 12"),
        (pairs(), [*SCORES[:-1], float("inf")], {"task_kind": "regression"}, "label_column=label: the score in row 12"),
        (pairs(), [2.5] * 12, {}, "task=mine.parquet: every example has the same score"),
        (pairs(), [0, 1] * 6, {"task_kind": "multiple_choice"}, "choice_columns=auto: names fewer than two columns"),
        (pairs(), [0, 1] * 6, {"choice_columns": "sentence1"}, "choice_columns=sentence1: names fewer than two"),
        (pairs(), [0, 1] * 6, {"choice_columns": "sentence1,sentense2"}, "choice_columns='sentense2': must be one of"),
        (pairs(), [0, 1] * 6, {"task_kind": "choice"}, "task_kind='choice': must be one of auto, classification, gen"),
        (
            pairs(),
            [0, 1] * 6,
            {"task_kind": "regression", "choice_columns": "sentence1,sentence2"},
            "choice_columns=sentence1,sentence2: has no effect with task_kind=regression",
        ),
        (
            choices(),
            [1, 2] * 6,
            {"task_kind": "multiple_choice"},
            "label_column=label: row 2 of the data has '2', and there are 2 choices. Positions run from 0 to 1; or",
        ),
        (choices(), ["choice1", "x"] * 6, {"task_kind": "multiple_choice"}, "label_column=label: row 2 of the data"),
        (choices(), SCORES, {"task_kind": "multiple_choice"}, "label_column=label: must hold the position of the"),
        (
            with_choice(4, choice2=None),
            [0, 1] * 6,
            {"task_kind": "multiple_choice"},
            "choice_columns=choice2: 1 of 12 texts are empty or missing, the first in row 5 of the data. Fill or",
        ),
        (
            with_choice(4, choice1=" ", choice2=""),
            [0, 1] * 6,
            {"task_kind": "multiple_choice"},
            "task=data: rows, counted from 1, have gaps: 1 without choice1 (row 5); 1 without choice2 (row 5).",
        ),
        (
            choices(),
            [0, 1] * 6,
            {"task_kind": "multiple_choice", "text_column": "choice1"},
            "text_column=choice1: must name different columns, and not label or choice1 or choice2.",
        ),
    ],
)
def test_a_fault_has_its_line(tmp_path, columns, labels, more, line) -> None:
    found = message(write(tmp_path, {**columns, "label": labels}), **more)
    assert found.startswith(line)


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl"])
@pytest.mark.parametrize(
    ("labels", "kind", "line"),
    [
        ([*SCORES[:7], "great", *SCORES[8:]], "auto", "row 8 of the data has 'great', and other rows decimal numbers"),
        ([*SCORES[:7], "great", *SCORES[8:]], "regression", "row 8 of the data has 'great', and "),
        (["x", "y"] * 5 + ["x", 2.5], "auto", "row 12 of the data has '2.5', and other rows class names"),
        (
            ["no", "yes"] * 5 + ["no", "Yes"],
            "auto",
            "row 12 of the data has 'Yes', and other rows 'yes' with other bla",
        ),
        (["no", "yes"] * 5 + [None, "no "], "auto", "row 12 of the data has 'no ', and other rows 'no' with other bl"),
        ([0, 1] * 5 + [3.5, 1], "auto", "row 11 of the data has '3.5', and nearly all other rows whole numbers"),
    ],
)
def test_a_label_of_another_sort_is_named_with_its_row(tmp_path, name, labels, kind, line) -> None:
    found = message(write(tmp_path, {**pairs(), "label": labels}, name), task_kind=kind)
    assert found.startswith(f"label_column=label: {line}")


@given(st.lists(st.sampled_from([1, 2.5, "3", "4.5", "name", None, True]), min_size=1))
def test_labels_of_one_sort_are_left_alone(values: list[object]) -> None:
    decimal = [value in (2.5, "4.5") for value in values if value is not None]
    if not any(decimal) or all(decimal):
        check_one_sort(pd.Series(values, range(1, len(values) + 1), dtype=object), "label")


@pytest.mark.parametrize(("labels", "kind"), [(["NN", "nn"], "classification"), (["Masse", "Maße"], "auto")])
def test_classes_may_differ_in_letter_case_if_the_kind_is_named_and_always_in_more(tmp_path, labels, kind) -> None:
    path = write(tmp_path, {**pairs(), "label": labels * 6})
    assert load_task(path, Reading(task_kind=kind)).class_names == tuple(labels)


def test_whole_scores_among_decimal_ones_are_scores(tmp_path: Path) -> None:
    labels = [float(score) for score in range(9)] + [0.5, 1.5, 2.5]
    assert load_task(write(tmp_path, {**pairs(), "label": labels}), settings=PLAIN).kind == "regression"


def test_a_task_of_ours_refuses_what_is_for_files() -> None:
    said = "task_kind=regression: has no effect on the task syn"
    assert message("synthetic", task_kind="regression").startswith(said)


def test_tasks_made_in_python() -> None:
    texts, labels = [[f"t{k}" for k in range(6)]], np.array([0, 1] * 3)
    own = np.array([0, 0, 0, 0, 1, 1])
    task = make_task("mine", texts, labels, kind="multiple_choice", choices=texts * 2, parts=own)
    assert task.class_names == ("choice1", "choice2")
    bound = bind_task(task, OWN)
    assert bound.split({}).test.tolist() == [4, 5]
    # Where the split is drawn, the parts decide nothing, and the cells are those of the same task without them.
    drawn = bind_task(task, PLAIN)
    assert drawn.parts is None
    assert drawn.fingerprint == make_task("mine", texts, labels, kind="multiple_choice", choices=texts * 2).fingerprint
    assert drawn.fingerprint != bound.fingerprint
    with pytest.raises(ParameterError, match="has no parts of its own"):
        bind_task(drawn, OWN)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"labels": np.arange(6) / 2, "class_names": ("a", "b")}, "labels must be int64 in [0, 2); scores are for"),
        ({"labels": np.array([0, 1, 2, 0, 1, 1]), "class_names": ("a", "b")}, "int64 in [0, 2); example 2 has 2"),
        ({"labels": np.array([0, 1] * 3), "kind": "regression"}, "labels of a regression task must be float64 scores"),
        ({"labels": np.array([0.5, np.nan] * 3), "kind": "regression"}, "a score is not finite"),
        ({"labels": np.arange(6.0), "kind": "regression", "class_names": ("a",)}, "regression has no classes"),
        ({"labels": np.array([0, 1] * 3), "kind": "ordering"}, "kind='ordering' must be one of classification,"),
        ({"labels": np.array([0, 1] * 3), "kind": "multiple_choice"}, "2 choices or more are needed, it has 0"),
        (
            {"labels": np.array([0, 1] * 3), "kind": "multiple_choice", "choices": [["x"] * 6, ["y"] * 5]},
            "each column of choices needs 6 texts",
        ),
        (
            {"labels": np.array([0, 1] * 3), "kind": "multiple_choice", "choices": [["x"] * 6, ["y"] * 5 + [" "]]},
            "a choice is empty",
        ),
        ({"labels": np.array([0, 1] * 3), "class_names": ("a", "b"), "choices": [["x"] * 6]}, "needs no choices"),
        ({"labels": np.array([0, 1] * 3), "class_names": ("a", "b"), "parts": np.arange(6)}, "parts must be 6 int64"),
    ],
)
def test_a_task_that_is_none(change: dict[str, object], line: str) -> None:
    with pytest.raises(L3DError) as caught:
        make_task("mine", [[f"t{k}" for k in range(6)]], **change)  # type: ignore[arg-type]
    assert str(caught.value).startswith("task=mine: ")
    assert line in str(caught.value)


def test_the_fingerprint_tells_kinds_and_choices_apart() -> None:
    texts, left, right = ([f"{letter}{k}" for k in range(6)] for letter in "txy")
    labels = np.array([0, 1] * 3)

    def task(*columns: list[str], parts: list[int] | None = None) -> Task:
        own = None if parts is None else np.array(parts)
        return make_task("mine", [texts], labels, kind="multiple_choice", choices=columns, parts=own)

    found = {
        make_task("mine", [texts], labels, ("choice1", "choice2")).fingerprint,
        make_task("mine", [texts, left, right], labels, ("choice1", "choice2")).fingerprint,
        make_task("mine", [texts], labels.astype(np.float64), kind="regression").fingerprint,
        task(left, right).fingerprint,
        task(right, left).fingerprint,
        task(left, right, parts=[0, 0, 0, 0, 1, 1]).fingerprint,
        task(left, right, parts=[0, 0, 0, 0, 1, 2]).fingerprint,
    }
    assert len(found) == 7
    assert task(left, right).fingerprint == task(left, right).fingerprint
    assert Reading().task_kind == "auto"


def test_more_scores_than_there_are(tmp_path: Path) -> None:
    path = write(tmp_path, {**pairs(), "label": SCORES})
    with pytest.raises(ParameterError, match=r"^test_size=5: there are 2 test examples, so at most 2 are allowed\."):
        load_task(path, settings=SplitSettings(test_size=5))
    assert load_task(path).notes[1:] == (
        "mine.parquet: 10 training examples labelled instead of the default 1,000",
        "mine.parquet: 2 test examples evaluated instead of the default 1,000",
    )
