"""The tasks of the random-seeds study: their published parts, what becomes of their texts, and that keys stay."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import load_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.benchmark_set import Benchmark, content_id
from mlflow_l3d.tasks.sources.glue import STUDY

FOLDER = os.environ.get("L3D_TEST_DATA", "")
REFERENCE = os.environ.get("L3D_TEST_REFERENCE", "")
needs_data = pytest.mark.skipif(not FOLDER, reason="L3D_TEST_DATA names no folder")
OWN = SplitSettings(source="own")

CLASSES = {  # name: examples of each class in the train and in the validation part, as the data's own README has them
    "sst2": ([13265, 16735], [428, 444]),
    "cola": ([2528, 6023], [322, 721]),
    "mrpc": ([1194, 2474], [129, 279]),
    "rte": ([1249, 1241], [146, 131]),
    "rte_superglue": ([1249, 1241], [146, 131]),
    "cb": ([115, 119, 16], [23, 28, 5]),
    "copa": ([195, 205], [55, 45]),
    "boolq": ([715, 1196], [1237, 2033]),
    "wic": ([2714, 2714], [319, 319]),
    "multirc": ([15215, 12025], [2773, 2075]),
    "qnli": ([5027, 4972], [2702, 2761]),
    "qqp": ([5747, 3252], [623, 377]),
    "stsb": ([5749], [1500]),
}
# Keys of finished cells depend on these: first digits of fingerprints before tasks had kinds and parts.
PINNED = {  # name: fingerprint, and what is said to be left out
    "sst2": ("1f67cc53509d7a98", "repeated examples (82) and texts with more than one label (1)"),
    "cola": ("0d618f72912a1029", "repeated examples (23) and texts with more than one label (16)"),
    "mrpc": ("96d4842fdd271e58", ""),
    "ag_news": ("e962a4a762e676af", ""),
    "trec": ("3d7eec7e35b9bdc1", "repeated examples (81)"),
    "snips": ("db66897cbb1458c9", "repeated examples (178)"),
    "dbpedia": ("5e90519e6e514c3e", "repeated examples (1)"),
    "synthetic": ("909c6ad3b30f7082", ""),
    "rotten_tomatoes": ("3e881232d257135a", ""),
    "bbc_news": ("3f42db7fcf6d7ad8", ""),
}
PINNED_FILES = {  # Likewise, of the files themselves, as a user's own.
    "cola": "a64d571b2fe20dae",
    "stsb": "8d33ed2fc0fda121",
    "boolq": "6112749f2b3e6b35",
    "cb": "712698b23fa5f2be",
    "copa": "09350457c90e4295",
    "qnli": "59590f21aa7ca829",
    "qqp": "7185b83b4bccc13e",
    "rte": "22178ae9d3e0a880",
    "wic": "592ef4457235feb2",
    "mrpc": "e4f19d22be0ab1c3",
    "trec": "3743c31f9a6d3770",
}


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("L3D_DATA", FOLDER)
    return Path(FOLDER)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", PINNED)
def test_fingerprints_stay(name: str, data: Path) -> None:
    task, (fingerprint, left_out) = load_task(name), PINNED[name]
    assert task.fingerprint[:16] == fingerprint
    assert [note for note in task.notes if "left out" in note] == [f"{name}: left out {left_out}"] * bool(left_out)


@needs_data
@pytest.mark.parametrize("name", PINNED_FILES)
def test_fingerprints_of_files_stay(name: str, data: Path) -> None:
    assert load_task(str(data / f"{name}.parquet")).fingerprint[:16] == PINNED_FILES[name]


@needs_data
def test_labels_and_names_are_the_files_own(data: Path) -> None:
    task = load_task(str(data / "trec.parquet"))
    assert task.class_names == ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM")
    assert np.bincount(task.labels).tolist() == [95, 1344, 1300, 1288, 916, 1009]
    assert task.notes[1].endswith(": class ABBR has 76 (167 per class would be needed)")
    fixed = load_task(str(data / "trec.parquet"), settings=SplitSettings(60, 60, "fixed"))
    assert np.bincount(fixed.labels[fixed.split({"data_split": 1, "label_selection": 2}).test]).tolist() == [10] * 6


@pytest.fixture(scope="module")
def whole() -> Callable[[str], Task]:
    """Give a function that reads a set with its published parts, once."""
    return cache(partial(load_task, settings=OWN))


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", CLASSES)
def test_published_parts_are_whole(name: str, data: Path, whole: Callable[[str], Task]) -> None:
    task = whole(name)
    split = task.split({"data_split": 1})
    train, validation = CLASSES[name]
    assert np.bincount(task.strata[split.train]).tolist() == train
    assert np.bincount(task.strata[split.test]).tolist() == validation
    assert len(split.validation) == 0
    ids = task.example_ids[split.test].tolist()
    assert all(str(example).startswith("validation/") for example in ids)
    assert list(task.class_names) == list(STUDY_BY_NAME[name].class_names)
    kinds = {"stsb": ("regression", "pearson"), "copa": ("multiple_choice", "accuracy")}
    others = ("classification", "matthews_corrcoef" if name == "cola" else "accuracy")
    assert (task.kind, task.metric) == kinds.get(name, others)


STUDY_BY_NAME = {benchmark.name: benchmark for benchmark in STUDY}
_NAMES = ("MRPC", "QNLI", "QQP", "SST2", "RTEG", "CoLA", "STSB", "BoolQ", "CB", "RTES", "MultiRC", "WiC", "COPA")
PAPERS_NAMES = dict(zip(_NAMES, STUDY, strict=True))  # its tables 1, 4 and 5


@needs_data
def test_ids_tell_repeats_apart_and_are_those_of_the_pool_where_texts_occur_once(data, whole) -> None:
    own, pool = whole("rte"), load_task("rte")
    contents = [str(example).partition("/")[2] for example in own.example_ids]
    assert sum(example.endswith("-2") for example in contents) == 2
    assert {example.removesuffix("-2") for example in contents} == set(pool.example_ids.tolist())
    repeats = whole("cola")
    # 16 texts of CoLA have two labels, and are kept here.
    assert len(repeats) == 9594
    assert len(set(repeats.example_ids.tolist())) == 9594


ASKED = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
EXPECTED = {  # name: what our text columns and choices should be, of a row of the file
    "cb": lambda row: [row["premise"], row["hypothesis"]],
    "boolq": lambda row: [row["question"], row["passage"]],
    "qnli": lambda row: [row["question"], row["sentence"]],
    "multirc": lambda row: [row["paragraph"], row["question"] + " " + row["answer"]],
    "wic": lambda row: [row["word"] + ": " + row["sentence1"], row["sentence2"]],
    "copa": lambda row: [f"{plain(row['premise'])} {ASKED[row['question']]}", row["choice1"], row["choice2"]],
    "stsb": lambda row: [row["sentence1"], row["sentence2"]],
    "sst2": lambda row: [row["text"]],
}


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", EXPECTED)
def test_what_becomes_of_the_texts(name: str, data: Path, whole: Callable[[str], Task]) -> None:
    task = whole(name)
    rows = pd.read_parquet(data / f"{name}.parquet").query("split == 'validation'").reset_index(drop=True)
    position = {str(example): at for at, example in enumerate(task.example_ids)}
    for at in (0, 7, len(rows) - 1):
        row = rows.iloc[at]
        wanted = [plain(text) for text in EXPECTED[name](row)]
        found = position[f"validation/{content_id(wanted)}"]
        # Bare comparisons: no text may come into the output of a failed test.
        same = wanted == [column[found] for column in (*task.texts, *task.choices)]
        assert same
        label = task.labels[found]
        assert abs(label - row["label"]) <= 0.0005 if name == "stsb" else label == row["label"]


@needs_data
def test_a_pool_of_scores_and_one_of_choices(data: Path) -> None:
    scores, pairs = load_task("stsb"), load_task("copa")
    assert scores.parts is None
    assert scores.labels.dtype == np.float64
    assert len(set(zip(*scores.texts, strict=True))) == len(scores) == 8628 - 50 - 22
    assert np.array_equal(np.round(scores.labels, 3), scores.labels)
    assert len(pairs) == 500
    assert np.bincount(pairs.labels).tolist() == [250, 250]
    assert len(pairs.choices) == 2
    assert load_task("rte").fingerprint == load_task("rte_superglue").fingerprint


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", ["trec", "ag_news"])
def test_a_set_without_a_validation_part_is_evaluated_on_its_test_part(name: str, data: Path) -> None:
    task = load_task(name, settings=OWN)
    split = task.split({})
    assert set(task.parts[split.train]) == {0}
    assert set(task.parts[split.test]) == {2}
    assert len(split.train) == (task.parts == 0).sum()
    assert len(split.test) == (task.parts == 2).sum() > 0
    assert "(of the test part, for there is no validation part)" in " ".join(task.notes)


@pytest.mark.skipif(not REFERENCE, reason="L3D_TEST_REFERENCE names no folder")
def test_the_study_has_every_task_of_the_paper() -> None:
    settings = pd.read_csv(Path(REFERENCE) / "zhou2025_settings.csv")
    assert set(PAPERS_NAMES) == set(settings["task"])
    found = dict(settings.dropna(subset="classes").groupby("task")["classes"].unique())
    for name, benchmark in PAPERS_NAMES.items():
        classes = found.get(name, [])
        # The paper counts COPA's two choices as classes, and STS-B has none.
        assert [len(benchmark.class_names)] == ([int(number) for number in classes] or [0])
    assert {benchmark.name for benchmark in STUDY} <= set(registry.names("task"))


# The hub, played: the same rows under the names that it uses.


def a_frame(benchmark: Benchmark) -> pd.DataFrame:
    """Return the rows of a local file: eight to train on, one of them twice, four for validation."""
    count = 13
    multiple = benchmark.kind == "multiple_choice"
    columns: dict[str, Any] = {
        name: [f"{name} {row % 12} é" for row in range(count)]
        for name in (*benchmark.columns, *(benchmark.class_names if multiple else ()))
    }
    if benchmark.name == "copa":
        columns["question"] = ["cause", "effect", "cause", "effect"] * 3 + ["cause"]
    classes = len(benchmark.class_names)
    columns["label"] = [row % 12 / 7 if not classes else row % 12 % classes for row in range(count)]
    columns["split"] = ["train"] * 8 + ["validation"] * 4 + ["train"]
    return pd.DataFrame(columns)


def on_the_hub(benchmark: Benchmark, frame: pd.DataFrame) -> Any:
    import datasets

    names = dict(zip(benchmark.columns, benchmark.hub_columns or benchmark.columns, strict=True))
    hidden = frame.head(3).assign(split="test", label=-1.0 if benchmark.kind == "regression" else -1)
    rows = pd.concat([frame, hidden]).rename(columns=names)
    names_of = list(benchmark.class_names)
    label = datasets.ClassLabel(names=names_of) if names_of else datasets.Value("float32")
    parts = {}
    for part in ("train", "validation", "test"):
        data = rows[rows["split"] == part].drop(columns="split").reset_index(drop=True)
        features = {name: datasets.Value("string") for name in data.columns} | {"label": label}
        parts[part] = datasets.Dataset.from_dict(data.to_dict("list"), features=datasets.Features(features))
    return datasets.DatasetDict(parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDY_BY_NAME)
@pytest.mark.parametrize("settings", [OWN, SplitSettings()], ids=["own", "drawn"])
def test_the_folder_and_the_hub_give_the_same_task(name, settings, tmp_path, monkeypatch, hub) -> None:
    benchmark = STUDY_BY_NAME[name]
    frame = a_frame(benchmark)
    hub[tuple(benchmark.hub.rsplit("/", 1))] = on_the_hub(benchmark, frame)
    monkeypatch.setenv("L3D_DATA", str(tmp_path))
    there = load_task(name, settings=settings)
    # Rows in another order are the same data.
    frame.sample(frac=1, random_state=3).to_parquet(tmp_path / f"{benchmark.file or name}.parquet")
    here = load_task(name, settings=settings)
    assert same_task(here, there)
    assert here.notes[0] == f"{name}: read from {benchmark.file or name}.parquet in the folder L3D_DATA"
    assert there.notes[0] == f"{name}: read from the hub ({benchmark.hub})"
    split = here.split({"data_split": 1, "label_selection": 2})
    if settings is OWN:
        assert [len(split.train), len(split.validation), len(split.test)] == [9, 0, 4]
    else:
        assert len(here) == 12


def same_task(one: Task, other: Task) -> bool:
    parts = [(task.fingerprint, task.texts, task.choices, task.kind, task.metric) for task in (one, other)]
    arrays = [(task.example_ids.tolist(), task.labels.tolist()) for task in (one, other)]
    return parts[0] == parts[1] and arrays[0] == arrays[1]


def test_empty_texts_of_a_public_set_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = STUDY_BY_NAME["multirc"]
    frame = a_frame(benchmark)
    frame.loc[3, "answer"] = " "
    frame.to_parquet(tmp_path / "multirc.parquet")
    monkeypatch.setenv("L3D_DATA", str(tmp_path))
    task = load_task("multirc", settings=OWN)
    assert len(task) == 12
    assert "left out 1 row with gaps, counted from 1: 1 without answer (row 4)" in " ".join(task.notes)


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("stsb", {"label": "3.5 of 5"}, "must hold numbers (scores) for regression, not str"),
        ("copa", {"choice2": None}, "choice_columns=choice2"),
        ("rte", {"label": 0.5}, "must hold whole numbers or class names"),
        ("copa", {"split": None}, "and the data has no column split."),
        ("copa", {"split": None}, "which needs the columns premise, question, choice1, choice2, label, split"),
    ],
)
def test_a_file_that_is_not_the_set(name, change, line, tmp_path, monkeypatch) -> None:
    frame = a_frame(STUDY_BY_NAME[name])
    for column, value in change.items():
        frame = frame.drop(columns=column) if column == "split" else frame.assign(**{column: value})
    frame.to_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.setenv("L3D_DATA", str(tmp_path))
    with pytest.raises(L3DError) as caught:
        load_task(name, settings=OWN)
    assert str(caught.value).startswith(f"task={name}: {name}.parquet in the folder L3D_DATA cannot be used (")
    assert line in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
