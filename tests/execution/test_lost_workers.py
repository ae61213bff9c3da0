import os
import signal
import threading
import time
from itertools import islice

import pytest
from run_helpers import wait_until

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.testing import Trouble, bench_job, design_cells, one_cell
from mlflow_l3d.testing.cells import worker_processes

pytestmark = pytest.mark.slow
LOST = "CUDA error: an illegal memory access was encountered"


def run(approach, cells, tmp_path, workers=2, **hyperparameters):
    executor = ProcessExecutor(job=bench_job(approach, tmp_path, **hyperparameters), workers=workers)
    outcomes = list(executor.run(iter(cells)))
    assert len(outcomes) == len(cells)
    return {outcome.key: outcome for outcome in outcomes}


@pytest.mark.parametrize(
    ("kind", "workers", "said"),
    [
        ("exit", 1, "worker ended with exit code 7; the cell was tried 2 times"),
        ("kill", 2, "worker ended with signal 9 (SIGKILL, often a lack of memory); the cell was tried 2 times"),
        ("segfault", 1, "worker ended with signal 11 (SIGSEGV); the cell was tried 2 times"),
        ("lost device", 1, f"worker lost its device ({LOST}); the cell was tried 2 times"),
    ],
)
def test_a_cell_that_ends_its_worker_ends_nothing_else(tmp_path, kind, workers, said):
    cells = list(design_cells(FACTORS, 12))
    outcomes = run(Trouble({cells[4].key: kind}), cells, tmp_path, workers)
    assert outcomes.pop(cells[4].key).error == said
    assert [outcome.error for outcome in outcomes.values()] == [None] * 11
    # The retry had a fresh worker, and so had the cells after it if there was no other.
    assert workers + 1 <= len(worker_processes(tmp_path)) <= workers + 2


def test_the_second_attempt_counts(tmp_path):
    cells = list(design_cells(FACTORS, 8))
    outcomes = run(Trouble({cells[2].key: "kill", cells[5].key: "exit"}, once=True), cells, tmp_path)
    assert [outcome.error for outcome in outcomes.values()] == [None] * 8
    assert 3 <= len(worker_processes(tmp_path)) <= 4


def test_a_worker_killed_from_outside(tmp_path):
    cells = list(design_cells(FACTORS, 30))
    outcomes = ProcessExecutor(job=bench_job(Trouble(), tmp_path, duration=0.02), workers=2).run(iter(cells))
    done = [next(outcomes)]
    os.kill(min(worker_processes(tmp_path)), signal.SIGKILL)
    done += outcomes
    assert {outcome.key for outcome in done} == {cell.key for cell in cells}
    assert not any(outcome.error for outcome in done)
    assert len(worker_processes(tmp_path)) == 3


def test_workers_ignore_ctrl_c(tmp_path):
    cells = list(design_cells(FACTORS, 8))
    outcomes = ProcessExecutor(job=bench_job(Trouble(), tmp_path, duration=0.05), workers=1).run(iter(cells))
    done = [next(outcomes)]
    (worker,) = worker_processes(tmp_path)
    os.kill(worker, signal.SIGINT)
    done += outcomes
    assert [outcome.error for outcome in done] == [None] * 8
    assert worker_processes(tmp_path) == {worker}


def test_every_cell_ends_its_worker(tmp_path):
    cells = list(design_cells(FACTORS, 2))
    outcomes = run(Trouble({cell.key: "exit" for cell in cells}), cells, tmp_path)
    assert all("exit code 7" in outcome.error for outcome in outcomes.values())
    assert len(worker_processes(tmp_path)) == 4


def test_a_worker_killed_while_it_idles(tmp_path):
    released = threading.Event()

    def cells():
        yield one_cell(FACTORS, 0)
        yield one_cell(FACTORS, 1)
        released.wait(120)
        yield one_cell(FACTORS, 2)

    outcomes = ProcessExecutor(job=bench_job(Trouble(), tmp_path), workers=2).run(cells())

    def kill_one():
        while len(list(tmp_path.glob("worker-*"))) != 2:
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(min(worker_processes(tmp_path)), signal.SIGKILL)
        time.sleep(0.1)
        released.set()

    killer = threading.Thread(target=kill_one)
    killer.start()
    assert [outcome.error for outcome in outcomes] == [None] * 3
    killer.join()


def test_a_death_in_the_preparation_is_one_error(tmp_path):
    executor = ProcessExecutor(job=bench_job(Trouble(prepare="exit"), tmp_path), workers=2)
    with pytest.raises(L3DError, match=r"^approach trouble: worker ended with exit code 3 before it was ready"):
        list(executor.run(design_cells(FACTORS, 5)))
    assert len(worker_processes(tmp_path)) == 2


def test_the_others_go_on_when_one_cannot_start(tmp_path, caplog):
    def cells():
        yield from islice(planned, 2)
        wait_until(lambda: len(worker_processes(tmp_path)) == 2, "the second worker")
        yield from planned

    planned = design_cells(FACTORS, 9)
    executor = ProcessExecutor(job=bench_job(Trouble(prepare="exit later"), tmp_path, duration=0.05), workers=2)
    assert [outcome.error for outcome in executor.run(cells())] == [None] * 9
    assert "exit code 3 before it was ready; 1 are left" in caplog.text


def test_no_worker_can_be_had_for_the_retry(tmp_path):
    cells = list(design_cells(FACTORS, 4))
    executor = ProcessExecutor(
        job=bench_job(Trouble({cells[1].key: "kill"}, prepare="exit later"), tmp_path), workers=1
    )
    outcomes = executor.run(cells)
    assert next(outcomes).error is None
    with pytest.raises(L3DError, match="before it was ready"):
        list(outcomes)
