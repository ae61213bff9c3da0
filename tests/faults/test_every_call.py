"""Every call to the tracking server may fail, or lose its answer: opening, cells and end are tried again in parts."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from run_helpers import CELLS, Place, assert_whole

from mlflow_l3d.tracking import connection, uploader

CALLS = (
    "create_experiment",
    "get_experiment",
    "get_experiment_by_name",
    "search_experiments",
    "create_run",
    "get_run",
    "_search_runs",
    "log_batch",
    "log_inputs",
    "set_tag",
    "update_run_info",
    "delete_run",
)
IN_A_ROW = 5
"""No call fails more often before it succeeds."""


class Faults:
    """Spoils half of all calls, before they are made or after."""

    def __init__(self, seed: int) -> None:
        self.random, self.lock, self.row, self.met = random.Random(seed), threading.Lock(), Counter[str](), 0

    def spoilt(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            with self.lock:
                fails = self.random.random() < 0.5 and self.row[inner.__name__] < IN_A_ROW
                lost = self.random.random() < 0.5
                self.row[inner.__name__] = self.row[inner.__name__] + 1 if fails else 0
                self.met += fails
            result = inner(*given, **named) if lost or not fails else None
            if fails:
                raise MlflowException("503", TEMPORARILY_UNAVAILABLE)
            return result

        return call


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_study_ends_whole(seed: int, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = Place(place.uri, place.cache, {"MLFLOW_EXPERIMENT_NAME": "new"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connection, "_PAUSES", (0.0,) * len(connection._PAUSES))
    monkeypatch.setattr(uploader, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(uploader, "_LONGEST_PAUSE", 0.01)
    named.client.search_experiments()  # MLflow keeps the store that it opens here
    faults = Faults(seed)
    with monkeypatch.context() as patch:
        for owner, name in [*((SqlAlchemyStore, name) for name in CALLS), (LocalArtifactRepository, "log_artifact")]:
            patch.setattr(owner, name, faults.spoilt(getattr(owner, name)))
        found = named.investigate()
    assert faults.met > 20
    assert_whole(named, found.run_id, CELLS)
    assert [run.info.run_id for run in named.parents()] == [found.run_id]
