"""A task by its name, the remarks on its size, and factors without effect."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from refusals import refusal

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks import identity
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import fingerprint
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.resolve import inactive_factors, load_task, unused_test_examples
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate

SEEDS = {"data_split": 1, "label_selection": 2}


def write(folder: Path, *lines: str) -> str:
    """Write a file of these lines, or else of forty examples."""
    path = folder / "mine.csv"
    path.write_text("\n".join(lines or ["body,label", *(f"text {row},{row % 2}" for row in range(40))]))
    return str(path)


def test_an_entry_point() -> None:
    settings = SplitSettings(num_labelled=100, test_size=50)
    task = load_task("synthetic", settings=settings)
    assert (task.name, task.settings, task.notes) == ("synthetic", settings, ())
    split = task.split(SEEDS)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [80, 20, 50]


def test_a_file_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_task(write(tmp_path), Reading(text_column="body"))
    assert task.name == "mine.csv"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("mine.csv", "~/mine.csv"):
        assert load_task(path, Reading(text_column="body")).fingerprint == task.fingerprint


@pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed")
def test_a_folder_even_one_that_is_called_like_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    folder = tmp_path / "films.csv"
    datasets.Dataset.from_dict({"text": list("abcd"), "label": [0, 1, 0, 1]}).save_to_disk(folder)
    assert load_task(str(folder)).name == "films.csv"
    monkeypatch.chdir(tmp_path)  # the library has a loader named csv, which reads all files here
    for name in ("csv/inside.csv", "outside.csv"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("text,label\n" + f"{Path(name).stem},0\n{Path(name).stem},1\n" * 2)
    assert {*load_task("csv").texts[0]} == {"inside"}


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("syntetic", " Did you mean 'synthetic'?"),
        ("owner/films", ""),
        ("mine.xlsx", " Save this file as one of these."),
        ("", ""),
    ],
)
def test_an_unknown_name(name: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for there in ("mine.xlsx", "mine.csv"):
        Path(there).touch()
    known = ", ".join(registry.names("task"))
    assert refusal(load_task, name) == (
        f"task={name!r}: must be one of {known}, or a .csv, .tsv, .parquet or .jsonl file, a folder with a data set, "
        f"or hf:NAME.{fix}"
    )


def test_a_strangers_task_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger: list[object] = []
    monkeypatch.setattr(registry, "names", lambda _: ["theirs"])
    monkeypatch.setattr(registry, "load", lambda *_: lambda options: stranger[-1])
    stranger.append(replace(generate(60), fingerprint="out of date"))
    assert load_task("theirs").fingerprint == generate(60).fingerprint
    stranger.append(replace(generate(60), example_ids=np.zeros(60, dtype=np.int64)))
    with pytest.raises(L3DError, match=r"^task=synthetic: example_ids are not unique"):
        load_task("theirs")
    stranger.append(None)
    with pytest.raises(L3DError, match=r"^task=theirs: its loader returned NoneType, not a Task"):
        load_task("theirs")


@pytest.mark.parametrize("name", ["synthetic", "file"])
def test_the_fingerprint_is_computed_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "fingerprint", counted := Mock(wraps=fingerprint))
    task = load_task(name) if name == "synthetic" else load_task(write(tmp_path), Reading(text_column="body"))
    assert [fingerprint(*each.args) for each in counted.call_args_list] == [task.fingerprint]


def test_a_number_that_a_class_cannot_give_names_the_class(tmp_path: Path) -> None:
    rows = [f"text {row},{'common' if row < 30 else 'rare'}" for row in range(40)]
    path = write(tmp_path, "text,label", *rows)
    with pytest.raises(ParameterError, match=r"^num_labelled=20: class 'rare' has 8 training examples, so at most 16"):
        load_task(path, settings=SplitSettings(num_labelled=20))
    with pytest.raises(ParameterError, match=r"^test_size=5: class 'rare' has 2 test examples, so at most 4"):
        load_task(path, settings=SplitSettings(test_size=5))
    assert load_task(path, settings=SplitSettings(num_labelled=16, test_size=4)).notes == ()


def test_a_rare_class_is_told_before_training_and_can_be_left_out(tmp_path: Path) -> None:
    rows = [f"text {row},{'Other' if row < 4 else 'abcd'[row % 4]}" for row in range(400)]
    path = write(tmp_path, "text,Ticket type", *rows)
    reading, line = Reading(label_column="Ticket type"), "data = data[~data['Ticket type'].astype(str).isin(['Other'])]"
    assert load_task(path, reading).notes[-1] == (
        "mine.csv: too few test examples for macro averages such as f1_macro: class Other has 1; leave it out or merge "
        f"it with another class, in pandas: {line}"
    )
    for settings in (SplitSettings(num_labelled=200), SplitSettings(reference_size=200)):
        with pytest.raises(ParameterError) as raised:
            load_task(path, reading, settings=settings)
        assert str(raised.value).endswith(f"or leave the class out or merge it with another class, in pandas: {line}.")
    with pytest.raises(ParameterError) as raised:  # the other classes have too few, too
        load_task(path, reading, settings=SplitSettings(num_labelled=2000))
    assert "pandas" not in str(raised.value)


def test_texts_that_occur_more_than_once_are_counted(tmp_path: Path) -> None:
    rows = [f"text {row % 17},{row % 2}" for row in range(20)]
    path = write(tmp_path, "text,label", *rows, "text 1,1")
    (note,) = (each for each in load_task(path).notes if "more than once" in each)
    assert note == (
        "mine.csv: 3 texts occur more than once, in 7 of 21 rows (3 of them with different labels): "
        "the same text may be trained on and tested on. Keep one of each, in pandas: "
        "data = data.drop_duplicates(['text'])"
    )


def test_one_text_occurs_and_keeps_its_ids(tmp_path: Path) -> None:
    rows = [f"T-{row},text {row},{row % 2}" for row in range(20)]
    path = write(tmp_path, "id,text,label", *rows, rows[3], rows[3])
    task = load_task(path)
    assert any("1 text occurs more than once, in 3 of 22 rows: " in note for note in task.notes)
    assert task.example_ids[[0, 3, 20, 21]].tolist() == ["T-0", "T-3", "T-3 (2)", "T-3 (3)"]
    assert not task.are_numbered
    path = write(tmp_path, "id,text,label", *rows, "T-3,another,1")
    task = load_task(path)
    assert task.example_ids.tolist() == [*range(21)]
    assert task.are_numbered


def test_remarks_on_what_is_smaller_than_the_default(tmp_path: Path) -> None:
    task = load_task(write(tmp_path), Reading(text_column="body"))
    assert task.notes == (
        "mine.csv: 32 training examples labelled instead of the default 1,000: class 0 has 16, class 1 has 16 (500 per "
        "class would be needed)",
        "mine.csv: 8 test examples evaluated instead of the default 1,000: class 0 has 4, class 1 has 4 (500 per "
        "class would be needed)",
    )
    small = load_task("synthetic", settings=SplitSettings(num_labelled=2, test_size=2))
    assert small.notes == ("synthetic: one labelled example a class leaves none for validation",)
    assert len(small.split(SEEDS).validation) == 0


def bound(examples: int, classes: int = 2, **settings: object) -> Task:
    return replace(generate(examples, classes), settings=SplitSettings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "inactive"),
    [
        (bound(100), {"label_selection"}),
        (bound(100, num_labelled=78), {}),
        (bound(100, test_size=18), {}),
        (bound(100, num_labelled=80, test_size=20), {"label_selection"}),
        (bound(100, test_selection="fixed"), {"label_selection"}),
        (bound(100, test_selection="fixed", num_labelled=10), {}),
        (bound(4, test_selection="fixed"), {"label_selection", "data_split"}),
        (bound(4000), {}),
    ],
)
def test_factors_without_effect_are_those_that_change_nothing(task: Task, inactive: set[str]) -> None:
    found = inactive_factors(task)
    assert set(found) == set(inactive)
    for factor in SEEDS:
        splits = [task.split({**SEEDS, factor: seed}) for seed in range(20)]
        parts = ("train", "validation", "test")
        changes = any(len({tuple(getattr(split, part)) for split in splits}) > 1 for part in parts)
        assert changes == (factor not in found)


@pytest.mark.parametrize(
    ("task", "unused"),
    [
        (bound(100), 0),
        (bound(100, test_size=18), 2),
        (bound(100, test_selection="fixed", test_size=18), 2),
        (bound(103, test_size=18), 2),
        (bound(20_000), 3000),
    ],
)
def test_unused_test_examples_are_those_that_a_larger_test_size_takes(task: Task, unused: int) -> None:
    """So many more are drawn, and one more is refused; the studies of whole parts take what is left of them."""
    assert unused_test_examples(task) == unused
    size = len(task.split(SEEDS).scored) + unused
    most = replace(task, settings=replace(task.settings, test_size=size))
    assert len(most.split(SEEDS).scored) == size
    with pytest.raises(ParameterError, match="test_size"):
        replace(task, settings=replace(task.settings, test_size=size + 1)).split(SEEDS)
    parts = np.arange(len(task)) % 2
    own = replace(task, parts=parts, settings=SplitSettings(source="own", test_size=3, reference_size=2))
    assert unused_test_examples(own) == int(parts.sum()) - 5
    assert unused_test_examples(replace(own, settings=SplitSettings(source="own"))) == 0


def test_the_reason_names_the_fix() -> None:
    assert inactive_factors(bound(100)) == {
        "label_selection": "every training example of synthetic is labelled and every test example is evaluated, so "
        "there is nothing to select: lower num_labelled or test_size"
    }
