"""Cells in actors of Ray: in a network namespace that has nothing but loopback, since Ray listens everywhere."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.processes import complete
from mlflow_l3d.execution.ray.executor import OPTIONS, RayExecutor, asked
from mlflow_l3d.testing import Trouble, bench_job, one_cell

CASES = Path(__file__).with_name("ray_cases.py")


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(L3DError, match=r"^executor=ray needs ray. Run: pip install 'mlflow-l3d\[ray\]'$"):
        list(RayExecutor(job=bench_job(Trouble(), tmp_path)).run([one_cell(Trouble.factors)]))


@pytest.mark.parametrize(("gpu", "given", "expected"), [(False, {}, 0), (True, {}, 1), (False, {"num_gpus": 0.5}, 0.5)])
def test_gpus_are_asked_for_where_they_are_used_or_named(gpu, given, expected):
    assert asked(complete(OPTIONS, given), gpu=gpu)["num_gpus"] == expected


def namespace():
    """Return the beginning of a command that runs with loopback alone, or None."""
    for options in (["-n"], ["-rn"]):
        command = ["unshare", *options, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return None


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(1200)
def test_cases_of_ray():
    if find_spec("ray") is None:
        pytest.skip("ray is not installed")
    if (inside := namespace()) is None:
        pytest.skip("unshare can make no network namespace here")
    # Ray warns of many things of its own.
    options = ["-q", "-x", "--durations=0", "-p", "no:cacheprovider", "-W", "default"]
    command = [sys.executable, "-m", "pytest", *options, str(CASES)]
    done = subprocess.run([*inside, *command], env={**os.environ, "PYTEST_ADDOPTS": ""}, capture_output=True, text=True)
    print(done.stdout[-20_000:], done.stderr[-5_000:])
    assert done.returncode == 0
    assert " passed" in done.stdout
