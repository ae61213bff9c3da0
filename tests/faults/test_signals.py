"""Ctrl-C, SIGTERM, a closed terminal: exit status 130, a parent that says so, nothing lost; two processes at once."""

import os
import re
import signal
from pathlib import Path

import pytest
from run_helpers import SMALL, Hooked, Place, assert_whole, interrupt, one_line, wait_until

pytestmark = pytest.mark.slow

SLOW = {"hyperparameters": "duration=0.06", "mitigation_runs": 3, "golden_runs": 5, "workers": 1}
CELLS = 14
PROJECT = Path(__file__).parents[2]


def assert_interrupted(place: Place, status: str = "KILLED") -> None:
    [parent] = place.parents()
    assert parent.info.status == status
    assert parent.data.tags["l3d.state"] == "incomplete"
    said = re.search(rf"Interrupted with (\d+) of {CELLS} runs done", parent.data.tags["l3d.error"])
    assert said
    assert {run.info.status for run in place.cells()} == {"FINISHED"}
    done = int(said[1])
    assert 2 <= done < CELLS  # the third may have been on its way
    assert done - len(place.cells()) in (0, 1)  # one may lie in the spool alone, for the same command
    again = place.investigate(**SLOW)
    assert (again.computed, again.reused) == (CELLS - done, done)
    assert_whole(place, again.run_id, CELLS)


ENDINGS = [
    (signal.SIGINT, "processes", 3),
    (signal.SIGINT, "processes", 0),
    (signal.SIGTERM, "inline", 3),
    (signal.SIGHUP, "processes", 3),
]


@pytest.mark.parametrize(
    ("number", "executor", "cells"), ENDINGS, ids=["ctrl-c", "before the first cell", "sigterm", "terminal-closed"]
)
def test_the_command_line(place: Place, number: signal.Signals, executor: str, cells: int) -> None:
    process = place.start(executor=executor, **SLOW)
    wait_until(lambda: bool(place.parents()) and len(place.spooled()) >= cells, "a parent, and cells")
    interrupt(process, number)
    [parent] = place.parents()
    assert (parent.info.status, parent.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    if cells:
        assert_interrupted(place)


def test_mlflow_run(place: Place) -> None:
    options = [f"-P{name}={value}" for name, value in {**SMALL, "executor": "inline", **SLOW}.items()]
    process = place.start("-m", "mlflow", "run", str(PROJECT), "--env-manager", "local", *options)
    wait_until(lambda: len(place.spooled()) >= 3, "three cells")
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert stdout == ""
    assert "the same command continues where it stopped" in one_line(stderr)
    wait_until(lambda: place.parents()[0].info.status != "RUNNING", "the end of the parent")
    [parent] = place.parents()
    assert str(PROJECT) not in str(parent.data.tags)
    # `mlflow run` itself overwrites whatever status an interrupted run has.
    assert_interrupted(place, "FAILED")


def test_a_second_process_at_the_same_investigation(place: Place) -> None:
    def start_another(number: int) -> None:
        if number != 2:
            return
        process = place.start(executor="inline", **SLOW)
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        assert stdout == ""
        assert "is running in another process" in one_line(stderr)

    first = place.investigate(approach=Hooked(start_another), **SLOW)
    assert first.computed == CELLS
    [parent] = place.parents()
    assert parent.info.run_id == first.run_id
    assert_whole(place, parent.info.run_id, CELLS)
