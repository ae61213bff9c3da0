"""The seven data sets of the paper by name: from a folder, and from a hub that is played."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.sources.benchmark_set import BENCHMARKS, Benchmark

HUB = {  # name: what the hub calls the set and its configuration, text columns, column of labels and its kind
    "sst2": (("nyu-mll/glue", "sst2"), ("sentence",), "label", "numbered"),
    "cola": (("nyu-mll/glue", "cola"), ("sentence",), "label", "numbered"),
    "mrpc": (("nyu-mll/glue", "mrpc"), ("sentence1", "sentence2"), "label", "numbered"),
    "ag_news": (("fancyzhx/ag_news",), ("text",), "label", "numbered"),
    "trec": (("SetFit/TREC-QC",), ("text",), "label_coarse_original", "named"),
    "snips": (("benayas/snips",), ("text",), "category", "named"),
    "dbpedia": (("fancyzhx/dbpedia_14",), ("content",), "label", "numbered"),
}

Rows = list[tuple[tuple[str, ...], int]]


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("L3D_DATA", raising=False)


def some_rows(benchmark: Benchmark) -> Rows:
    """Return four examples a class, one of them twice, and a text with two labels."""
    classes = range(len(benchmark.class_names))
    rows = [(tuple(f"{column} {i} of {c} é" for column in benchmark.columns), c) for c in classes for i in range(4)]
    both = tuple("both" for _ in benchmark.columns)
    return [*rows, rows[3], (both, 0), (both, 1)]


def write_file(folder: Path, benchmark: Benchmark, rows: Rows, **change: Any) -> Path:
    """Write the file of the local folder; `change` replaces columns, None removes one."""
    columns: dict[str, Any] = dict(zip(benchmark.columns, zip(*(texts for texts, _ in rows), strict=True), strict=True))
    columns |= {"label": [c for _, c in rows], "label_name": [benchmark.class_names[c] for _, c in rows]}
    columns |= {"split": "train", **change}
    file = folder / f"{benchmark.name}.parquet"
    pd.DataFrame({name: values for name, values in columns.items() if values is not None}).to_parquet(file)
    return file


def hub_set(benchmark: Benchmark, rows: Rows) -> Any:
    """Return the rows as the hub has them: two splits and a third without labels, blanks at the end, more columns."""
    import datasets

    _, columns, label, kind = HUB[benchmark.name]
    numbered = kind == "numbered"
    names = list(benchmark.class_names)

    def split(part: Sequence[tuple[tuple[str, ...], int]]) -> Any:
        data: dict[str, Any] = {name: [f"{texts[at]} " for texts, _ in part] for at, name in enumerate(columns)}
        data[label] = [c if numbered else names[c] for _, c in part]
        data["idx"] = list(range(len(part)))
        features = {name: datasets.Value("string") for name in columns}
        features[label] = datasets.ClassLabel(names=names) if numbered else datasets.Value("string")
        features["idx"] = datasets.Value("int64")
        return datasets.Dataset.from_dict(data, features=datasets.Features(features))

    splits = {"train": split(rows[5:]), "validation": split(rows[:5])}
    if numbered:
        splits["test"] = split([(texts, -1) for texts, _ in rows[:3]])
    return datasets.DatasetDict(splits)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_folder_and_the_hub_give_the_same_task(name, tmp_path, monkeypatch, hub) -> None:
    benchmark = BENCHMARKS[name]
    rows = some_rows(benchmark)
    monkeypatch.setenv("L3D_DATA", str(tmp_path))
    hub[HUB[name][0]] = hub_set(benchmark, rows)
    there = benchmark({})
    write_file(tmp_path, benchmark, rows)
    hub.clear()
    here = benchmark({})
    assert here.fingerprint == there.fingerprint
    assert (here.name, here.texts, here.class_names) == (there.name, there.texts, there.class_names)
    assert here.example_ids.tolist() == there.example_ids.tolist()
    assert dict(zip(zip(*here.texts, strict=True), here.labels.tolist(), strict=True)) == dict(rows[:-3])
    left_out = f"{name}: left out repeated examples (1) and texts with more than one label (1)"
    assert here.notes == (f"{name}: read from {name}.parquet in the folder L3D_DATA", left_out)
    assert there.notes[0] == f"{name}: read from the hub ({benchmark.hub})"
    assert there.notes[-1] == left_out
    assert ("test has no labels" in " ".join(there.notes)) == (HUB[name][3] == "numbered")
    assert not any(str(tmp_path) in note for note in here.notes)


@pytest.mark.parametrize("label_name", [None, ["neither", "Not  Equivalent", "EQUIVALENT"]])
def test_classes_are_matched_by_name_or_else_by_number(tmp_path, monkeypatch, label_name) -> None:
    benchmark = BENCHMARKS["mrpc"]
    monkeypatch.setenv("L3D_DATA", str(tmp_path))
    rows = some_rows(benchmark)[:8]
    names = None if label_name is None else [label_name[c + 1] for _, c in rows]
    # Where there are names, the numbers may be any.
    labels = [c if label_name is None else 7 - c for _, c in rows]
    write_file(tmp_path, benchmark, rows, label_name=names, label=labels)
    task = benchmark({})
    assert task.class_names == ("not_equivalent", "equivalent")
    assert dict(zip(zip(*task.texts, strict=True), task.labels.tolist(), strict=True)) == dict(rows)


def message(benchmark: Benchmark) -> str:
    with pytest.raises(L3DError) as caught:
        benchmark({})
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"task={benchmark.name}: ")
    return line


def test_neither_a_folder_nor_the_hub(tmp_path, monkeypatch, hub) -> None:
    benchmark = BENCHMARKS["mrpc"]
    fix = (
        "Either set L3D_DATA to a folder with mrpc.parquet, which needs the columns sentence1, sentence2, label, "
        "or load it once with a network"
    )
    hub["nyu-mll/glue", "mrpc"] = ConnectionError("Couldn't reach the hub")
    line = message(benchmark)
    assert "the hub (nyu-mll/glue/mrpc) cannot be used" in line
    assert "cannot be loaded from the hub (ConnectionError)" in line
    assert fix in line
    monkeypatch.setenv("L3D_DATA", str(tmp_path))
    line = message(benchmark)
    assert fix in line
    assert str(tmp_path) not in line
    hub.clear()
    assert "the hub has no such data set" in message(benchmark)


def test_a_real_attempt_without_a_network_and_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    assert "cannot be loaded from the hub" in message(BENCHMARKS["snips"])
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "Run: pip install 'mlflow-l3d[models]'" in message(BENCHMARKS["snips"])


def test_a_folder_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L3D_DATA", str(tmp_path / "missing"))
    with pytest.raises(ParameterError, match=r"^L3D_DATA=.*missing: must be a folder that exists\. Unset it"):
        BENCHMARKS["sst2"]({})


def test_a_folder_below_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("L3D_DATA", "~")
    write_file(tmp_path, BENCHMARKS["sst2"], some_rows(BENCHMARKS["sst2"]))
    assert len(BENCHMARKS["sst2"]({})) == 8


def test_a_file_that_is_not_what_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = BENCHMARKS["trec"]
    rows = some_rows(benchmark)
    monkeypatch.setenv("L3D_DATA", str(tmp_path))
    (tmp_path / "trec.parquet").write_text("text,label\n")
    assert "trec.parquet, which needs the columns text, label," in message(benchmark)
    write_file(tmp_path, benchmark, rows, text=None, sentence="a")
    assert "text_column='text': must be one of the columns" in message(benchmark)
    names = [f"{benchmark.class_names[c]}{'' if c else ':abb'}" for _, c in rows]
    write_file(tmp_path, benchmark, rows, label_name=names)
    assert message(benchmark) == (
        "task=trec: trec.parquet in the folder L3D_DATA has a class 'ABBR:abb'; known are ABBR, ENTY, DESC, HUM, LOC, "
        "NUM, or their numbers."
    )
    write_file(tmp_path, benchmark, [row for row in rows if row[1] != 2])
    assert "every class needs 2 examples or more, class 'DESC' has 0" in message(benchmark)
    write_file(tmp_path, benchmark, rows, label_name=None, label=[c + 1 for _, c in rows])
    assert "has a class '6'; known are ABBR" in message(benchmark)


def test_columns_have_no_effect() -> None:
    with pytest.raises(ParameterError, match=r"^text_column=body: has no effect on the task cola"):
        BENCHMARKS["cola"]({"text_column": "body"})
