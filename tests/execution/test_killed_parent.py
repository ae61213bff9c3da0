import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_helpers import wait_until

from mlflow_l3d.testing.cells import worker_processes

pytestmark = pytest.mark.slow

SCRIPT = """
import sys, threading
from pathlib import Path
from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.testing import Trouble, bench_job, one_cell

def main(kind):
    cells = [one_cell(FACTORS, number) for number in range(8)]
    job = bench_job(Trouble({cell.key: kind for cell in cells}), Path(sys.argv[1]))
    print("starting", flush=True)
    list(ProcessExecutor(job=job, workers=2).run(cells))

if __name__ == "__main__":
    if sys.argv[3] == "thread":
        thread = threading.Thread(target=main, args=[sys.argv[2]])
        thread.start()
        thread.join()
    else:
        main(sys.argv[2])
"""


def gone(process):
    """A zombie that nobody has reaped yet runs no more."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


@pytest.fixture
def start(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    started = []

    def begin(kind, thread="main"):
        command = [sys.executable, str(script), str(tmp_path), kind, thread]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, **pipes, start_new_session=True)
        started.append(process)
        assert process.stdout.readline() == "starting\n"
        return process

    yield begin
    # Workers first: they hold the pipes that are read to their end here.
    for process in started:
        process.kill()
    for worker in worker_processes(tmp_path):
        if not gone(worker):
            os.kill(worker, signal.SIGKILL)
    for process in started:
        process.communicate(timeout=60)


def wait_for_two_cells(folder):
    wait_until(lambda: len(list(folder.glob("attempt-*"))) == 2, "two cells")


# "stuck" holds the interpreter lock, so that no thread of the worker can look after the parent; the kernel does, which
# looks at the main thread alone.
@pytest.mark.parametrize(
    ("kind", "thread", "number"), [("stuck", "main", signal.SIGKILL), ("hang", "thread", signal.SIGTERM)]
)
def test_workers_in_long_cells_end_with_their_parent(tmp_path, start, kind, thread, number):
    parent = start(kind, thread)
    wait_for_two_cells(tmp_path)
    workers = worker_processes(tmp_path)
    assert len(workers) == 2
    # Both are inside their cells by now, with the lock where the cell holds it.
    time.sleep(0.2)
    assert not any(gone(worker) for worker in workers)
    parent.send_signal(number)
    parent.wait(60)
    wait_until(lambda: all(gone(worker) for worker in workers), "the end of the workers")


@pytest.mark.parametrize(
    "wait", [wait_for_two_cells, lambda _: None, lambda _: time.sleep(0.1)], ids=["in cells", "at once", "soon"]
)
def test_ctrl_c_in_the_terminal_reaches_the_parent_alone(tmp_path, start, wait):
    parent = start("hang")
    wait(tmp_path)
    os.killpg(parent.pid, signal.SIGINT)
    _, errors = parent.communicate(timeout=60)
    assert parent.returncode == -signal.SIGINT
    assert errors.count("KeyboardInterrupt") == 1
    assert "SpawnProcess" not in errors
    assert all(gone(worker) for worker in worker_processes(tmp_path))


CALLABLE = """
import sys
from pathlib import Path
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import one_cell

OFFSET = 0

def shifted(labels):
    return labels + OFFSET

def mine(task, split, seeds, hyperparameters):
    return shifted(task.labels[split.test])

def main():
    approach = FunctionApproach(mine, name="mine", version="1", factors=("data_order",))
    job = Job(approach, generate(40), {}, "", "cpu", Path(sys.argv[1]))
    for outcome in ProcessExecutor(job=job, workers=1).run([one_cell(approach.factors)]):
        print(outcome.error, outcome.metrics["accuracy"])

"""


@pytest.mark.parametrize(
    ("way", "ending"),
    [("file", "main()\n"), ("stdin", "main()\n"), ("file", 'if __name__ == "__main__":\n    main()\n')],
    ids=["file", "stdin", "guarded file"],
)
def test_functions_of_the_users_script_reach_workers_that_do_not_run_it(way, ending, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(CALLABLE + ending)
    command = [sys.executable, str(path) if way == "file" else "-", str(tmp_path)]
    with path.open() as text:
        finished = subprocess.run(command, stdin=text, capture_output=True, text=True, timeout=60)
    assert finished.stdout == "None 1.0\n", finished.stderr
    assert finished.returncode == 0
