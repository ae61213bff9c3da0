"""A place of its own for an investigation: a store, a cache, and ways to start and to read it."""

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import known_schema  # noqa: F401 - every place has a store of its own
import mlflow
import psutil
from mlflow import MlflowClient
from mlflow.entities import Run
from stores import copy_store
from warm_start import WarmStart

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.execution.environment import variables
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.studies.investigation.run import investigate

_SIZES = {"investigation_runs": 3, "mitigation_runs": 2, "golden_runs": 4}
SMALL: Mapping[str, Any] = {"approach": "synthetic", "metric": "synthetic_score", **_SIZES}
CELLS = 10
"""Cells of an investigation with the parameters SMALL."""


@dataclass(frozen=True)
class Place:
    """Where an investigation runs; `variables` are set beside the tracking URI and the cache."""

    uri: str
    cache: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(self.uri)

    @contextmanager
    def entered(self) -> Iterator[Self]:
        """Make this the place of everything that MLflow and the package do in this process; another one is restored."""
        before = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
        own = {"L3D_CACHE": str(self.cache), "MLFLOW_TRACKING_URI": self.uri}
        with variables({**own, **self.variables}):
            mlflow.set_tracking_uri(self.uri)
            try:
                yield self
            finally:
                mlflow.set_tracking_uri(before)

    def investigate(self, **parameters: Any) -> Investigation:
        """Run an investigation in this process; small and inline unless told otherwise."""
        with self.entered():
            return investigate(**{**SMALL, "executor": "inline", **parameters})

    def start(self, *arguments: str, **parameters: Any) -> WarmStart:
        """Start Python in a process group of its own; `arguments` replace the verb and its options."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, **parameters}.items()]
        env = {**os.environ, "MLFLOW_TRACKING_URI": self.uri, "L3D_CACHE": str(self.cache), **self.variables}
        return WarmStart(arguments or ["-m", "mlflow_l3d", "investigate", *options], self.cache.parent, env)

    def spooled(self) -> set[str]:
        """Return the keys of the cells in the spool."""
        return {path.parent.name for path in self.cache.glob("spool/*/*/cell.json") if path.parent.name[0] != "."}

    def runs(self, condition: str = "") -> list[Run]:
        """Return all active runs of all experiments that a filter finds."""
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        return list(self.client.search_runs(experiments, condition, order_by=["attributes.start_time ASC"]))

    def parents(self) -> list[Run]:
        """Return the parents, oldest first."""
        return self.runs("tags.`l3d.role` = 'investigation'")

    def cells(self, parent: str | None = None) -> list[Run]:
        """Return the cells, or those of one parent."""
        own = f" and tags.`mlflow.parentRunId` = '{parent}'" if parent else ""
        return self.runs(f"tags.`l3d.role` = 'cell'{own}")

    def download(self, run_id: str, name: str, folder: Path) -> Path:
        """Download one artifact."""
        target = folder / run_id
        target.mkdir(parents=True, exist_ok=True)
        return Path(self.client.download_artifacts(run_id, name, str(target)))


def sqlite_place(template: Path, folder: Path, **of_place: str) -> Place:
    """Return a place with an empty SQLite store, copied from `template`."""
    folder.mkdir(parents=True, exist_ok=True)
    return Place(copy_store(template, folder, (folder / "artifacts").as_uri()), folder / "cache", of_place)


def copied(place: Place, folder: Path) -> Place:
    """Return a copy, in `folder`, of a place of :func:`sqlite_place` in which nothing is running."""
    source = place.cache.parent
    shutil.copytree(source, folder, dirs_exist_ok=True)
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection, connection:
        moved = (source.as_uri(), folder.as_uri())
        connection.execute("UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)", moved)
        connection.execute("UPDATE runs SET artifact_uri = replace(artifact_uri, ?, ?)", moved)
    return Place(f"sqlite:///{folder / 'mlflow.db'}", folder / "cache", place.variables)


class Hooked(Synthetic):
    """Calls `hook` with the number of the cell before each cell."""

    def __init__(self, hook: Callable[[int], None]) -> None:
        self.hook = hook

    def prepare(self, *args: Any, **kwargs: Any) -> Any:
        session, hook = super().prepare(*args, **kwargs), self.hook

        class Counted(Session):
            count = 0

            def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
                for cell in cells:
                    hook(self.count)
                    self.count += 1
                    yield from session.run([cell])

            def close(self) -> None:
                session.close()

        return Counted()


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for something that must come; a look that takes long is taken less often."""
    deadline = time.monotonic() + seconds
    while True:
        begun = time.thread_time()
        if condition():
            return
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.02 + 5 * (time.thread_time() - begun))


def wait_for_moment(process: WarmStart, condition: Callable[[], bool], what: str) -> None:
    """Wait for a moment in the life of a process."""
    wait_until(lambda: condition() or process.poll() is not None, what)
    assert process.poll() is None, process.communicate()


def kill_with_workers(process: WarmStart, *, at_once: bool = False) -> None:
    """Kill a process, with which all that it started ends, or is killed `at_once`."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL) if at_once else process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


def one_line(stderr: str) -> str:
    """Return the error line of a command, which must be its last and only one."""
    lines = [line for line in stderr.strip().splitlines() if line.startswith("mlflow-l3d:")]
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr, stderr
    return lines[0]


def interrupt(process: WarmStart, number: signal.Signals = signal.SIGINT) -> None:
    """Interrupt a command and all that it started; it says that it can be continued, and nothing else."""
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert "interrupted; the same command continues where it stopped" in one_line(stderr)


def assert_whole(place: Place, parent: str, cells: int) -> None:
    """Check that a parent has each cell once, finished, and that nothing is left running or lying about."""
    own = place.cells(parent)
    keys = [run.data.tags["l3d.cell_key"] for run in own if run.info.status == "FINISHED"]
    assert len(keys) == len(set(keys)) == cells
    everywhere = [run.data.tags["l3d.cell_key"] for run in place.cells() if run.info.status == "FINISHED"]
    assert sorted(everywhere) == sorted(keys)
    assert [run.info.run_name for run in place.runs() if run.info.status == "RUNNING"] == []
    last = place.client.get_run(parent)
    assert last.info.status == "FINISHED"
    assert last.data.tags["l3d.state"] == "complete"
    assert last.data.metrics["cells_failed"] == 0
    steps = [point.step for point in place.client.get_metric_history(parent, "importance")]
    assert len(steps) == len(set(steps))
    assert place.spooled() == set()


def calls_of_sessions(cache: Path) -> list[list[str]]:
    """Return the keys of each call that sessions of :class:`Trouble` got with `at_once` above 1 or `together`."""
    return [line.split() for path in cache.glob("calls-*") for line in path.read_text(encoding="utf-8").splitlines()]
