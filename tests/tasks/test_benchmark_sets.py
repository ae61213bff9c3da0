"""Sixteen public data sets as a user's own files; the folder is named by L3D_TEST_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.kinds import Reading
from mlflow_l3d.tasks.resolve import load_task
from mlflow_l3d.tasks.settings import SplitSettings

FOLDER = os.environ.get("L3D_TEST_DATA", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="L3D_TEST_DATA names no folder")

SETS = {  # name: text columns, classes, examples
    "ag_news": (1, 4, 26490),
    "boolq": (2, 2, 5181),
    "cb": (2, 3, 306),
    "cola": (1, 2, 9594),
    "copa": (4, 2, 500),
    "dbpedia": (1, 14, 10000),
    "mrpc": (2, 2, 5801),
    "multirc": (3, 2, 32088),
    "qnli": (2, 2, 15462),
    "qqp": (2, 2, 9999),
    "rte": (2, 2, 2767),
    "snips": (1, 7, 14484),
    "sst2": (1, 2, 32693),
    "trec": (1, 6, 5952),
    "wic": (3, 2, 6066),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_a_public_set(name: str) -> None:
    task = load_task(str(Path(FOLDER) / f"{name}.parquet"))
    assert (len(task.texts), len(task.class_names), len(task)) == SETS[name]
    assert task.name == f"{name}.parquet"
    split = task.split({"data_split": 1, "label_selection": 2})
    assert len(np.unique(np.concatenate([split.train, split.validation, split.test]))) > 250


def test_labels_and_names_are_the_files_own() -> None:
    task = load_task(str(Path(FOLDER) / "trec.parquet"))
    assert task.class_names == ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM")
    assert np.bincount(task.labels).tolist() == [95, 1344, 1300, 1288, 916, 1009]
    assert task.notes[1] == (
        "trec.parquet: 911 training examples labelled instead of 1000: class ABBR has 76 (167 a class would be needed)"
    )
    fixed = load_task(str(Path(FOLDER) / "trec.parquet"), settings=SplitSettings(60, 60, "fixed"))
    assert np.bincount(fixed.labels[fixed.split({"data_split": 1, "label_selection": 2}).test]).tolist() == [10] * 6


def test_scores_are_found_and_refused_as_classes() -> None:
    file = str(Path(FOLDER) / "stsb.parquet")
    assert load_task(file).kind == "regression"
    with pytest.raises(
        ParameterError, match=r"^label_column=label: must hold whole numbers or class names, not decimal"
    ):
        load_task(file, Reading(task_kind="classification"))
