"""Two studies at once that share golden runs: each run is trained once, whatever becomes of either."""

import os
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from run_helpers import SMALL, Hooked, Place, wait_until
from warm_start import WarmStart

from mlflow_l3d.studies.search.run import HyperparameterSearch, search
from mlflow_l3d.tracking import opening
from mlflow_l3d.tracking.children import ChildWriter
from mlflow_l3d.tracking.earlier import elsewhere

pytestmark = pytest.mark.slow

GOLDEN = 12
SHARED: dict[str, Any] = {"mitigation_runs": 2, "golden_runs": GOLDEN}
SLOW: dict[str, Any] = {**SHARED, "executor": "inline", "hyperparameters": "duration=0.05"}
OWN = 6


def finished(place: Place) -> Counter[str]:
    return Counter(run.data.tags["l3d.cell_key"] for run in place.cells() if run.info.status == "FINISHED")


def kill_before_its_uploads(place: Place) -> None:
    """Start an investigation, and kill it when all of its own cells and some golden runs are in the spool alone."""
    killed = place.start(factor="label_selection", **SLOW)
    wait_until(lambda: len(place.spooled()) > 0, "its first cell")
    with closing(sqlite3.connect(place.uri.removeprefix("sqlite:///"))) as store:
        store.execute("BEGIN EXCLUSIVE")
        wait_until(lambda: len(place.spooled()) >= OWN + 4, "golden runs")
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()


@pytest.mark.parametrize("killed", [False, True], ids=["both end", "one is killed"])
def test_on_one_machine(killed: bool, place: Place) -> None:
    first, second = (place.start(factor=factor, **SLOW) for factor in ("data_order", "data_split"))
    if killed:
        wait_until(lambda: len(place.parents()) == 2 and len(place.spooled()) >= 8, "some cells")
        os.killpg(first.pid, signal.SIGKILL)
    for process in (first, second):
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == (-signal.SIGKILL if killed and process is first else 0), stderr
    done = finished(place)
    assert set(done.values()) == {1}
    if killed:
        assert place.investigate(factor="data_order", **SLOW).computed < OWN + GOLDEN
    assert list(finished(place).values()) == [1] * (2 * OWN + GOLDEN)
    assert list((place.cache / "claims").iterdir()) == []


def test_points_of_a_sweep_take_what_a_killed_investigation_leaves(place: Place) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, **SLOW}.items()]
    alone = place.start(factor="label_selection", **SLOW)
    both = place.start("-m", "mlflow_l3d", "sweep", *options, "--factor=data_order;data_split")
    wait_until(lambda: len(place.parents()) > 1 and len(place.spooled()) >= 8, "some cells")
    os.killpg(alone.pid, signal.SIGKILL)
    _, stderr = both.communicate(timeout=60)
    assert both.returncode == 0, stderr
    assert set(finished(place).values()) == {1}
    parents = {run.info.run_id: run.data for run in place.parents() if "l3d.sweep" in run.data.tags}
    assert [data.tags["l3d.state"] for data in parents.values()] == ["complete"] * 2
    assert list((place.cache / "claims").iterdir()) == []


def test_what_a_third_uploads_of_a_killed_one_is_not_trained_by_those_that_were_open_before(place: Place) -> None:

    def kill_one_and_begin_another(number: int) -> None:
        if number == 0:
            kill_before_its_uploads(place)
            place.investigate(factor="data_split", **SLOW)

    place.investigate(factor="data_order", approach=Hooked(kill_one_and_begin_another), **SLOW)
    assert set(finished(place).values()) == {1}


def test_a_command_waits_for_another_that_uploads_what_it_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_before_its_uploads(place)
    [folder] = {path.parent.parent for path in place.cache.glob("spool/*/*/cell.json")}
    write, locks = ChildWriter.write, []
    begins = threading.Thread(target=lambda: locks.append(opening._lock(folder, "investigation")))

    def write_while_it_begins(*arguments: Any, **more: Any) -> str:
        if not begins.ident:
            begins.start()
            begins.join(1.0)
        return write(*arguments, **more)

    monkeypatch.setattr(ChildWriter, "write", write_while_it_begins)
    place.investigate(factor="data_order", **SLOW)
    begins.join()
    assert [lock.is_locked for lock in locks] == [True]
    locks[0].release()


def test_what_a_killed_one_left_is_not_uploaded_while_another_trains_it(place: Place) -> None:
    again: list[WarmStart] = []

    def kill_one_and_continue_it(number: int) -> None:
        if number == 0:
            kill_before_its_uploads(place)
        elif number == OWN:  # the first golden run, which the killed one has in its spool
            again.append(place.start(factor="label_selection", **SLOW))
            wait_until(lambda: len(finished(place)) > OWN + OWN, "uploads")

    place.investigate(factor="data_order", approach=Hooked(kill_one_and_continue_it), **SLOW)
    _, stderr = again[0].communicate()
    assert again[0].returncode == 0, stderr
    assert list(finished(place).values()) == [1] * (2 * OWN + GOLDEN)


def test_on_several_machines(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "_PAUSE", 0.0)
    monkeypatch.setattr(elsewhere, "_TIMES", 0.0)
    other: list[Any] = []

    def begin_another(number: int) -> None:
        if number == 3:
            other.append(place.investigate(factor="data_split", **SHARED))

    found = place.investigate(factor="data_order", approach=Hooked(begin_another), **SHARED)
    golden = sum(run.data.tags["l3d.phase"] == "golden" for run in place.cells(found.run_id))
    assert other[0].computed == OWN + GOLDEN
    assert found.computed + found.reused == OWN + GOLDEN
    assert golden < GOLDEN / 2
    assert sum(finished(place).values()) == found.computed + other[0].computed
    assert found.cells["run_id"].notna().all()
    tags = place.client.get_run(found.run_id).data.tags
    assert tags["l3d.cells_of"] == other[0].run_id
    assert f"{GOLDEN - golden} of its cells are children of [run {other[0].run_id[:8]}]" in tags["mlflow.note.content"]


def test_searches_upload_a_trial_once_that_both_train(place: Place) -> None:
    parameters: dict[str, Any] = {"metric": "synthetic_score", "space": "a_data_order=0|3|6|9", "executor": "inline"}
    others: list[HyperparameterSearch] = []

    def begin_another(number: int) -> None:
        if number == 2:
            others.append(search(approach="synthetic", fine_trials=0, **parameters))

    with place.entered():
        found = search(approach=Hooked(begin_another), fine_trials=2, **parameters)
    done = Counter(run.data.tags["l3d.cell_key"] for run in place.runs("tags.`l3d.role` = 'trial'"))
    assert set(done.values()) == {1}
    both = [each.result.trials.query("level == 'coarse'")["run_id"] for each in (found, *others)]
    assert (both[0] == both[1]).all()
