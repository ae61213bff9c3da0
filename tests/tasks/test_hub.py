"""Data sets of the Hugging Face library: folders are real, the hub is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import refusal

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.files import load_folder, load_from_hub
from mlflow_l3d.tasks.kinds import Reading

datasets = pytest.importorskip("datasets")


def make(labels: list[int], **columns: list[Any]) -> Any:
    features = {
        "text": datasets.Value("string"),
        "label": datasets.ClassLabel(names=["neg", "pos"]),
        **dict.fromkeys(columns, datasets.Value("int64")),
    }
    texts = [f"text {number}" for number in range(len(labels))]
    return datasets.Dataset.from_dict({"text": texts, "label": labels, **columns}, features=datasets.Features(features))


def split_sets(**more: Any) -> Any:
    return datasets.DatasetDict({"train": make([0, 1, 1], id=[0, 1, 2]), "dev": make([1, 0], id=[0, 1]), **more})


def test_all_splits_with_labels_follow_one_another(hub) -> None:
    hub["owner/films",] = split_sets(test=make([-1, -1], id=[0, 1]))
    task = load_from_hub("hf:owner/films")
    assert task.name == "hf:owner/films"
    assert task.class_names == ("neg", "pos")
    assert task.labels.tolist() == [0, 1, 1, 1, 0]
    assert task.texts == (("text 0", "text 1", "text 2", "text 0", "text 1"),)
    assert task.example_ids.tolist() == [0, 1, 2, 3, 4]
    assert task.notes == (
        "hf:owner/films: split test has no labels and is left out",
        "hf:owner/films: the column id does not identify examples, so their rows are numbered instead",
        "hf:owner/films: 2 texts occur more than once, in 4 of 5 rows (2 of them with different labels): the same text "
        "may be trained on and tested on. Keep one of each, in pandas: data = data.drop_duplicates(['text'])",
    )


def test_a_class_without_examples_is_no_class(hub) -> None:
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["a", "b", "c"])}
    )
    data = {"text": list("wxyz"), "label": [2, 0, 2, 0]}
    hub["three",] = datasets.DatasetDict(train=datasets.Dataset.from_dict(data, features=features))
    task = load_from_hub("hf:three")
    assert (task.class_names, task.labels.tolist()) == (("a", "c"), [1, 0, 1, 0])


def test_two_parts_are_an_owner_or_a_configuration(hub) -> None:
    hub["glue", "sst2"] = split_sets()
    assert len(load_from_hub("hf:glue/sst2")) == 5
    hub["glue/sst2",] = datasets.DatasetDict(train=make([0, 1, 0, 1]))
    assert len(load_from_hub("hf:glue/sst2")) == 4
    hub["owner/glue", "sst2"] = split_sets()
    assert len(load_from_hub("hf:owner/glue/sst2")) == 5


@pytest.mark.parametrize("name", ["hf:", "hf:a//b", "hf:a/b/c/d"])
def test_a_name_that_cannot_be(hub, name: str) -> None:
    with pytest.raises(ParameterError, match=f"^task={name}: must be hf:NAME"):
        load_from_hub(name)


def test_what_the_hub_may_answer(hub, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"^task=hf:nothing: the hub has no such data set"):
        load_from_hub("hf:nothing")
    answers = [
        (ConnectionError("Couldn't reach"), r"cannot be loaded from the hub \(ConnectionError\)"),
        (ValueError("Config name is missing.\nPick one: a, b"), r"from the hub \(Config name is missing. Pick"),
        (RuntimeError("Dataset scripts are no longer supported"), "scripts are no longer supported"),
        (OSError(28, "No space left on device", str(tmp_path)), r"from the hub \(No space left on device\)"),
        (datasets.exceptions.DatasetGenerationError(str(tmp_path)), r"from the hub \(DatasetGenerationError\)"),
    ]
    for answer, line in answers:
        hub["films",] = answer
        with pytest.raises(L3DError, match=f"^task=hf:films: .*{line}") as caught:
            load_from_hub("hf:films")
        assert "\n" not in str(caught.value)
        assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "column", "line"),
    [
        (
            datasets.DatasetDict(train=make([0, 1, -1, 1, 0])),
            "label",
            "label: 1 of 5 labels are missing, the first in row 3",
        ),
        (split_sets(), "labels", "'labels': must be one of the columns id, label, text. Did you mean 'label'?"),
    ],
    ids=["hidden here and there", "in no split"],
)
def test_labels_that_cannot_be_read(hub, data: Any, column: str, line: str) -> None:
    hub["films",] = data
    assert refusal(load_from_hub, "hf:films", Reading(label_column=column)).startswith(f"label_column={line}")


@pytest.mark.parametrize("one_split", [True, False])
def test_a_folder_that_was_saved(tmp_path: Path, one_split: bool) -> None:
    folder = tmp_path / "films"
    (make([0, 1, 1, 1, 0]) if one_split else split_sets()).save_to_disk(folder)
    task = load_folder(folder)
    assert task.name == "films"
    assert (task.class_names, task.labels.tolist()) == (("neg", "pos"), [0, 1, 1, 1, 0])


def test_a_folder_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "train.csv").write_text("text,label\na,x\nb,y\nc,x\n")
    (folder / "test.csv").write_text("text,label\nd,y\n")
    task = load_folder(folder)
    assert task.texts == (("a", "b", "c", "d"),)
    assert (task.class_names, task.labels.tolist()) == (("x", "y"), [0, 1, 0, 1])


def test_a_folder_that_holds_no_data(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    with pytest.raises(ParameterError, match=r"^task=films: the folder holds no data set that can be read") as caught:
        load_folder(folder)
    assert str(tmp_path) not in str(caught.value)
    (folder / "state.json").write_text("{}")
    with pytest.raises(ParameterError, match=r"^task=films: the folder holds no data set that can be read"):
        load_folder(folder)
