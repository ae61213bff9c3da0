"""Cells in the tasks of a batch scheduler (Slurm), which submitit submits: one array task a worker."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.approaches.failures import LAST_SECONDS, one_line
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.errors import L3DError, ParameterError, imported
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.environment import WORKER_ENVIRONMENT, worker_environment
from mlflow_l3d.execution.processes import PoolExecutor, complete, pickled
from mlflow_l3d.execution.slurm.seat import BEATS, Inbox, Outbox, Pulse, RunFolder, Seat, looked_for
from mlflow_l3d.execution.workers import Ended, Message, Pool, Worker

if TYPE_CHECKING:
    import submitit

ASK_SECONDS: Final = 2.0
"""Between two questions whether a task has ended; submitit asks the scheduler more seldom still."""
STOP_SECONDS: Final = 3.0
"""How long a worker of this machine may take to find out that it must stop."""
OPTIONS: Final[Mapping[str, Hyperparameter]] = {
    "cluster": Hyperparameter("slurm", "who runs tasks; local: processes of this machine", choices=("slurm", "local")),
    "folder": Hyperparameter("", "folder that all machines share, for calls and outcomes; empty: the cache folder"),
    "silence_s": Hyperparameter(300.0, "seconds without a sign of life after which a worker counts as gone", low=1.0),
    "timeout_min": Hyperparameter(1440, "minutes that a task may run; then it is queued again", low=1),
    "cpus_per_task": Hyperparameter(1, "cores of a worker", low=1),
    "gpus_per_node": Hyperparameter(AUTO, "GPUs of a worker; auto is 1 with device=cuda, else 0", low=1, auto=int),
    "mem_gb": Hyperparameter(0.0, "memory of a worker, GB; 0 leaves it to the scheduler", low=0.0),
    "partition": Hyperparameter("", "Slurm's partition"),
    "account": Hyperparameter("", "Slurm's account"),
    "qos": Hyperparameter("", "Slurm's quality of service"),
    "constraint": Hyperparameter("", "features that a node must have, such as the card"),
    "setup": Hyperparameter("", "shell command before a worker starts, such as module load cuda"),
}


class TaskWorker(Worker):
    """The worker in a seat; another one comes when the scheduler runs that seat again."""

    def __init__(self, seat: int, folder: RunFolder) -> None:
        super().__init__()
        self.seat = seat
        self.name = ""
        self.heard = time.monotonic()
        self._folder = folder
        self._calls: Outbox | None = None

    def came(self, name: str) -> None:
        """Note the name of the worker that runs in the seat now."""
        self.name = name
        self._calls = Outbox(self._folder.calls / name, "call")

    def give(self, cells: list[Cell] | None) -> None:
        """Write a call, or None: there are no more."""
        with suppress(OSError):  # its folder is gone with it
            assert self._calls is not None
            self._calls.put(cells)


class TaskPool(Pool[TaskWorker]):
    """Seats that are submitted as array tasks.

    Parameters
    ----------
    job
        What the cells share; its folder, which nobody else can write to, lies on a file system of all machines.
    most
        How many workers there may be.
    options
        Of :data:`OPTIONS`, complete.
    """

    def __init__(self, job: Job, most: int, options: Mapping[str, Any]) -> None:
        super().__init__(most)
        self._patience = float(options["silence_s"])
        self._folder = RunFolder(options)
        self._folder.job.write_bytes(pickled(job, "submitit"))
        self._submitter = submitter(self._folder.path, options, gpu=job.device.startswith("cuda"))
        self._inbox = Inbox(self._folder.said)
        self._over: set[str] = set()
        self._early: list[tuple[str, Message | None]] = []
        self._tasks: dict[int, submitit.Job[None]] = {}
        self._wanted: list[int] = []
        self._returning: list[int] = []
        self._asked = time.monotonic()
        self._count = 0
        self._pulse = Pulse(self._live, self._patience / BEATS)

    def _live(self) -> None:
        hidden = self._folder.path / ".alive"
        hidden.write_text(uuid.uuid4().hex, encoding="ascii")
        hidden.rename(self._folder.alive)

    def start(self) -> TaskWorker:
        """Return the worker of a seat that the scheduler will run again, or of a new one, submitted with the others."""
        if self._returning:
            return TaskWorker(self._returning.pop(0), self._folder)
        seat, self._count = self._count, self._count + 1
        self._wanted.append(seat)
        return TaskWorker(seat, self._folder)

    def events(self, seconds: float) -> Iterator[tuple[TaskWorker, Message]]:
        """Look into the folder until there is something."""
        if self._wanted:
            seats, self._wanted = self._wanted, []
            try:
                with worker_environment():
                    tasks = self._submitter.submit_array([Seat(self._folder, seat, self._patience) for seat in seats])
            except Exception as error:
                why = f"the scheduler takes no task ({one_line(error)}); check executor_options"
                if not self._tasks:
                    raise L3DError(f"executor=submitit: {why}.") from error
                for worker in [worker for worker in self.workers if worker.seat in seats]:
                    yield worker, Ended(f"worker was not submitted: {why}", refused=True)
                return
            self._tasks.update(zip(seats, tasks, strict=True))
        news: list[tuple[str, Message | None]] = []

        def look() -> bool:
            news.extend(self._inbox.take())
            return bool(news)

        looked_for(look, seconds)
        early, self._early = self._early, []
        for name, message in (*early, *news):
            yield from self._from(name, message)
        yield from self._gone()

    def _from(self, name: str, message: Message | None) -> Iterator[tuple[TaskWorker, Message]]:
        """Yield what a worker said; None is a sign of life. A name that its seat has not had is another worker."""
        if name in self._over:
            return
        seat = int(name.partition("-")[0])
        worker = next((worker for worker in self.workers if worker.seat == seat), None)
        if worker is not None and worker.name not in {"", name}:
            self._over.add(worker.name)
            self._returning.append(seat)
            yield worker, Ended("worker was started again by the scheduler", blameless=True)
            worker = None
        if worker is None:
            # Its seat is not wanted yet, or no more.
            if seat in self._returning:
                self._early.append((name, message))
            return
        if not worker.name:
            worker.came(name)
        worker.heard = time.monotonic()
        if isinstance(message, Ended):
            self._over.add(name)
            if message.blameless:
                self._returning.append(seat)
        if message is not None:
            yield worker, message

    def _gone(self) -> Iterator[tuple[TaskWorker, Message]]:
        """Yield workers that ended without a word: those whose task is over, and those that are silent too long."""
        if time.monotonic() - self._asked < ASK_SECONDS:
            return
        self._asked = time.monotonic()
        for worker in tuple(self.workers):
            task = self._tasks[worker.seat]
            if worker.name and self._asked - worker.heard > self._patience:
                yield worker, Ended(f"worker gave no sign of life for {self._patience:g} s")
            elif task.done() and not any(self._folder.said.glob(f"{worker.seat}-*")):  # else its words are not read yet
                yield worker, Ended(f"worker ended with its task ({_last_words(task)})")

    def end(self, workers: Sequence[TaskWorker], *, at_once: bool) -> None:
        """End tasks: cancel them, or let those that are ready close their sessions first."""
        staying = [worker for worker in workers if worker.seat not in self._returning and worker.seat in self._tasks]
        if not at_once:
            ready = [worker for worker in staying if worker.ready]
            for worker in ready:
                worker.give(None)
            looked_for(lambda: _over(self._tasks[worker.seat] for worker in ready), LAST_SECONDS)
        self._cancel(worker.seat for worker in staying)

    def _cancel(self, seats: Iterable[int]) -> None:
        """Cancel tasks that are not over, and wait for those of this machine."""
        tasks = {seat: self._tasks.pop(seat) for seat in tuple(seats) if seat in self._tasks}
        for seat, task in tasks.items():
            if not task.done():
                (self._folder.stops / str(seat)).touch()
        local = self._submitter.cluster == "local"
        if local and looked_for(lambda: _over(tasks.values()), STOP_SECONDS):
            return
        for task in tasks.values():
            if not task.done():
                task.cancel(check=False)
        if local:
            looked_for(lambda: _over(tasks.values()), LAST_SECONDS)

    def close(self) -> None:
        """Cancel tasks that may come back, and remove the folder."""
        self._cancel(tuple(self._tasks))
        self._pulse.stop()
        shutil.rmtree(self._folder.path, ignore_errors=True)


def _over(tasks: Iterable[submitit.Job[None]]) -> bool:
    return all(task.done() for task in tasks)


def _last_words(task: submitit.Job[None]) -> str:
    """Return the state of a task, and the last line of its log that is not submitit's own."""
    lines = [line for line in (task.stderr() or "").splitlines() if line.strip() and not line.startswith("submitit ")]
    return ": ".join([task.state, *lines[-1:]])


def submitter(folder: Path, options: Mapping[str, Any], *, gpu: bool) -> Any:
    """Return the executor of submitit with these options.

    Raises
    ------
    L3DError
        If submitit is not installed.
    ParameterError
        If there is no such scheduler here.
    """
    cluster = options["cluster"]
    submitit = imported("submitit", "executor=submitit", "slurm")
    try:
        executor = submitit.AutoExecutor(folder / "tasks", cluster=cluster, slurm_max_num_timeout=1_000_000)
    except RuntimeError as error:
        allowed = f"is not to be had here ({error})"
        raise ParameterError("executor_options.cluster", cluster, allowed, "Start it where srun is.") from error
    parameters = {name: options[name] for name in ("timeout_min", "cpus_per_task", "mem_gb") if options[name]}
    texts = ("partition", "account", "qos", "constraint")
    parameters |= {f"slurm_{name}": options[name] for name in texts if options[name]}
    if gpus := int(gpu) if options["gpus_per_node"] == AUTO else options["gpus_per_node"]:
        parameters["gpus_per_node"] = gpus
    exports = [f"export {name}={value}" for name, value in WORKER_ENVIRONMENT.items()]
    executor.update_parameters(
        name="mlflow-l3d", slurm_setup=[*exports, *([options["setup"]] if options["setup"] else [])], **parameters
    )
    return executor


class SubmititExecutor(PoolExecutor):
    """Runs cells in array tasks of Slurm, or of submitit's own local scheduler; it has no usual number of workers.

    Raises
    ------
    ParameterError
        If there is no number of workers.
    """

    pool, options = TaskPool, OPTIONS
    gpu_options = ("gpus_per_node",)

    def __init__(self, *, job: Job, workers: int | None = None, options: Mapping[str, Value] | None = None) -> None:
        super().__init__(job=job, workers=workers, options=options)
        if workers is None:
            raise ParameterError("workers", "auto", "must be a number with executor=submitit", "Each is an array task.")

    @staticmethod
    def on_worker(function: Callable[..., Any], *arguments: object, options: Mapping[str, Value]) -> Any:
        """Return what a task gets when it calls `function`."""
        all_options = complete(OPTIONS, options)
        folder = RunFolder(all_options).path
        try:
            return submitter(folder, all_options, gpu=True).submit(function, *arguments).result()
        except Exception as error:
            raise L3DError(f"executor=submitit: no task says what it computes with ({one_line(error)})") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
