"""``kill -9`` at any moment: the same command again ends as if nothing had happened."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_helpers import SMALL, Place, assert_whole, kill_with_workers, sqlite_place, wait_for_moment

from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.tracking.children import ChildWriter
from mlflow_l3d.tracking.recorder import RunRecorder
from mlflow_l3d.tracking.records import CellRecord

pytestmark = pytest.mark.slow

SLOW: dict[str, Any] = dict.fromkeys(("investigation_runs", "mitigation_runs", "golden_runs"), 3)
SLOW["hyperparameters"] = "duration=0.05,noise=0.1"
CELLS = 12


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, Investigation]:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("undisturbed"))
    return place, place.investigate(**SLOW)


ENDS_ITSELF = """
import json, os, signal, sys

if __name__ == "__main__":
    from mlflow_l3d import investigate
    from mlflow_l3d.tracking.connection import Patient
    from mlflow_l3d.tracking.spool import Spool
    owner = {"log_artifacts": Patient, "clear": Spool}[sys.argv[2]]
    inner = getattr(owner, sys.argv[2])

    def end(*arguments):
        inner(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, sys.argv[2], end)
    investigate(**json.loads(sys.argv[1]))
"""
"""Kills itself when the artifacts of the parent are there, and its last tags are not; or all but its end."""


def assert_same_as_undisturbed(
    place: Place, result: Investigation, undisturbed: tuple[Place, Investigation], folder: Path
) -> None:
    quiet, expected = undisturbed
    metrics = place.client.get_run(result.run_id).data.metrics
    assert metrics == quiet.client.get_run(expected.run_id).data.metrics
    for name in ("predictions.parquet", "cells.parquet"):
        here = pd.read_parquet(place.download(result.run_id, name, folder))
        there = pd.read_parquet(quiet.download(expected.run_id, name, folder))
        same = [column for column in there if column not in {"run_id", "duration_seconds"}]
        pd.testing.assert_frame_equal(here[same], there[same], check_exact=True)


@pytest.mark.parametrize(("after", "spooled"), [("log_artifacts", CELLS), ("clear", 0)])
def test_killed_in_its_conclusion(after, spooled, undisturbed, place, tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ENDS_ITSELF)
    process = place.start(str(script), json.dumps({**SMALL, **SLOW, "executor": "inline"}), after)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert len(place.spooled()) == spooled
    assert len([run for run in place.cells() if run.info.status == "FINISHED"]) == CELLS
    assert_goes_on(place, undisturbed, tmp_path)


def investigate_without_uploads(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an investigation that is killed when all its cells lie in the spool alone."""

    def killed(recorder: RunRecorder[CellRecord]) -> None:
        recorder._close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ChildWriter, "write", lambda *_, **__: None)
        patch.setattr(RunRecorder, "wait", killed)
        with pytest.raises(KeyboardInterrupt):
            place.investigate(**SLOW)
    assert len(place.spooled()) == CELLS


def test_what_a_power_cut_or_somebody_spoilt_is_set_aside(place, undisturbed, tmp_path, monkeypatch, caplog) -> None:
    investigate_without_uploads(place, monkeypatch)
    first, second, third, *_ = sorted(path.parent for path in place.cache.glob("spool/*/*/cell.json"))
    os.truncate(first / "predictions.parquet", 0)
    record = json.loads((second / "cell.json").read_text())
    (second / "cell.json").write_text(json.dumps({**record, "metrics": None}))
    (third / "run_id").write_text(place.parents()[0].info.run_id)
    result = place.investigate(**SLOW)
    assert (result.computed, result.reused) == (2, CELLS - 2)
    assert caplog.text.count("is broken (a power cut?): set aside") == 2
    assert_whole(place, result.run_id, CELLS)
    assert_same_as_undisturbed(place, result, undisturbed, tmp_path)


def test_the_file_of_the_store_was_moved(place, tmp_path, monkeypatch) -> None:
    investigate_without_uploads(place, monkeypatch)
    (tmp_path / "place" / "mlflow.db").rename(tmp_path / "moved.db")
    place = Place(f"sqlite:///{tmp_path / 'moved.db'}", place.cache)
    found = place.investigate(**SLOW)
    assert (found.computed, found.reused) == (0, CELLS)
    assert_whole(place, found.run_id, CELLS)


def assert_goes_on(place: Place, undisturbed: tuple[Place, Investigation], folder: Path) -> None:
    """Check that the same investigation after a kill takes what there is, and ends like one that was not killed."""
    kept = place.spooled() | {run.data.tags["l3d.cell_key"] for run in place.cells() if run.info.status == "FINISHED"}
    killed_at = int(time.time() * 1000)
    killed = place.parents()

    result = place.investigate(**SLOW)

    assert (result.computed, result.reused) == (CELLS - len(kept), len(kept))
    assert_whole(place, result.run_id, CELLS)
    assert_same_as_undisturbed(place, result, undisturbed, folder)
    before = {run.data.tags["l3d.cell_key"] for run in place.cells() if run.info.end_time < killed_at}
    assert before == kept
    last = result.run_id
    for number, old in enumerate(killed):
        left = place.client.get_run(old.info.run_id)
        assert (left.info.status, left.data.tags["l3d.state"]) == ("KILLED", "incomplete")
        # One of them may have been killed before it took over from the one before.
        assert left.data.tags["l3d.superseded_by"] in {last, *(run.info.run_id for run in killed[number + 1 :])}
        assert {run.info.status for run in place.cells(old.info.run_id)} <= {"KILLED"}
    assert f"{result.computed} runs computed, {result.reused} taken from earlier runs" in result.summary()


def test_killed_again_and_again_by_the_command_line(place, undisturbed, tmp_path) -> None:
    for number, count in enumerate((0, 3, 7)):
        process = place.start(executor="inline", **SLOW)
        wait_for_moment(process, lambda: len(place.parents()) > number and len(place.spooled()) >= count, "some cells")  # noqa: B023
        kill_with_workers(process)
    assert_goes_on(place, undisturbed, tmp_path)
