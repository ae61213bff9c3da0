"""Tasks whose labels are texts, tags or rankings, from files: what is read, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlflow_l3d.errors import L3DError
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.resolve import load_task

TOKENS = [["Ada", "met", "Alan"], ["Nobody", "came"]] * 3
TAGS = [["B-PER", "O", "B-PER"], ["O", "O"]] * 3


def written(folder: Path, **columns: list[Any]) -> str:
    path = folder / "mine.jsonl"
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


def test_answers_tags_and_relevant_ids(tmp_path: Path) -> None:
    asked = Reading(task_kind="generation", label_column="answer")
    answers = load_task(written(tmp_path, question=["q", "r", "s"], answer=["yes", ["1", "one"], 3]), asked)
    assert (answers.kind, answers.metric, answers.class_names) == ("generation", "exact_match", ())
    assert answers.labels.tolist() == ["yes", '["1","one"]', "3"]
    asked = Reading(task_kind="tagging", label_column="ner_tags")
    tagged = load_task(written(tmp_path, tokens=TOKENS, ner_tags=TAGS), asked)
    assert tagged.texts[0][0] == "Ada met Alan"
    assert tagged.labels[0] == '["B-PER","O","B-PER"]'
    path = written(tmp_path, query=["q", "r"], label=[["d1"], {"d1": 2, "d2": 1}])
    ranked = load_task(path, Reading(task_kind="ranking"))
    assert ranked.labels.tolist() == ['["d1"]', '{"d1":2,"d2":1}']
    assert ranked.metric == "ndcg_at_10"
    assert ranked.strata.tolist() == [0, 0]


def test_answers_of_a_csv_file_that_look_like_numbers(tmp_path: Path) -> None:
    path = tmp_path / "sums.csv"
    path.write_text("question,label\n1+1,2\n2+2,4\n", encoding="utf-8")
    assert load_task(str(path), Reading(task_kind="generation")).labels.tolist() == ["2", "4"]


def test_names_of_tags_that_a_data_set_numbers(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"]))
    features = datasets.Features({"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": names})
    rows = {"tokens": TOKENS, "ner_tags": [[1, 0, 1], [0, 0]] * 3}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "saved"))
    task = load_task(str(tmp_path / "saved"), Reading(task_kind="tagging", label_column="ner_tags"))
    assert task.labels.tolist() == [json.dumps(tags, separators=(",", ":")) for tags in TAGS]


@pytest.mark.parametrize(
    ("kind", "columns", "line"),
    [
        ("generation", {"label": ["a", "b", None]}, "label_column=label: 1 of 3 labels are missing"),
        ("generation", {"label": ["a", {"b": 1}, "c"]}, "label_column=label: row 2 of the data: the label must be a"),
        ("tagging", {"label": [["O"], ["O", "O"], ["O"]]}, "task=mine.jsonl: label 1 has 2 tags, and its text 1"),
        ("tagging", {"label": ["O"] * 3}, "label_column=label: row 1 of the data: the label must be a list of tags"),
        ("tagging", {"text": [["a b"]] * 3, "label": [["O"]] * 3}, "text_column=text: row 1 of the data has the token"),
        ("ranking", {"label": [["a"], [], ["b"]]}, "label_column=label: row 2 of the data: the label names no"),
    ],
)
def test_a_fault_of_an_answer_has_its_line(tmp_path: Path, kind: str, columns: dict[str, list[Any]], line: str) -> None:
    path = written(tmp_path, **{"text": ["one", "two", "three"], **columns})
    with pytest.raises(L3DError) as caught:
        load_task(path, Reading(task_kind=kind))
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_an_answer_is_part_of_what_a_task_is() -> None:
    one, two = (make_task("t", [["a", "b"]], ["x", label], kind="generation") for label in ("y", "z"))
    assert one.fingerprint != two.fingerprint
    again = make_task("t", [["a", "b"]], ["x", ["y"]], kind="generation")
    assert again.fingerprint == one.fingerprint
    assert make_task("t", [["a", "b"]], [["x"], ["y"]], kind="ranking").fingerprint != one.fingerprint
