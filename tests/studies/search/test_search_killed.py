"""A search whose process is killed, for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from filelock import Timeout
from run_helpers import wait_until
from search_cases import Climb
from search_stages import Search
from warm_start import WarmStart

from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.studies.search.engine import StageRun
from mlflow_l3d.studies.search.storages import journal_lock

TRIALS = 8
SCRIPT = """
import sys

if __name__ == "__main__":
    from pathlib import Path
    from search_cases import Climb
    from search_stages import Search
    from test_search_killed import run
    run(Search(Path(sys.argv[1]), Climb(hang_at=3), pruner="median"))
"""


def run(search: Search) -> int:
    queue = [{"x": 0.3 + 0.01 * number, "kind": "b"} for number in range(TRIALS)]
    executor = ProcessExecutor(job=search.job, workers=1)
    found = StageRun(search.study, search.space, search.maker, lambda trial: None).run(TRIALS, executor, queue)
    assert sorted(float(trial.params["x"]) for trial in found) == [each["x"] for each in queue]
    return len(found)


@pytest.mark.slow
def test_a_search_that_is_killed_computes_only_what_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    search = Search(tmp_path, Climb(seconds=0.01), pruner="median")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    process = WarmStart([str(script), str(tmp_path)], tmp_path, environment)
    try:
        wait_until(lambda: len(search.trace.trained()) >= 3 or process.poll() is not None, "three trials")
        workers = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    before = search.trace.lines("call")
    done = [trial for trial in Search(tmp_path).study.trials if trial.state.is_finished()]
    assert len(done) < TRIALS
    assert run(search) == TRIALS
    assert len(search.trace.lines("call")) - len(before) == TRIALS - len(done)


HOLDER = """
import sys, time
from pathlib import Path
from mlflow_l3d.studies.search.storages import journal_lock
lock = journal_lock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    journal = tmp_path / "optuna.log"
    lock = journal_lock(journal)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(journal)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Timeout):
            lock.acquire(timeout=0)
    finally:
        holder.kill()
        holder.communicate()
    lock.acquire(timeout=0)
    lock.release()
