"""The split that a data set comes with: whole, in shares, and where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refusals import refusal
from task_files import written

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task, _allotted, predefined_split
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.resolve import inactive_factors, load_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.table import numbers_of_parts

OWN = SplitSettings(source="own")
HALVES = [0, 0, 0, 0, 1, 1, 1, 1]


def a_task(labels: list[int], parts: list[int], kind: str = "classification") -> Task:
    names = [f"c{c}" for c in range(max(labels) + 1)] if kind == "classification" else []
    values = np.array(labels, dtype=np.int64 if names else np.float64)
    texts = [[f"t{k}" for k in range(len(labels))]]
    task = make_task("mine", texts, values, names, parts=np.array(parts), kind=kind)  # type: ignore[arg-type]
    return replace(task, settings=OWN)


def test_the_parts_whole_and_no_seed_changes_them() -> None:
    task = a_task([0, 1, 0, 1, 0, 1, 1, 0], [0, 1, 2, 0, 0, 1, 0, 2])
    split = task.split({})
    assert (split.train.tolist(), split.validation.tolist(), split.test.tolist()) == ([0, 3, 4, 6], [], [1, 5])
    other = task.split({"data_split": 7, "label_selection": 8})
    assert all(np.array_equal(getattr(split, part), getattr(other, part)) for part in ("train", "validation", "test"))
    inactive = inactive_factors(task)
    assert set(inactive) == {"data_split", "label_selection"}
    assert inactive["data_split"].startswith("mine is used with its own train and validation parts")


def test_settings_that_are_not_the_default_are_part_of_the_key_and_others_are_not() -> None:
    before = {"num_labelled", "test_size", "test_selection", "fixed_seed", "train_fraction"}
    assert set(SplitSettings().identity()) == before
    assert set(OWN.identity()) == before | {"source"}
    held = SplitSettings(source="own", validation_fraction=0.1, evaluated="validation").identity()
    assert set(held) == before | {"source", "validation_fraction", "evaluated"}


@settings(max_examples=50, deadline=None)
@given(
    counts=st.lists(st.integers(2, 30), min_size=2, max_size=4),
    fraction=st.floats(0.05, 0.6),
    seed=st.integers(0, 5),
    share=st.floats(0.3, 1.0),
)
def test_what_is_drawn_once(counts: list[int], fraction: float, seed: int, share: float) -> None:
    labels = [c for c, count in enumerate(counts) for _ in range(2 * count)]
    parts = [part for count in counts for part in [0] * count + [1] * count]
    total = sum(counts)
    asked = max(len(counts), int(share * total))
    wanted = SplitSettings(asked, max(1, asked // 2), fixed_seed=seed, source="own", validation_fraction=fraction)
    task = replace(a_task(labels, parts), settings=wanted)
    # What leaves a class with nothing to be trained on is refused, which has a test of its own.
    held_out = max(1, int(asked * fraction + 0.5))
    assume(held_out <= asked - len(counts))
    split = predefined_split(task)
    held = np.concatenate([split.train, split.validation])
    assert len(held) == asked == len(set(held.tolist()))
    assert len(split.test) == max(1, asked // 2)
    assert all(parts[position] == 0 for position in held)
    assert all(parts[position] == 1 for position in split.test)
    per_class = np.bincount(task.labels[held], minlength=len(counts))
    trained = np.bincount(task.labels[split.train], minlength=len(counts))
    assert per_class.min() >= 1
    assert trained.min() >= 1
    exact = np.array(counts) * asked / total
    assert (np.abs(per_class - exact) <= 1 + len(counts)).all()
    assert len(split.validation) == held_out
    assert (np.abs(per_class - trained - (per_class - 1) * held_out / (asked - len(counts))) < 1).all()
    again = predefined_split(task)
    assert np.array_equal(again.train, split.train)
    assert np.array_equal(again.validation, split.validation)
    scored = predefined_split(replace(task, settings=replace(wanted, evaluated="validation")))
    assert np.array_equal(scored.test, split.validation)
    assert np.array_equal(scored.train, split.train)


@settings(max_examples=200, deadline=None)
@given(counts=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(sum), data=st.data())
def test_shares_add_up_and_take_no_more_than_there_is(counts: list[int], data: st.DataObject) -> None:
    least = data.draw(st.integers(0, 1))
    array = np.array(counts)
    total = data.draw(st.integers(int(np.minimum(array, least).sum()), int(array.sum())))
    sizes = _allotted(array, total, least)
    assert sizes.sum() == total
    assert (sizes <= array).all()
    assert (sizes >= np.minimum(array, least)).all()


def test_another_fixed_seed_draws_others_and_zero_is_one() -> None:
    task = a_task([0, 1] * 40, [0, 0, 1, 1] * 20)
    drawn = [
        predefined_split(replace(task, settings=SplitSettings(20, 10, fixed_seed=seed, source="own")))
        for seed in (0, 1, 0)
    ]
    assert drawn[0].train.tolist() == drawn[2].train.tolist() != drawn[1].train.tolist()
    assert drawn[0].test.tolist() == drawn[2].test.tolist() != drawn[1].test.tolist()


def test_scores_are_one_stratum() -> None:
    task = a_task([1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 0, 0, 0, 0, 1, 1], "regression")
    split = predefined_split(replace(task, settings=SplitSettings(source="own", validation_fraction=0.5)))
    assert [len(part) for part in (split.train, split.validation, split.test)] == [3, 3, 2]


@pytest.mark.parametrize(
    ("parts", "wanted", "line"),
    [
        (None, OWN, "task=mine: is to be used with its own train and validation parts, and it has no parts of its"),
        ([0] * 8, OWN, "and the validation part has no example. Name one with both; in a file"),
        ([2, 2, 2, 2, 1, 1, 1, 1], OWN, "and the train part has no example"),
        ([0, 0, 0, 0, 2, 2, 2, 2], replace(OWN, test_size=5), "test_size=5: there are 4 examples in the test part"),
        ([0, 1, 0, 1, 0, 1, 0, 1], OWN, "and the train part has no example of class 'c1'"),
        (HALVES, replace(OWN, num_labelled=5), "num_labelled=5: must lie between 2 and the 4 train"),
        (HALVES, replace(OWN, num_labelled=1), "num_labelled=1: must lie between 2 and the 4 train"),
        (HALVES, replace(OWN, test_size=5), "test_size=5: there are 4 examples in the validation"),
        (HALVES, replace(OWN, validation_fraction=1.0), "validation_fraction=1.0: must lie in [0,"),
        (HALVES, replace(OWN, validation_fraction=0.7), "validation_fraction=0.7: would hold out 3"),
        (HALVES, replace(OWN, evaluated="validation"), "validation_fraction=0.0: leaves no"),
        (HALVES, SplitSettings(validation_fraction=0.1), "validation_fraction=0.1: is for a task's"),
        (HALVES, SplitSettings(source="mine"), "source='mine': must be one of drawn, own"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_split(parts: list[int] | None, wanted: SplitSettings, line: str) -> None:
    task = a_task([0, 1] * 4, parts or [0] * 8)
    task = replace(task, settings=wanted, parts=task.parts if parts else None)
    assert line in refusal(task.split, {"data_split": 1, "label_selection": 2})


def columns(**more: list[object]) -> dict[str, list[object]]:
    return {"text": [f"t{k}" for k in range(8)], "label": [0, 1] * 4, **more}


def test_a_column_of_parts_in_a_file(tmp_path: Path) -> None:
    names = ["train", "Train", "training", "train", "validation", "dev", "test", "test"]
    labels = ["no", "yes", "no", "yes", "no", "yes", "", ""]
    path = written(tmp_path / "mine.csv", pd.DataFrame(columns(split=names) | {"label": labels}))
    task = load_task(str(path), settings=OWN)
    assert task.parts.tolist() == [0, 0, 0, 0, 1, 1]
    assert task.notes == (
        "mine.csv: left out 2 rows without a label in the test part",
        "mine.csv: its own split is used: 4 train, 2 evaluated examples",
    )
    assert task.example_ids.tolist() == [*range(6)]
    task = [*columns()["text"]]
    pd.DataFrame({"split": names[::-1], "label": labels[::-1], "text": [*task[:3], "", *task[4:]]}).to_csv(path)
    with pytest.raises(ParameterError, match=r"the first in row 4 of the data"):
        load_task(str(path), settings=OWN)
    written(path, pd.DataFrame(columns(split=names) | {"label": labels}))
    # With a drawn split the column says nothing, and a missing label is the fault that it was.
    with pytest.raises(ParameterError, match="2 of 8 labels are missing"):
        load_task(str(path))


def test_parts_decide_the_fingerprint_only_where_they_are_used(tmp_path: Path) -> None:
    found = []
    for number, names in enumerate((["train"] * 4 + ["dev"] * 4, ["dev"] * 4 + ["train"] * 4)):
        path = written(tmp_path / f"mine{number}.parquet", pd.DataFrame(columns(split=names)))
        found += [load_task(str(path)).fingerprint, load_task(str(path), settings=OWN).fingerprint]
    assert found[0] == found[2]
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "task=mine.parquet: is to be used with its own train and validation parts, and the data has no column"),
        ({"split": ["train", "fold 3"] * 4}, "split=fold 3: the column split has 'fold 3' in row 2 of the data; known"),
        ({"split": ["train", None] * 4}, "split=None: the column split has 'None' in row 2"),
        ({"split": ["train"] * 8}, "and the validation part has no example"),
    ],
)
def test_parts_that_are_none(tmp_path: Path, more: dict[str, list[object]], line: str) -> None:
    path = written(tmp_path / "mine.parquet", pd.DataFrame(columns(**more)))
    assert line in refusal(load_task, str(path), settings=OWN)


def test_names_of_parts() -> None:
    assert numbers_of_parts(["train", " VAL ", "test", "valid"], "split").tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("name", ["synthetic", "rotten_tomatoes", "bbc_news"])
def test_tasks_without_parts_of_their_own(name: str) -> None:
    with pytest.raises(L3DError, match=rf"^task={name}: is to be used with its own train and validation parts, and it"):
        load_task(name, settings=OWN)


def test_a_data_set_in_parts(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    parts = {
        "train": datasets.Dataset.from_dict(columns()),
        "validation": datasets.Dataset.from_dict({"text": ["v0", "v1", "v2"], "label": [0, 1, 1]}),
        "test": datasets.Dataset.from_dict({"text": ["w0", "w1"], "label": [-1, -1]}),
    }
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "mine"))
    task = load_task(str(tmp_path / "mine"), settings=OWN)
    split = task.split({})
    assert split.train.tolist() == [*range(8)]
    assert [task.texts[0][position] for position in split.test] == ["v0", "v1", "v2"]
    parts["train"].save_to_disk(str(tmp_path / "one"))
    with pytest.raises(ParameterError, match="and the data has no column split"):
        load_task(str(tmp_path / "one"), settings=OWN)


def test_evaluated_texts_that_are_trained_on_are_counted(tmp_path: Path) -> None:
    told = columns(split=["train"] * 4 + ["dev"] * 4) | {"text": ["a", "b", "c", "d", "a", "b", "x", "y"]}
    path = written(tmp_path / "mine.parquet", pd.DataFrame(told))
    notes = load_task(str(path), settings=OWN).notes
    assert notes[-1] == "mine.parquet: 2 of the evaluated examples have texts that are trained on, too"
