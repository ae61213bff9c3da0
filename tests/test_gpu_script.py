"""``benchmarks/gpu.sh``, which runs where a GPU is lent for minutes: with a pretended Python."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PYTHON = """#!/bin/bash
[[ $* == *is_available* ]] && exit "${NO_GPU:-0}"
[[ $* == *"import torch, mlflow"* ]] && exit "${MISSING:-0}"
[[ $* == *"$HANGS"* ]] && { echo $$ >"$L3D_DATA/pid"; exec sleep 20; }
exit 0
"""


@pytest.mark.parametrize(("missing", "hangs"), [("0", "heads.py"), ("1", "pip install")])
def test_an_interrupt_ends_the_step_and_without_a_gpu_nothing_counts_as_measured(missing, hangs, tmp_path):
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o700)
    own = {**os.environ, "PYTHON": str(tmp_path / "python"), "L3D_DATA": str(tmp_path), "HANGS": hangs}
    command = [Path(__file__).parents[1] / "benchmarks" / "gpu.sh", tmp_path / "found"]
    assert subprocess.run(command, env={**own, "NO_GPU": "1"}, capture_output=True, timeout=20).returncode == 1
    assert not list((tmp_path / "found").iterdir())
    script = subprocess.Popen(
        command, env={**own, "MISSING": missing}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (tmp_path / "pid").exists() or not (step := (tmp_path / "pid").read_text().strip()):
        time.sleep(0.01)
    script.send_signal(signal.SIGINT)
    assert script.wait(10) == 130
    while Path(f"/proc/{step}").exists():
        time.sleep(0.01)
    done = {path.stem for path in (tmp_path / "found").glob("*.done")}
    assert ("finetuning" in done) == (missing == "0")
    assert "heads" not in done
