"""Runs beside parents whose process was killed: the next command of their kind on this machine ends them."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from run_helpers import Place, wait_until

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import auxiliary, parent
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.recorder import RunRecorder

HOLDER = """
import sys, time
from mlflow_l3d.tracking.auxiliary import held_open

with held_open(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(auxiliary, "_YOUNG_SECONDS", 0.0)
    return place


def ablation(place: Place) -> None:
    with place.entered(), auxiliary_run(place.client, None, role="ablation", title="a", parameters={}):
        pass


def test_a_run_is_ended_once_its_process_is_dead(place: Place) -> None:
    run_id = place.client.create_run("0", tags={"l3d.role": "ablation"}).info.run_id
    environment = {**os.environ, "L3D_CACHE": str(place.cache)}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, run_id], stdout=subprocess.PIPE, env=environment)
    try:
        assert holder.stdout.readline() == b"held\n"
        ablation(place)
        assert place.client.get_run(run_id).info.status == "RUNNING"
    finally:
        holder.kill()
        holder.communicate()
    ablation(place)
    run = place.client.get_run(run_id)
    assert (run.info.status, run.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    assert run.data.tags["l3d.error"] == "Its process was killed."
    assert list((place.cache / "open").iterdir()) == []


def test_a_run_of_another_machine_is_ended_with_its_children_once_its_heartbeat_is_old(place: Place) -> None:
    def begun(seconds: float, name: str = "a", **tags: str) -> str:
        beat = {"l3d.heartbeat": str(int(time.time() - seconds)), "l3d.state": "running"}
        given = {"l3d.role": "ablation", **beat, **tags}
        return str(place.client.create_run("0", run_name=name, tags=given).info.run_id)

    dead, alive = begun(700), begun(500)
    side = begun(700, **{"l3d.role": "golden_runs", "mlflow.parentRunId": dead})
    cell = begun(0, **{"l3d.role": "cell", "l3d.cell_key": "k", "mlflow.parentRunId": side})
    other = begun(700, "b")
    ablation(place)
    ended = [place.client.get_run(run_id).info.status for run_id in (dead, side, cell, alive, other)]
    assert ended == ["KILLED", "KILLED", "KILLED", "RUNNING", "RUNNING"]
    assert place.client.get_run(side).data.tags["l3d.state"] == "incomplete"
    # What lies in the spool of a cell ends it as finished, so that it must not bear an error.
    assert "l3d.error" not in place.client.get_run(cell).data.tags


def test_a_run_that_could_not_be_ended_is_ended_by_the_next_command(place, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise OSError("away")

    with monkeypatch.context() as patch:
        patch.setattr(parent, "log_params", away)  # its process may also be killed there
        patch.setattr(parent, "end_early", away)
        with pytest.raises(OSError, match="away"):
            ablation(place)
    (run,) = place.runs("tags.`l3d.role` = 'ablation'")
    assert run.info.status == "RUNNING"
    ablation(place)
    assert place.client.get_run(run.info.run_id).info.status == "KILLED"
    assert list((place.cache / "open").iterdir()) == []


def test_a_read_that_ctrl_c_broke_off_keeps_no_store_locked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reading(sqlite3.Connection):
        def __del__(self) -> None:
            self.close()  # Python 3.13 warns of those that nobody closed

    def read(*_: object, **__: object) -> None:
        connection = sqlite3.connect(place.uri.removeprefix("sqlite:///"), factory=Reading)
        rows = connection.execute("SELECT * FROM sqlite_master")
        next(rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(parent, "log_params", read)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ablation(place)
    (run,) = place.runs("tags.`l3d.role` = 'ablation'")
    assert (run.info.status, run.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    assert time.monotonic() - began < 20.0, "nobody waited for the lock"


def test_the_heartbeat_is_renewed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "HEARTBEAT_SECONDS", 0.01)
    with place.entered(), auxiliary_run(place.client, None, role="ablation", title="a", parameters={}) as run:
        place.client.set_tag(run.run_id, "l3d.heartbeat", "0")
        wait_until(lambda: place.client.get_run(run.run_id).data.tags["l3d.heartbeat"] != "0", "a beat")


def test_a_run_of_another_server_is_left_to_it(place: Place) -> None:
    (place.cache / "open").mkdir(parents=True)
    (place.cache / "open" / ("f" * 32)).touch()
    ablation(place)
    assert [path.name for path in (place.cache / "open").iterdir()] == ["f" * 32]


def test_a_folder_that_may_not_be_written_is_found_before_the_work(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    folder.touch()
    experiment_id = place.client.create_experiment("e", artifact_location=str(folder))
    asked = {"role": "gate", "title": "g", "parameters": {}, "experiment_id": experiment_id}
    with pytest.raises(ParameterError, match="cannot be written"), auxiliary_run(place.client, None, **asked):
        pytest.fail("the work began")


def test_a_second_ctrl_c_ends_the_wait_for_uploads_alone(place: Place) -> None:
    run_id = place.client.create_run("0").info.run_id
    recorder = MagicMock(client=place.client)
    recorder._ended.is_set.return_value = False
    recorder.parent.run_id = run_id
    recorder.uploader.wait.side_effect = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        RunRecorder.end(recorder, "KILLED", "Interrupted.")
    assert place.client.get_run(run_id).info.status == "KILLED"
    recorder._close.assert_called_once()
