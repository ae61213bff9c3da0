"""What test_ray.py runs in a network namespace of its own."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import ray
from ray.cluster_utils import Cluster
from run_helpers import wait_until

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.ray.executor import RayExecutor
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.testing import Trouble, bench_job, check_executor, design_cells, differences
from mlflow_l3d.testing.cells import worker_processes

CELLS = list(design_cells(FACTORS, 8))


@pytest.fixture(scope="module")
def head():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def cache(head):
    """Return the cache folder of all nodes, empty."""
    shutil.rmtree(cache_folder())
    return cache_folder()


def in_background(action):
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def test_conformance(tmp_path, head):
    check_executor(RayExecutor, cache=tmp_path, workers=2, prefetch=1, stop_seconds=6.0)


def test_an_actor_that_is_killed_costs_nothing(tmp_path, head):
    job = bench_job(Trouble({CELLS[2].key: "hang"}, once=True), tmp_path)

    def kill():
        wait_until((tmp_path / f"attempt-{CELLS[2].key}").exists, "the cell")
        for process in worker_processes(tmp_path):
            os.kill(process, signal.SIGKILL)

    thread = in_background(kill)
    outcomes = {outcome.key: outcome for outcome in RayExecutor(job=job, workers=1).run(CELLS)}
    thread.join()
    inline = InlineExecutor(job=bench_job(Trouble(), tmp_path)).run(CELLS)
    assert [differences(outcomes[outcome.key], outcome) for outcome in inline] == [[]] * 8


def test_a_node_that_goes_away_is_no_fault_of_a_cell(cache, head):
    """Two nodes in turn go away under the same cell, and then its worker is killed: that alone is an attempt."""
    job = bench_job(Trouble({CELLS[0].key: "hang"}), cache)
    attempt = cache / f"attempt-{CELLS[0].key}"
    outcomes = []
    # It fits on the added nodes alone, which Ray adds in the main thread alone.
    executor = RayExecutor(job=job, workers=1, options={"num_cpus": 4})
    thread = in_background(lambda: outcomes.extend(executor.run(CELLS[:1])))

    def in_the_cell(turn):
        wait_until(lambda: len(worker_processes(cache)) == turn and attempt.exists(), f"attempt {turn}")
        attempt.unlink()

    for turn in (1, 2):
        node = head.add_node(num_cpus=4)
        in_the_cell(turn)
        head.remove_node(node, allow_graceful=False)
    node = head.add_node(num_cpus=4)
    for turn in (3, 4):
        in_the_cell(turn)
        os.kill(int(max(cache.glob("worker-*"), key=os.path.getmtime).stem[7:]), signal.SIGKILL)
    thread.join()
    head.remove_node(node)
    assert outcomes[0].error.startswith("worker ended (")
    assert outcomes[0].error.endswith("; the cell was tried 2 times")


def test_workers_come_as_the_cluster_grows(cache, head, monkeypatch):
    monkeypatch.setattr("mlflow_l3d.execution.ray.executor.RESOURCES_SECONDS", 0.2)
    job = bench_job(Trouble(), cache, duration=0.5)
    outcomes = RayExecutor(job=job, options={"num_cpus": 2}).run(design_cells(FACTORS, 400))
    next(outcomes)
    assert len(worker_processes(cache)) == 1
    node = head.add_node(num_cpus=2)
    for _ in outcomes:
        if len(worker_processes(cache)) == 2:
            break
    else:
        pytest.fail("no second worker came")
    outcomes.close()
    head.remove_node(node)


def test_a_worker_with_another_model_refuses(tmp_path, head):
    job = replace(bench_job(Trouble(), tmp_path), model_revision="0123")
    with pytest.raises(L3DError, match=r"worker on \S+ refused: .*model is none, not 0123; make them equal\.$"):
        list(RayExecutor(job=job, workers=2).run(CELLS))
    assert RayExecutor.on_worker(os.path.basename, "a/b", options={"num_gpus": 0.0}) == "b"


SCRIPT = """
import sys
from mlflow_l3d import investigate

if __name__ == "__main__":
    result = investigate(
        approach="synthetic", metric="synthetic_score", investigation_runs=4, mitigation_runs=4, golden_runs=4,
        executor="ray", workers=2, executor_options={"num_cpus": 0.5}, hyperparameters="duration=0.3",
    )
    print("reused", result.reused, "computed", result.computed)
"""


def test_a_driver_that_was_killed_goes_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    place = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db", "L3D_CACHE": str(tmp_path / "cache")}
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | place
    with subprocess.Popen([sys.executable, str(script)], env=environment, cwd=tmp_path) as first:
        wait_until(lambda: len(list((tmp_path / "cache").rglob("cell.json"))) >= 3, "three cells", 90)
        first.kill()
    again = subprocess.run([sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    reused, computed = (int(number) for number in again.stdout.split("reused ")[1].replace("computed", "").split())
    assert reused >= 3
    assert reused + computed == 20
