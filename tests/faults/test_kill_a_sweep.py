"""``kill -9`` of a sweep: the same command again computes what is missing, and leaves nothing running."""

import time
from collections import Counter
from typing import Any

import pytest
from run_helpers import SMALL, Place, interrupt, kill_with_workers, wait_for_moment

from mlflow_l3d import sweep

pytestmark = pytest.mark.slow

SWEPT: dict[str, Any] = {**SMALL, "investigation_runs": 2, "mitigation_runs": 3, "golden_runs": 3}
SWEPT |= {"over": '{"noise": [0.1, 0.2]}', "hyperparameters": "duration=0.08"}
CELLS = 2 * 9


def start(place: Place, **more: Any) -> Any:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SWEPT, **more}.items()]
    return place.start("-m", "mlflow_l3d", "sweep", *options)


def finished(place: Place) -> Counter[str]:
    runs = [run for run in place.cells() if run.info.status == "FINISHED"]
    return Counter(run.data.tags["l3d.cell_key"] for run in runs)


def test_killed_and_started_again(place: Place) -> None:
    process = start(place, executor="processes", workers=1)
    wait_for_moment(process, lambda: len(place.spooled()) >= 7, "the moment to kill it")
    kill_with_workers(process)
    kept, killed_at = place.spooled(), int(time.time() * 1000)
    assert len(kept) >= 7

    with place.entered():
        found = sweep(**SWEPT, executor="inline")

    assert found.computed == CELLS - len(kept)
    assert place.spooled() == set()
    done = finished(place)
    assert len(done) == CELLS
    assert set(done.values()) == {1}
    before = {run.data.tags["l3d.cell_key"] for run in place.cells() if run.info.end_time < killed_at}
    assert before == kept
    assert [run.info.run_name for run in place.runs() if run.info.status == "RUNNING"] == []
    old, new = place.runs("tags.`l3d.role` = 'sweep'")
    assert (old.info.status, old.data.tags["l3d.state"]) == ("KILLED", "incomplete")
    assert old.data.tags["l3d.superseded_by"] == new.info.run_id
    assert new.data.metrics["cells_computed"] == CELLS
    for point in found.points:
        parent = place.client.get_run(point.run_id)
        assert (parent.data.tags["l3d.state"], parent.data.tags["mlflow.parentRunId"]) == ("complete", new.info.run_id)
        assert len(place.cells(point.run_id)) == CELLS / 2


def test_ctrl_c_at_the_command_line(place: Place) -> None:
    process = start(place, executor="inline")
    wait_for_moment(process, lambda: len(place.spooled()) >= 5, "some cells")
    interrupt(process)
    roles = Counter((run.data.tags["l3d.role"], run.info.status) for run in place.runs("tags.`l3d.role` != 'cell'"))
    assert roles == {("investigation", "KILLED"): 2, ("sweep", "KILLED"): 1}
    done = finished(place).keys() | place.spooled()
    with place.entered():
        assert sweep(**SWEPT, executor="inline").computed == CELLS - len(done)
