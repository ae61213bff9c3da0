"""`projects/pecher2024/published`: what it reads is what was printed."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from project_scripts import load_script

from mlflow_l3d.approaches.models import PRESETS
from mlflow_l3d.registry import load

PROJECT = Path(__file__).resolve().parents[1] / "projects" / "pecher2024"
PRINTED = {"importance": 259, "strategies": 324, "ablation": 30, "prompt_formats": 28}


@pytest.fixture(scope="module")
def published() -> ModuleType:
    return load_script("projects/pecher2024/published.py")


@pytest.mark.parametrize("name", PRINTED)
def test_tables_are_the_printed_ones(name: str, reference_folder: Path) -> None:
    reference = reference_folder / f"pecher2024_{name}.csv"
    assert (PROJECT / "published" / f"{name}.csv").read_text() == reference.read_text()
    assert len(pd.read_csv(reference)) == PRINTED[name]


def row(frame: pd.DataFrame, **conditions: object) -> Mapping[str, Any]:
    """Return the only row that meets the conditions."""
    for name, value in conditions.items():
        frame = frame[frame[name] == value]
    [found] = frame.to_dict("records")
    return {str(name): value for name, value in found.items()}


def test_every_printed_number_has_our_names(published: ModuleType) -> None:
    importance, strategies, ablation = published.importance(), published.strategies(), published.ablation()
    assert [len(importance), len(strategies), len(ablation)] == [209, 324, 24]
    assert importance[["importance", "contributed_std", "mitigated_std"]].notna().all(axis=None)
    for frame in (importance, strategies, ablation):
        assert frame[published.PLACE].notna().all(axis=None)
    printed = pd.read_csv(PROJECT / "published" / "importance.csv")
    printed = printed[printed["factor"] != "golden_model"].reset_index(drop=True)
    names = {"f1_macro_mean": "score_mean", "f1_macro_std": "score_std"}
    for name in ("f1_macro_mean", "f1_macro_std", "contributed_std", "mitigated_std"):
        assert (importance[names.get(name, name)] * 100).tolist() == pytest.approx(printed[name].tolist())
    assert importance["importance"].tolist() == printed["importance"].tolist()


def test_a_row_of_each_table(published: ModuleType) -> None:
    found = row(published.importance(), system="Reptile", task="mrpc", factor="data_order")
    named = found["approach"], found["model"], found["learner"], found["table"]
    assert named == ("meta_learning", "bert-base", "reptile", 14)
    numbers = [found[name] for name in published.NUMBERS]
    assert numbers == pytest.approx([0.3987, 0.1233, 0.11446, 0.03991, 0.6106, 0.0570, 1.31])
    assert pd.isna(row(published.importance(), system="Zephyr-7B", task="sst2", factor="data_order")["golden_std"])

    found = row(published.ablation(), mitigation_runs=10, test_size="~5%", factor="label_selection")
    assert (found["importance"], found["golden_std"], found["model"]) == (0.0, 0.0297, "flan-t5-base")

    found = row(published.strategies(), system="Zephyr-7B", task="sst2", factor="data_split", strategy="fixed")
    assert (found["std"], found["important"]) == (pytest.approx(0.00402), False)

    found = row(published.prompt_formats(), task="cola", format="C")
    assert found["verbaliser"] == ("Yes", "No")


def test_names_exist(published: ModuleType) -> None:
    frame = published.importance()
    assert frame["task"].isin(published.CLASSES).all()
    for system, (approach, model, learner) in published.SYSTEMS.items():
        assert model in PRESETS
        if learner:
            assert learner in load("approach", approach).hyperparameters["learner"].choices
        printed = set(frame.loc[frame["system"] == system, "factor"])
        assert printed == set(published.FACTORS) & set(load("approach", approach).factors)
