"""Runs beside parents whose process was killed: the next command of their kind on this machine ends them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_helpers import Place, sqlite_place

from mlflow_l3d.tracking import open_runs
from mlflow_l3d.tracking.parent import auxiliary_run

HOLDER = """
import sys, time
from mlflow_l3d.tracking.open_runs import held_open

with held_open(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(migrated_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(open_runs, "_YOUNG_SECONDS", 0.0)
    return sqlite_place(migrated_store, tmp_path / "place")


def ablate(place: Place) -> None:
    with place.entered(), auxiliary_run(place.client, None, role="ablation", title="a", parameters={}):
        pass


def test_a_run_is_ended_once_its_process_is_dead(place: Place) -> None:
    run_id = place.client.create_run("0", tags={"l3d.role": "ablation"}).info.run_id
    environment = {**os.environ, "L3D_CACHE": str(place.cache)}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, run_id], stdout=subprocess.PIPE, env=environment)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        ablate(place)
        assert place.client.get_run(run_id).info.status == "RUNNING"
    finally:
        holder.kill()
        holder.communicate()
    ablate(place)
    run = place.client.get_run(run_id)
    assert (run.info.status, run.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    assert run.data.tags["l3d.error"] == "Its process was killed."
    assert list((place.cache / "open").iterdir()) == []


def test_a_run_of_another_server_is_left_to_it(place: Place) -> None:
    (place.cache / "open").mkdir(parents=True)
    (place.cache / "open" / ("f" * 32)).touch()
    ablate(place)
    assert [path.name for path in (place.cache / "open").iterdir()] == ["f" * 32]
