"""A tracking server that dies, hangs and comes back: training goes on, nothing is lost, nothing doubled."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from run_helpers import Hooked, Place, assert_whole, one_line, wait_until

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import uploader

pytestmark = pytest.mark.slow

DESIGN: dict[str, Any] = {"investigation_runs": 2, "mitigation_runs": 3, "golden_runs": 3}
CELLS = 9


def finished_metrics(place: Place, parent: str) -> Mapping[str, float]:
    return dict(place.client.get_run(parent).data.metrics)


def test_the_server_dies_in_the_middle_and_hangs_later(make_mlflow_server, place, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(uploader, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(uploader, "_LONGEST_PAUSE", 0.4)
    server, quiet = make_mlflow_server(), place
    place = Place(server.uri, tmp_path / "cache")
    seen: dict[int, int] = {}

    def hook(number: int) -> None:
        if number == 2:
            server.stop(signal.SIGKILL)
            assert not server.healthy()
        elif number == 4:
            server.start()
        elif number == 5:
            os.killpg(server.process.pid, signal.SIGSTOP)
        elif number == 7:
            os.killpg(server.process.pid, signal.SIGCONT)
        seen[number] = len(place.spooled())
        time.sleep(0.05)

    result = place.investigate(approach=Hooked(hook), **DESIGN)

    assert result.computed == CELLS
    assert list(seen.values()) == list(range(CELLS))
    assert_whole(place, result.run_id, CELLS)
    assert finished_metrics(place, result.run_id) == finished_metrics(quiet, quiet.investigate(**DESIGN).run_id)


def test_the_server_stays_dead(make_mlflow_server: Callable[[], Any], tmp_path: Path) -> None:
    server = make_mlflow_server()
    place = Place(server.uri, tmp_path / "cache", {"L3D_UPLOAD_PATIENCE": "1"})
    process = place.start(executor="inline", **DESIGN, hyperparameters="duration=0.05")
    wait_until(lambda: len(place.spooled()) >= 3, "three cells")
    server.stop(signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    line = one_line(stderr)
    assert "The tracking server does not answer" in line
    assert "the same command continues later" in line
    assert len(place.spooled()) == CELLS

    with pytest.raises(ParameterError, match="no tracking server answers there"):
        place.investigate(**DESIGN, hyperparameters="duration=0.05")
    assert len(place.spooled()) == CELLS

    server.start()
    place = Place(server.uri.replace("127.0.0.1", "LOCALHOST") + "/", place.cache)  # the same server
    again = place.investigate(**DESIGN, hyperparameters="duration=0.05")
    assert (again.computed, again.reused) == (0, CELLS)
    assert_whole(place, again.run_id, CELLS)
