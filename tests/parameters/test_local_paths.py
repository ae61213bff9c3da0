"""Whole paths in the commands that are printed, and in candidates of commands that stand elsewhere."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

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


def test_the_whole_path_of_a_script_with_a_blank_is_found() -> None:
    assert with_whole_paths("python 'my t.py' 1", "python '/x/my t.py' {seed}") == "python '/x/my t.py' 1"
