"""Sessions that train many cells at once: a worker or the whole investigation is killed in the middle of a call."""

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from run_helpers import (
    Place,
    assert_whole,
    calls_of_sessions,
    kill_with_workers,
    sqlite_place,
    wait_for_moment,
    wait_until,
)

from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.testing import Trouble
from mlflow_l3d.testing.cells import worker_processes

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {"investigation_runs": 4, "mitigation_runs": 3, "golden_runs": 8}
SETTINGS["hyperparameters"] = "duration=0.05,noise=0.1"
CELLS = 20
AT_ONCE = 6
SCRIPT = """
import json, sys

if __name__ == "__main__":
    from mlflow_l3d import investigate
    from mlflow_l3d.testing import Trouble
    approach, settings = json.loads(sys.argv[1])
    investigate(approach=Trouble(**approach), **settings)
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> dict[str, float]:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("undisturbed"))
    result = place.investigate(approach=Trouble(), **{**SETTINGS, "hyperparameters": "noise=0.1"})
    return dict(place.client.get_run(result.run_id).data.metrics)


def investigate(place: Place, approach: Trouble, **parameters: Any) -> Investigation:
    return place.investigate(approach=approach, **SETTINGS, **parameters)


def started(place: Place) -> Counter[str]:
    """How often each cell was part of a call."""
    return Counter(key for call in calls_of_sessions(place.cache) for key in call)


@pytest.mark.parametrize(("executor", "together"), [("inline", False), ("processes", True)])
def test_killed_in_a_call_and_started_again(executor, together, undisturbed, place, tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    approach = {"at_once": AT_ONCE, "together": together}
    settings = {"metric": "synthetic_score", "executor": executor, "workers": 1, **SETTINGS}
    process = place.start(str(script), json.dumps([approach, settings]))

    def in_a_call() -> bool:
        kept = len(place.spooled())
        return kept >= 4 and kept < sum(started(place).values())

    wait_for_moment(process, in_a_call, "a call that is partly done")
    kill_with_workers(process, at_once=True)
    kept = place.spooled()
    assert 4 <= len(kept) < CELLS
    before = started(place)

    result = investigate(place, Trouble(at_once=AT_ONCE, together=together))

    assert (result.computed, result.reused) == (CELLS - len(kept), len(kept))
    again = started(place) - before
    assert set(again) == {run.data.tags["l3d.cell_key"] for run in place.cells(result.run_id)} - kept
    assert set(again.values()) == {1}
    assert_whole(place, result.run_id, CELLS)
    assert place.client.get_run(result.run_id).data.metrics == undisturbed


@pytest.mark.parametrize("together", [False, True])
def test_a_worker_is_killed_in_a_call(together, undisturbed, place) -> None:
    killed = []

    def kill_one() -> None:
        wait_until(lambda: bool(calls_of_sessions(place.cache)), "the first call")
        killed.append(min(worker_processes(place.cache)))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    result = investigate(place, Trouble(at_once=AT_ONCE, together=together), executor="processes", workers=1)
    killer.join()
    assert len(worker_processes(place.cache)) == 2
    assert (result.computed, result.reused) == (CELLS, 0)
    assert_whole(place, result.run_id, CELLS)
    assert place.client.get_run(result.run_id).data.metrics == undisturbed
    # Only cells of the call that was cut short are run twice.
    first = set((place.cache / f"calls-{killed[0]}").read_text().split())
    assert {key for key, times in started(place).items() if times > 1} <= first
    assert len(started(place)) == CELLS
