"""Whole paths in the commands that are printed, and in candidates of commands that stand elsewhere."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import mlflow_l3d
from mlflow_l3d import cli
from mlflow_l3d.paths import with_typed_paths, with_whole_paths


def test_a_printed_command_has_the_paths_that_were_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "score.csv, 3 seeds\nNext: again\n    mlflow-l3d seeds score.csv --seeds 12\n"
    monkeypatch.setattr(cli, "_run", lambda *_: SimpleNamespace(summary=lambda: text))
    assert cli.main(["seeds", "/data/score.csv"]) == 0
    assert capsys.readouterr().out.rstrip() == text.replace("seeds score", "seeds /data/score").rstrip()


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ({"task": "~/a b.csv", "model": "/m/10"}, "mlflow-l3d seeds '~/a b.csv' --seeds 10"),
        ({"task": "{here}/a b.csv"}, "mlflow-l3d seeds 'a b.csv' --seeds 10"),
        ({"task": "https://me:secret@host/a b.csv"}, "mlflow-l3d seeds 'a b.csv' --seeds 10"),
        ({"command": "python '/x/a b.csv' --seed {seed}"}, "mlflow-l3d seeds '/x/a b.csv' --seeds 10"),
        ({"command": '["python it\'s"]'}, "mlflow-l3d seeds 'a b.csv' --seeds 10"),
    ],
)
def test_only_paths_elsewhere_are_written_out(
    typed: dict[str, str], printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {name: value.replace("{here}", str(tmp_path)) for name, value in typed.items()}
    assert with_typed_paths("    mlflow-l3d seeds 'a b.csv' --seeds 10", given) == f"    {printed}"


def test_a_path_of_an_earlier_study_is_written_out_too() -> None:
    earlier = {"command": "python /x/train.py {seed}"}
    printed = with_typed_paths("    mlflow-l3d seeds -- python train.py {seed}", earlier, {"parent_run_id": "latest"})
    assert printed == "    mlflow-l3d seeds -- python /x/train.py {seed}"


@pytest.mark.slow
def test_results_about_earlier_studies_know_their_whole_paths(
    tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "one.py").write_text("import sys; print('acc:', (int(sys.argv[1]) % 97 + 1) / 100)")
    commands = [f"python -SE {tmp_path}/there/one.py {{seed}} {number}" for number in range(2)]
    monkeypatch.chdir(tmp_path)
    given = {"approach": "command", "seeds": 3, "executor": "inline", "self_test": "skip"}
    one, other = (mlflow_l3d.seeds(command=command, **given).run_id for command in commands)
    assert [each["command"] for each in mlflow_l3d.compare(one, other).source.whole] == commands
    cured = mlflow_l3d.cure(one)
    assert [each["command"] for each in cured.source.whole] == commands[:1]
    assert mlflow_l3d.load(cured.run_id).source.whole == ()  # no file holds them


def test_the_whole_path_of_a_script_with_a_blank_is_found() -> None:
    assert with_whole_paths("python 'my t.py' 1", "python '/x/my t.py' {seed}") == "python '/x/my t.py' 1"
