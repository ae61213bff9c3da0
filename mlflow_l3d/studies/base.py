"""What every study does alike: the preamble, executor and progress bar, and a parent in a true state at the end."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from mlflow_l3d import registry
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.functions.of_seeds import SeedFunction
from mlflow_l3d.errors import logger
from mlflow_l3d.execution.base import Executor, Job
from mlflow_l3d.execution.environment import default_workers, deferred_interrupts
from mlflow_l3d.parameters.setup import Setup
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.shown import shows_progress
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking.connection import Client, connect, error_line, own_settings
from mlflow_l3d.tracking.earlier import find_search
from mlflow_l3d.tracking.pages import runs_page, told
from mlflow_l3d.tracking.parent import end_early
from mlflow_l3d.tracking.recorder import RunRecorder
from mlflow_l3d.tracking.records import RunRecord


class HasRemarks(Protocol):
    """What every request has, that of one investigation and that of many."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said before it begins."""


S = TypeVar("S", bound=HasRemarks)
K = TypeVar("K", bound=RunRecord)
R = TypeVar("R")


@dataclass
class ProjectRun:
    """The run that `mlflow run` made for this process.

    Attributes
    ----------
    run_id
        None if there is none.
    taken
        Whether something else answers for how it ends.
    """

    run_id: str | None
    taken: bool = False

    def take(self) -> str | None:
        """Return the run to who answers from here on for how it ends."""
        self.taken = True
        return self.run_id


@contextmanager
def entry_point() -> Iterator[ProjectRun]:
    """Begin an entry point: our own settings of MLflow, and the project run, which fails if the block raises.

    MLFLOW_RUN_ID is taken out of the environment, so that nobody attaches to the parent by accident.
    """
    project_run = ProjectRun(os.environ.pop("MLFLOW_RUN_ID", None))
    with own_settings():
        try:
            yield project_run
        except Exception as error:
            if not project_run.taken:
                fail_project_run(project_run.run_id, error)
            raise


def fail_project_run(run_id: str | None, error: Exception) -> None:
    """Mark the run that `mlflow run` made, if there is one, as failed; the error itself is the caller's to show."""
    if run_id is None:
        return
    try:
        end_early(connect(), run_id, error_line(error))
    except Exception as second:  # noqa: BLE001 - the first error matters more
        logger.error("The run could not be marked as failed: %s", error_line(second))


def specified(
    specify: Callable[..., S],
    approach: Approach | str | None,
    task: TaskLike,
    parameters: Mapping[str, object],
    searches: Callable[..., Any] | None = find_search,
) -> S:
    """Call what specifies a study; approach and task may be names or objects, and a function of seeds is both."""
    if approach is None and callable(task) and not isinstance(task, type | Approach):
        metric = parameters.get("metric", "auto")
        approach = SeedFunction(task, metric=metric if isinstance(metric, str) else "auto")
        task = None
    subjects = {"approach": approach, "task": task}
    named = {name: value for name, value in subjects.items() if isinstance(value, str)}
    objects = {name: value for name, value in subjects.items() if name not in named}
    return specify({**parameters, **named}, **objects, searches=searches)


def say(remarks: Iterable[str]) -> None:
    """Say what users should know before a study begins, or while it is under way."""
    for remark in remarks:
        logger.warning("%s", remark)


@contextmanager
def locked(path: Path, waiting: str = "") -> Iterator[bool]:
    """Hold a lock among the processes of this machine in the block; yield whether it is held.

    Parameters
    ----------
    path
        Of the lock.
    waiting
        Said before waiting for another process that holds it; if empty, the block runs at once, without the lock.
    """
    from filelock import FileLock, Timeout

    lock, is_held = FileLock(path), True
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if is_held := bool(waiting):
            say([waiting])
            lock.acquire()
    try:
        yield is_held
    finally:
        lock.release()


def warn_of_unread(metrics: Mapping[str, float]) -> None:
    """Warn if nothing could be read from many answers of the first cell, so that the others are not paid in vain."""
    if (unread := 100 * metrics.get("unparsed_share", 0.0)) > 20:
        count = f"{unread:.0f} % of the first cell's answers cannot be read and count as wrong."
        say([f"{count} Stop and change the prompt?"])


class Study(ABC, Generic[S, K, R]):
    """A study that has a parent run of its own: how it is opened, carried out, and ended in a true state.

    Parameters
    ----------
    request
        The request.
    progress
        Whether to show progress on stderr; None does in a notebook and on a terminal.

    Attributes
    ----------
    specify
        Checks the parameters and loads what they name; returns a request.
    recorder
        What is done; there once the parent is open.
    """

    specify: ClassVar[Callable[..., Any]]
    recorder: RunRecorder[K]

    def __init__(self, request: S, *, progress: bool | None = False) -> None:
        self.request = request
        self.progress = shows_progress(progress)
        self._started = time.monotonic()

    @abstractmethod
    def open(self, project_run: str | None) -> RunRecorder[K]:
        """Open the parent, and find what is done already."""

    @abstractmethod
    def carry_out(self) -> R:
        """Train, score and end the parent."""

    @abstractmethod
    def how_far(self) -> str:
        """Return what was done when the user interrupted it, as in `with 3 of 8 cells done`."""

    @classmethod
    def conduct(
        cls, parameters: Mapping[str, object], *, approach: Approach | str | None, task: TaskLike, progress: bool | None
    ) -> R:
        """Specify and run a study: what its function in the Python API does."""
        with entry_point() as project_run:
            request: S = specified(cls.specify, approach, task, parameters)
            say(request.remarks)
            return cls(request, progress=progress).run(project_run.take())

    def run(self, project_run: str | None = None) -> R:
        """Carry out the study.

        Parameters
        ----------
        project_run
            The run that `mlflow run` made, if there is one; it becomes the parent.
        """
        with (
            self.opened(project_run) as recorder,
            told(recorder.client.tracking_uri, recorder.parent.experiment_id, recorder.parent.run_id),
        ):
            return self.carry_out()

    @contextmanager
    def opened(self, project_run: str | None = None) -> Iterator[RunRecorder[K]]:
        """Open the parent; if the block raises, end it in a true state. Before it is open the project run fails."""
        is_open = False
        try:
            with deferred_interrupts():
                self.recorder = self.open(project_run)
                is_open = True
            yield self.recorder
        except KeyboardInterrupt:
            if is_open:
                self.interrupt()
            raise
        except (Exception, SystemExit) as error:
            if is_open:
                self.end("FAILED", error_line(error))
            elif isinstance(error, Exception):
                fail_project_run(project_run, error)
            raise

    def interrupt(self) -> None:
        """End the parent as interrupted."""
        interrupted = f"Interrupted {self.how_far()}".rstrip()
        self.end("KILLED", f"{interrupted}. The same command continues where it stopped.")

    def end(self, status: str, line: str) -> None:
        """End the parent before all is done."""
        self.recorder.end(status, line)


def origin(client: Client, experiment_id: str, run_id: str) -> Source:
    """Return the origin of a result in a run that is written today, with the address of its page."""
    return Source(run_id=run_id, address=runs_page(client, experiment_id), date=f"{datetime.now(UTC):%Y-%m-%d}")


def executor_of(setup: Setup, job: Job | None = None) -> Executor:
    """Return the executor that trains what `setup` says, or another job in the place of its own."""
    executor_class = registry.load("executor", setup.how.executor)
    options = {"options": setup.how.options} if setup.how.options else {}
    executor: Executor = executor_class(job=job or job_of(setup), workers=setup.how.workers, **options)
    return executor


def expected_workers(setup: Setup) -> int:
    """Return how many cells a plan takes to run at a time: one if workers of other machines are not counted yet."""
    if setup.how.workers is not None:
        return setup.how.workers
    elsewhere = getattr(registry.load("executor", setup.how.executor), "on_worker", None)
    return 1 if elsewhere else default_workers(setup.device)


def job_of(setup: Setup, approach: Approach | None = None) -> Job:
    """Return what the cells of `setup` share, as executors know it; with another approach in the place of its own."""
    return Job(
        approach=approach or setup.approach,
        task=setup.task,
        hyperparameters=setup.hyperparameters,
        model=setup.model_reference,
        device=setup.device,
        cache=cache_folder(),
        deterministic=setup.deterministic,
        cell_timeout=setup.how.cell_timeout,
        numerics=setup.numerics,
        model_revision=setup.model_revision,
    )
