"""The fixtures of conftest.py do what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SKIPS = """
import pytest
def test_runs():
    pass
@pytest.mark.skipif(True, reason="{reason}")
def test_is_skipped():
    pass
"""


def test_environment_is_the_tests_own() -> None:
    assert Path(os.environ["L3D_CACHE"]).is_dir()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert not [name for name in os.environ if name in {"MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"}]


def test_store_is_fresh_and_keeps_artifacts_in_the_folder_of_the_test(tracking_uri: str, tmp_path: Path) -> None:
    import mlflow

    client = mlflow.MlflowClient(tracking_uri)
    assert client.search_runs(["0"]) == []
    for experiment in ("0", client.create_experiment("another")):
        run = client.create_run(experiment)
        client.log_text(run.info.run_id, "text", "a.txt")
        assert Path(run.info.artifact_uri.removeprefix("file://")).is_relative_to(tmp_path)


def test_stores_of_two_tests_are_two(tracking_uri: str) -> None:
    import mlflow

    assert [e.name for e in mlflow.MlflowClient(tracking_uri).search_experiments()] == ["Default"]


@pytest.mark.parametrize("turn", [1, 2])
def test_what_fluent_calls_leave_behind_is_gone(turn: int, tracking_uri: str) -> None:
    import mlflow

    assert mlflow.active_run() is None
    mlflow.set_tracking_uri(tracking_uri)
    mlflow.set_experiment("mine")
    run = mlflow.start_run()
    assert len(mlflow.MlflowClient().search_runs([run.info.experiment_id])) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "variable", "code"),
    [("L3D_TEST_DATA is not set", "set", 1), ("L3D_TEST_DATA is not set", "", 0), ("no GPU", "set", 0)],
)
def test_a_skip_for_data_that_is_there_fails_the_session(tmp_path: Path, reason: str, variable: str, code: int) -> None:
    (tmp_path / "conftest.py").write_text(Path(__file__).with_name("conftest.py").read_text())
    (tmp_path / "test_docs.py").write_text(SKIPS.format(reason=reason))
    environment = {
        **os.environ,
        "L3D_TEST_DATA": variable and str(tmp_path),
        "L3D_TEST_REFERENCE": "",
        "PYTEST_ADDOPTS": "",  # of the session around it: options of plugins that are not loaded here
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[:2])),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    done = subprocess.run([*command, "."], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout
    assert ("although the data is there" in done.stdout) is bool(code)
