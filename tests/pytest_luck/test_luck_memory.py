"""What is remembered of each case, on disk and in an MLflow experiment."""

import warnings
from pathlib import Path
from threading import Barrier, Thread

import pytest

from mlflow_l3d.pytest_luck.case import MOST, Case, Memory
from mlflow_l3d.pytest_luck.experiment import read_memory, write_suite
from mlflow_l3d.pytest_luck.suite import sum_up

RATE = {"label": "", "is_rate": True, "against": ""}


def test_runs_are_kept_newest_last_and_a_failed_case_begins_again(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.add("a", {0: 1.0, 1: 0.0}, **RATE)
    memory.add("a", {2: 1.0, 0: 0.0}, **RATE)
    assert [*memory.read("a").runs[""].items()] == [(1, 0.0), (2, 1.0), (0, 0.0)]
    assert (memory.read("a").suites, memory.read("b").runs) == (2, {})
    memory.add("a", dict.fromkeys(range(10, 10 + MOST), 1.0), **RATE)
    assert [*memory.read("a").runs[""]] == [*range(10, 10 + MOST)]
    memory.add("a", {0: 0.5}, **RATE | {"label": "main", "is_rate": False}, keep=False)
    assert memory.read("a").runs == {"": {}, "main": {0: 0.5}}


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    ready = Barrier(4)

    def write(place: int) -> None:
        ready.wait()
        for turn in range(5):
            Memory(tmp_path).add("a", {10 * place + turn: float(place)}, **RATE)

    threads = [Thread(target=write, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record = Memory(tmp_path).read("a")
    assert record.suites == 20
    assert record.runs[""] == {10 * place + turn: float(place) for place in range(4) for turn in range(5)}
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".json", "")] == []


def test_an_experiment_remembers_for_a_machine_without_disk(tracking_uri: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "ci")
    here, there, other = (Memory(tmp_path / place) for place in ("here/seed-0", "there/seed-0", "there/seed-1"))
    read_memory(here.folder.parent)  # of a new experiment
    here.add("a", {0: 1.0}, **RATE)
    case = {"case": "a", "verdict": "passed", "runs": 1, "seconds": 0.5}
    write_suite(sum_up([case], 0.05), here.folder.parent)
    killed, write = [True], Path.write_bytes

    def write_half(path: Path, content: bytes) -> int:
        if killed:
            warnings.warn("as MLflow does", DeprecationWarning, stacklevel=2)
            write(path, content[: len(content) // 2])
            raise KeyboardInterrupt(killed.pop())
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(KeyboardInterrupt), warnings.catch_warnings(action="error"):
        read_memory(there.folder.parent)
    read_memory(there.folder.parent)
    assert other.read("a").runs == {}  # the seeds of another root
    assert there.read("a") == here.read("a")
    there.add("a", {1: 0.0}, **RATE)
    read_memory(there.folder.parent)  # what is on disk stays
    assert [*there.read("a").runs[""]] == [0, 1]

    import mlflow

    (run,) = mlflow.MlflowClient(tracking_uri).search_runs([mlflow.get_experiment_by_name("ci").experiment_id])
    assert run.data.metrics == {"runs": 1, "seconds": 0.5, "cases_passed": 1}
    assert run.data.tags["l3d.role"] == "tests"


def test_runs_of_another_kind_are_forgotten_but_never_the_scores_of_a_label(tmp_path: Path) -> None:
    """A change whose assertion fails before the score must not delete what it is compared with."""
    memory = Memory(tmp_path)
    memory.add("a", {0: 0.7}, label="main", is_rate=False, against="main")
    memory.add("a", {1: 0.0}, **RATE | {"label": "main"}, keep=False)
    assert (memory.read("a").runs, memory.read("a").against) == ({"": {}, "main": {0: 0.7}}, "main")
    memory.add("a", {3: 0.6}, label="main", is_rate=False, against="main")
    assert memory.read("a").runs["main"] == {3: 0.6}  # one version of the code, never two


def test_seeds_of_forgotten_runs_are_not_used_again(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.add("a", {0: 0.0, 1: 0.0}, **RATE, keep=False)
    assert Case(memory.read("a"), 20, 0.8, 0.05, 1.4).next_index() == 2
    memory.add("a", {2: 1.0}, **RATE)
    memory.add("a", {3: 0.5}, label="", is_rate=False, against="")
    assert (memory.read("a").runs, memory.read("a").fresh) == ({"": {3: 0.5}}, 4)
