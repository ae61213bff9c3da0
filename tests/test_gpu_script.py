"""``benchmarks/gpu.sh``, which runs where a GPU is lent for minutes: with a pretended Python."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.sh"
PYTHON = """#!/bin/bash
[[ $* == *is_available* ]] && exit "${NO_GPU:-0}"
[[ $* == *heads.py* ]] && { echo $$ >"$L3D_DATA/pid"; exec sleep 20; }
exit 0
"""


@pytest.fixture
def started(tmp_path):
    """Return a function that starts the script, with variables and steps."""
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o700)

    def start(*steps, **more):
        own = {**os.environ, "PYTHON": str(tmp_path / "python"), "L3D_DATA": str(tmp_path), **more}
        command = [SCRIPT, tmp_path / "found", *steps]
        return subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return start


def test_without_a_gpu_nothing_counts_as_measured(started, tmp_path):
    assert started(NO_GPU="1").wait(20) == 1
    assert not list((tmp_path / "found").iterdir())


def test_an_interrupt_ends_the_step_and_the_script_goes_on_there(started, tmp_path):
    script = started()
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    script.send_signal(signal.SIGINT)
    assert script.wait(10) == 130
    step = int((tmp_path / "pid").read_text())
    while Path(f"/proc/{step}").exists():
        time.sleep(0.01)
    done = {path.stem for path in (tmp_path / "found").glob("*.done")}
    assert "finetuning" in done
    assert "heads" not in done
    assert started("heads", "ray", L3D_GPU_SECONDS="0").wait(20) == 0
    assert "heads" not in (tmp_path / "found" / "table.txt").read_text()  # time is over
