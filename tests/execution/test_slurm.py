"""Cells in tasks that submitit runs on this machine."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from unittest.mock import Mock

import pytest
from run_helpers import wait_until

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.processes import complete
from mlflow_l3d.execution.slurm import executor as slurm
from mlflow_l3d.execution.slurm.executor import SubmititExecutor, submitter
from mlflow_l3d.testing import Trouble, bench_job, check_executor, design_cells, differences
from mlflow_l3d.testing.cells import worker_processes

OPTIONS = {"cluster": "local", "silence_s": 20.0}
CELLS = list(design_cells(FACTORS, 6))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "l3d"))
    return tmp_path / "l3d" / "submitit"


class Local(SubmititExecutor):
    def __init__(self, *, job, workers=None):
        super().__init__(job=job, workers=workers, options=OPTIONS)


@pytest.mark.slow
def test_a_preemption_is_no_attempt_and_a_death_is_one(tmp_path, folder):
    # Its first attempt waits to be preempted, which submitit tells a task by a signal; the second one is killed.
    job = bench_job(Trouble({CELLS[0].key: "hang"}, once=True, together=True), tmp_path, duration=0.5)
    outcomes = Local(job=job, workers=1).run(CELLS[:3])

    def worker(number):
        wait_until(lambda: len(worker_processes(tmp_path)) == number, f"worker {number}")
        return max(tmp_path.glob("worker-*.json"), key=os.path.getmtime).stem.removeprefix("worker-")

    def trouble():
        first = worker(1)
        wait_until(lambda: (tmp_path / f"attempt-{CELLS[0].key}").exists(), "the first cell")
        os.kill(int(first), signal.SIGUSR2)
        second = worker(2)
        wait_until(lambda: (tmp_path / f"calls-{second}").exists(), "a call of the second worker")
        os.kill(int(second), signal.SIGKILL)

    thread = threading.Thread(target=trouble)
    thread.start()
    found = list(outcomes)
    thread.join()
    assert len(worker_processes(tmp_path)) == 3
    inline = {outcome.key: outcome for outcome in InlineExecutor(job=bench_job(Trouble(), tmp_path)).run(CELLS[:3])}
    assert [differences(outcome, inline[outcome.key]) for outcome in found] == [[]] * 3
    assert list(folder.iterdir()) == []


def test_what_it_needs(tmp_path, monkeypatch):
    job = bench_job(Trouble(), tmp_path)
    with pytest.raises(ParameterError, match=r"^workers=auto: must be a number with executor=submitit"):
        SubmititExecutor(job=job)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ParameterError, match=r"^executor_options.cluster=slurm: is not to be had here .*srun"):
        list(SubmititExecutor(job=job, workers=2).run(CELLS))
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(L3DError, match=r"pip install 'mlflow-l3d\[slurm\]'"):
        list(SubmititExecutor(job=job, workers=2).run(CELLS))


def test_a_scheduler_that_takes_no_task(tmp_path, monkeypatch):
    scheduler = Mock(**{"submit_array.side_effect": RuntimeError("sbatch: error: no such partition")})
    monkeypatch.setattr(slurm, "submitter", lambda *_, **__: scheduler)
    with pytest.raises(
        L3DError, match=r"^executor=submitit: the scheduler takes no task \(.*no such partition\); check"
    ):
        list(Local(job=bench_job(Trouble(), tmp_path), workers=2).run(CELLS))
    pool = slurm.TaskPool(bench_job(Trouble(), tmp_path), 2, complete(SubmititExecutor.options, OPTIONS))
    pool._tasks[9] = Mock()  # of a worker that continues
    pool.workers.append(pool.start())
    assert [(worker.seat, message.refused) for worker, message in pool.events(0.0)] == [(0, True)]
    pool.close()


@pytest.mark.parametrize(
    ("gpu", "given", "expected"), [(False, {}, None), (True, {}, 1), (False, {"gpus_per_node": 2}, 2)]
)
def test_gpus_are_asked_for_where_they_are_used_or_named(gpu, given, expected, tmp_path):
    found = submitter(tmp_path, complete(SubmititExecutor.options, {"cluster": "local", **given}), gpu=gpu)
    assert found._executor.parameters.get("gpus_per_node") == expected


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("local", [True, False])
def test_conformance(tmp_path, local):
    check_executor(Local, cache=tmp_path, workers=2, stop_seconds=8.0, local=local)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_with_other_numerics_refuses(tmp_path):
    job = replace(bench_job(Trouble(), tmp_path), model_revision="0123")
    with pytest.raises(L3DError, match=r"worker on \S+ refused: .*model is none, not 0123; make them equal\.$"):
        list(Local(job=job, workers=2).run(CELLS))


@pytest.mark.slow
@pytest.mark.cluster
def test_a_task_says_what_it_computes_with():
    assert SubmititExecutor.on_worker(os.path.basename, "a/b", options=OPTIONS) == "b"


SCRIPT = """
import sys
from pathlib import Path
from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.execution.processes import complete
from mlflow_l3d.execution.slurm.executor import SubmititExecutor
from mlflow_l3d.testing import Trouble, bench_job, design_cells

cells = list(design_cells(FACTORS, 4))
job = bench_job(Trouble(dict.fromkeys((cell.key for cell in cells), "hang")), Path(sys.argv[1]))
list(SubmititExecutor(job=job, workers=2, options={"cluster": "local", "silence_s": 3.0}).run(cells))
"""


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_end_where_the_dispatcher_was_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stdin=subprocess.DEVNULL) as driver:
        wait_until(lambda: len(list(tmp_path.glob("attempt-*"))) == 2, "two cells")
        driver.kill()
    wait_until(lambda: not any(os.path.exists(f"/proc/{process}") for process in worker_processes(tmp_path)), "the end")
