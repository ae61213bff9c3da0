"""The fixtures of conftest.py do what they promise."""

import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from stores import copy_store

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


@pytest.mark.parametrize("turn", [1, 2])
def test_what_a_test_leaves_behind_is_gone(turn: int, tracking_uri: str) -> None:
    import mlflow

    assert mlflow.active_run() is None
    assert [each.name for each in mlflow.MlflowClient(tracking_uri).search_experiments()] == ["Default"]
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


def test_direct_calls_leave_and_return_what_those_of_mlflow_do(tmp_path, migrated_store, monkeypatch) -> None:
    """Each call, right or wrong, by :mod:`direct_store` in one store and by MLflow in the other."""
    from mlflow.entities import Dataset, DatasetInput, Metric, Param, Run, RunStatus, RunTag
    from mlflow.exceptions import MlflowException
    from mlflow.store.tracking import sqlalchemy_store
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    monkeypatch.setattr(sqlalchemy_store, "get_current_time_millis", lambda: 1)
    named, renamed, other = (RunTag("mlflow.runName", name) for name in ("a", "b", "c"))
    note, changed, wrong = RunTag("note", "1"), RunTag("note", "2"), RunTag("/", "1")
    runs = [f"{number:032x}" for number in range(3)]
    curve = [Metric("loss", value, 5, step) for step, value in [(0, 0.9), (2, 0.5), (1, float("nan")), (2, 0.4)]]
    steps: list[tuple[str, tuple[object, ...]]] = [
        ("create_run", ("0", "me", 1, [note], "a")),
        ("create_run", (0, "me", 1, [named, note], "")),
        ("create_run", ("0", "me", 1, [named], "a")),
        ("create_run", ("0", "me", 1, [named], "b")),
        ("create_run", ("0", "me", 1, [note, changed], "a")),
        ("create_run", ("7", "me", 1, [], "a")),
        ("create_run", ("none", "me", 1, [], "a")),
        ("update_run_info", (runs[0], RunStatus.FINISHED, 9, None)),
        ("update_run_info", (runs[0], None, None, "new")),
        ("update_run_info", (runs[1], RunStatus.FAILED, None, "")),
        ("update_run_info", ("f" * 32, RunStatus.FAILED, 9, "new")),
        ("log_batch", (runs[0], [], [Param("p", "1"), Param("q", "")], [note])),
        ("log_batch", (runs[0], [Metric("f1", 0.5, 1, 0)], [Param("p", "1"), Param("r", "2")], [changed])),
        ("log_batch", (runs[0], [], [Param("s", "1"), Param("p", "3")], [note])),
        ("log_batch", (runs[0], [], [Param("t", "1"), Param("t", "1")], [])),
        ("log_batch", (runs[0], [Metric("f1", 0.5, 1, 0)], [], [])),
        ("log_batch", (runs[0], [Metric("f1", 0.7, 0, 0), Metric("f1", 0.7, 0, 0)], [], [note, changed])),
        ("log_batch", (runs[0], curve, [], [])),
        ("log_batch", (runs[0], [Metric("loss", 9.0, 9, 1), Metric("f1", 0.1, 2, 0)], [], [])),
        ("log_batch", (runs[0], [Metric("loss", 0.3, 5, 2), Metric("f1", 0.2, 2, 0)], [], [])),
        ("log_batch", (runs[0], [Metric("loss", float("nan"), 7, 2)], [], [])),
        ("log_batch", (runs[0], [Metric("loss", float("inf"), 6, 3)], [], [renamed])),
        ("log_batch", (runs[1], curve, [Param("p", "x" * 6000)], [wrong])),
        ("log_batch", (runs[1], [Metric("least", -float("inf"), 6, 0)], [Param("p", "x" * 7000)], [other])),
        ("log_batch", (runs[1], [Metric("", 1.0, 6, 0)], [Param("u", "1")], [])),
        ("log_batch", (runs[1], [], [Param("u", "1")] * 101, [])),
        ("log_batch", ("f" * 32, curve, [], [])),
        *(("get_run", (run,)) for run in runs),
        ("log_inputs", (runs[1], [DatasetInput(Dataset("data", "digest", "local", "place"))])),
        ("get_run", (runs[1],)),
        ("delete_run", (runs[2],)),
        ("get_run", (runs[2],)),
        ("get_run", ("f" * 32,)),
        ("log_batch", (runs[2], curve, [], [])),
        ("update_run_info", (runs[2], None, 9, "new")),
        ("delete_experiment", ("0",)),
        ("create_run", ("0", "me", 1, [], "a")),
    ]

    def outcomes(folder: Path, direct: bool) -> Iterator[object]:
        folder.mkdir()
        store = SqlAlchemyStore(copy_store(migrated_store, folder, "artifacts"), "artifacts")
        for number, (method, given) in enumerate(steps):
            monkeypatch.setattr(uuid, "uuid4", lambda number=number: uuid.UUID(int=number))
            call = getattr(SqlAlchemyStore, method)
            try:
                done = (call if direct else getattr(call, "__wrapped__", call))(store, *given)
                yield number, done and repr(done.to_dictionary() if isinstance(done, Run) else dict(done))
            except MlflowException as error:
                yield number, type(error), str(error)
            with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
                tables = ("experiments", "runs", "tags", "params", "metrics", "latest_metrics")
                yield [sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in tables]
        store.engine.dispose()

    assert [*outcomes(tmp_path / "direct", True)] == [*outcomes(tmp_path / "whole", False)]
