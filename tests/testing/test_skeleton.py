"""The package that `mlflow-l3d new approach NAME` writes."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.helpers import new


def test_the_package_passes_the_conformance_suite_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = new("approach", "my_own", folder=tmp_path)
    assert written.files == ("pyproject.toml", "l3d_my_own.py", "test_l3d_my_own.py")
    folder = tmp_path / "l3d-my_own"
    assert f"pip install pytest -e {folder} && pytest {folder}" in written.summary()
    document = tomllib.loads((written.folder / "pyproject.toml").read_text())
    assert "ini_options" in document["tool"]["pytest"]  # else the settings of a project around it count
    assert document["project"]["entry-points"]["mlflow_l3d.approaches"] == {"my_own": "l3d_my_own:MyOwn"}
    with pytest.raises(L3DError, match="is there already; nothing was written"):
        new("approach", "my_own", folder=tmp_path)
    monkeypatch.syspath_prepend(written.folder)
    cache = tmp_path / "cache"
    cache.mkdir()
    importlib.import_module("test_l3d_my_own").test_my_own_keeps_the_contract(cache)


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        ("aproach", "mine", r"^kind='aproach': .*Did you mean 'approach'"),
        ("approach", "My-own", r"^name=My-own: must be small letters"),
        ("approach", "synthetic", r"^name=synthetic: is the name of an approach that is installed"),
    ],
)
def test_what_is_not_allowed(tmp_path: Path, kind: str, name: str, line: str) -> None:
    with pytest.raises(ParameterError, match=line):
        new(kind, name, folder=tmp_path)
    assert not list(tmp_path.iterdir())
