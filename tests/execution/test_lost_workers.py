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


ENDS = {
    "exit": "ended with exit code 7",
    "kill": "ended with signal 9 (SIGKILL, often a lack of memory)",
    "segfault": "ended with signal 11 (SIGSEGV)",
    "lost device": "lost its device (CUDA error: an illegal memory access was encountered)",
}


def test_cells_that_end_their_workers_say_how_and_end_nothing_else(tmp_path):
    cells = list(design_cells(FACTORS, 6))
    spoilt = dict(zip(ENDS, cells[:4], strict=True))
    job = bench_job(Trouble({cell.key: kind for kind, cell in spoilt.items()}), tmp_path)
    outcomes = {outcome.key: outcome for outcome in ProcessExecutor(job=job, workers=2).run(iter(cells))}
    errors = {kind: outcomes[cell.key].error for kind, cell in spoilt.items()}
    assert errors == {kind: f"worker {why}; the cell was tried 2 times" for kind, why in ENDS.items()}
    assert [outcomes[cell.key].error for cell in cells[4:]] == [None] * 2
    # Each retry had a fresh worker, and so had the cells after it if there was no other.
    assert 8 < len(worker_processes(tmp_path)) <= 10


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
    job = bench_job(Trouble({cells[1].key: "kill"}, prepare="exit later"), tmp_path)
    outcomes = ProcessExecutor(job=job, workers=1).run(cells)
    assert next(outcomes).error is None
    with pytest.raises(L3DError, match="before it was ready"):
        list(outcomes)
