import json
import math
import os
import pickle
import sys
import threading
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from psutil import pid_exists
from run_helpers import calls_of_sessions, wait_until

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.numerics import SHARERS
from mlflow_l3d.approaches.progress import heard_by
from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution import environment, processes
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.testing import Trouble, bench_job, check_executor, design_cells, differences, one_cell
from mlflow_l3d.testing.cells import worker_processes


@pytest.mark.slow
def test_conformance(tmp_path):
    check_executor(ProcessExecutor, cache=tmp_path, workers=1)


@pytest.mark.slow
def test_each_worker_prepares_once_gives_the_same_outcomes_as_the_inline_executor_and_closes_in_the_end(tmp_path):
    cells = list(design_cells(FACTORS, 12))
    inline = InlineExecutor(job=bench_job(Trouble(), tmp_path / "inline", duration=0.05)).run(cells)
    expected = {outcome.key: outcome for outcome in inline}
    for outcome in ProcessExecutor(job=bench_job(Trouble(), tmp_path, duration=0.05), workers=2).run(cells):
        assert differences(outcome, expected[outcome.key]) == []
    processes = worker_processes(tmp_path)
    assert len(processes) == 2
    assert {int(path.name.removeprefix("closed-")) for path in tmp_path.glob("closed-*")} == processes


def test_never_more_workers_than_cells_their_environment_and_what_they_tell(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///here.db")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before, told = dict(os.environ), []
    with heard_by(told.append):
        assert len(list(ProcessExecutor(job=bench_job(Trouble(), tmp_path), workers=5).run([one_cell(FACTORS)]))) == 1
    assert dict(os.environ) == before
    assert told == ["preparing: 0 %", ""]
    (file,) = tmp_path.glob("worker-*.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    expected = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_TRACKING_URI": "sqlite:///here.db",
        "MLFLOW_EXPERIMENT_NAME": "mine",  # of runs that the training starts itself
        SHARERS: "5",  # as many as there may be: cells are taken as they are needed
        "device": "cpu",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "MLFLOW_RUN_ID" not in found


def test_gpus_are_shared_out(tmp_path, monkeypatch):
    cards = SimpleNamespace(device_count=lambda: 2, get_device_name=lambda _: "H200")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cards))
    monkeypatch.setattr(processes, "ProcessWorker", lambda _, device, of: SimpleNamespace(device=device, of=of))
    assert environment.default_workers("cuda") == 2
    own = processes.ProcessPool(replace(bench_job(Trouble(), tmp_path), device="cuda"), 3, {})
    for _ in range(3):
        own.workers.append(own.start())
    assert [(worker.device, worker.of) for worker in own.workers] == [("cuda:0", 2), ("cuda:1", 1), ("cuda:0", 2)]
    assert environment.places("cuda:1") == ["cuda:1"]
    assert environment.default_workers("mps") == 1
    assert environment.default_workers("cpu") == len(os.sched_getaffinity(0))


@pytest.mark.slow
def test_an_error_of_the_callers_cells_stops_the_workers(tmp_path):
    def cells():
        yield from design_cells(FACTORS, 3)
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(ProcessExecutor(job=bench_job(Trouble(), tmp_path), workers=2).run(cells()))
    assert not any(pid_exists(process) for process in worker_processes(tmp_path))


def test_calls_run_while_the_consumer_is_busy(tmp_path, monkeypatch):
    # A second call waits in the pipe if cells are short: on a busy machine they are not.
    monkeypatch.setattr("mlflow_l3d.execution.dispatch.PREFETCH_BELOW_SECONDS", math.inf)
    job = bench_job(Trouble(together=True), tmp_path, duration=0.05)
    outcomes = ProcessExecutor(job=job, workers=1).run(design_cells(FACTORS, 12))
    next(outcomes)
    # Nobody takes an outcome from here on: the call that runs ends, and so does the one that waits in the pipe.
    wait_until(lambda: len(calls_of_sessions(tmp_path)) >= 3, "two more calls")
    outcomes.close()


@pytest.mark.slow
def test_a_long_cell_does_not_hold_another_one_up(tmp_path, monkeypatch):
    monkeypatch.setattr("mlflow_l3d.execution.dispatch.PREFETCH_BELOW_SECONDS", 0.01)
    taken = []

    def cells():
        for cell in design_cells(FACTORS, 9):
            taken.append(cell)
            yield cell

    job = bench_job(Trouble(), tmp_path, duration=0.03)
    for done, _ in enumerate(ProcessExecutor(job=job, workers=2).run(cells()), start=1):
        assert len(taken) <= done + 2


@pytest.mark.slow
def test_a_task_larger_than_the_pipe_and_answers_as_large(tmp_path):
    count = 40_000
    task = make_task("large", (["a text " * 20] * count,), np.arange(count) % 2, ["no", "yes"])
    job = Job(Trouble(), task, resolve_hyperparameters(Trouble(), {}), "", "cpu", tmp_path)
    outcomes = list(ProcessExecutor(job=job, workers=2).run(design_cells(FACTORS, 6)))
    assert [outcome.error for outcome in outcomes] == [None] * 6
    assert len(outcomes[0].predictions) == 1000


@pytest.mark.slow
def test_exceptions_of_the_preparation_are_raised_here(tmp_path):
    executor = ProcessExecutor(job=bench_job(Trouble(prepare="raise"), tmp_path), workers=2)
    with pytest.raises(L3DError, match=r"^approach trouble could not be prepared: RuntimeError: no luck today") as info:
        list(executor.run(design_cells(FACTORS, 2)))
    assert str(info.value).endswith("no luck today")
    assert "in prepare" in "".join(info.value.__notes__)
    assert not any(pid_exists(process) for process in worker_processes(tmp_path))


def test_an_approach_that_does_not_survive_pickling(tmp_path):
    lock = threading.Lock()
    approach = FunctionApproach(lambda *_: lock, name="mine", version="1", factors=("data_order",))
    job = replace(bench_job(Trouble(), tmp_path), approach=approach)
    with pytest.raises(ParameterError, match=r"approach=mine: must survive pickling .* use executor=inline"):
        list(ProcessExecutor(job=job, workers=1).run([one_cell(FACTORS)]))


class OnlyHere:
    """Pickles as something that no worker finds."""

    name = "only here"

    def __reduce__(self):
        return import_module, ("a_notebook",)


@pytest.mark.slow
def test_an_approach_that_workers_cannot_load(tmp_path):
    job = replace(bench_job(Trouble(), tmp_path), approach=OnlyHere())
    pickle.dumps(job)
    with pytest.raises(L3DError, match=r"cannot load .*No module named 'a_notebook'.* use executor=inline"):
        list(ProcessExecutor(job=job, workers=1).run([one_cell(FACTORS)]))


@pytest.mark.parametrize("workers", [0, -1, True, "two"])
def test_bad_number_of_workers(tmp_path, workers):
    with pytest.raises(ParameterError, match=f"workers={workers}: must be a positive number, or auto"):
        ProcessExecutor(job=bench_job(Trouble(), tmp_path), workers=workers)
