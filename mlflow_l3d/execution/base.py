"""The protocol of an executor, and the job it is given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.tasks.base import Task


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a worker needs besides the cells. It is pickled to workers.

    Attributes
    ----------
    approach
        The approach itself; it must survive pickling.
    task
        The data with its split settings.
    hyperparameters
        Complete and checked.
    model, device
        As for :meth:`mlflow_l3d.approaches.base.Approach.prepare`.
    cache
        Folder for what is worth keeping between runs.
    deterministic
        Whether the device computes the same way each time.
    cell_timeout
        Seconds that a cell may take, infinite for no limit; None is ``auto``, see
        :class:`mlflow_l3d.execution.dispatch.Limits`.
    numerics, model_revision
        What keys of the cells say of the device, of libraries and of the model: workers of other machines compare.
    """

    approach: Approach
    task: Task
    hyperparameters: Mapping[str, Value]
    model: str
    device: str
    cache: Path
    deterministic: bool = True
    cell_timeout: float | None = None
    numerics: Mapping[str, str] = field(default_factory=dict)
    model_revision: str = ""


class CountedCells(Iterator[Cell]):
    """Cells that say how many there still are, so that nobody has to look ahead.

    Parameters
    ----------
    cells
        The cells.
    remaining
        Returns how many they may still give; a guess is enough.
    """

    def __init__(self, cells: Iterator[Cell], remaining: Callable[[], int]) -> None:
        self._cells = cells
        self._remaining = remaining

    def __next__(self) -> Cell:
        """Return the next cell."""
        return next(self._cells)

    def remaining(self) -> int:
        """Return how many cells there may still be."""
        return max(0, self._remaining())


class Executor(Protocol):
    """How cells are run: entry-point group ``mlflow_l3d.executors``.

    The entry point names a class; it is called with keyword arguments ``job`` and ``workers`` (a positive number, or
    None for the executor's own choice).

    Contract: `run` yields exactly one outcome per cell, in any order, as soon as it is known, and takes from `cells`
    only what it is about to start, so that memory does not grow with the number of cells. A cell that raises, or that
    ends its worker, gives an outcome with `error`; the others continue. Closing the iterator, or an exception thrown
    into it (Ctrl-C), stops the workers at once and leaves none behind.

    A session may be given up to its ``cells_at_once`` cells in one call; to share them out
    among workers, as many more as all workers take at once may be taken from `cells`. :class:`CountedCells` say how
    many they still have, so they need no such look ahead. Their number also bounds the next calls, so an iterator that
    may end early, because of a stopping rule, can keep them small.
    """

    one_worker: ClassVar[bool] = False
    """Whether it runs one cell at a time, so that ``workers`` has no effect; a class without it counts as parallel."""
    stops_cells: ClassVar[bool] = False
    """Whether it ends cells that take longer than ``cell_timeout`` of the job, as every one does that uses
    :func:`mlflow_l3d.execution.dispatch.dispatch`; else a number of seconds is refused."""

    options: ClassVar[Mapping[str, Hyperparameter]] = {}
    """What ``executor_options`` may hold: a class that has some is called with a keyword argument ``options``, too, the
    given ones, if there are any."""
    gpu_options: ClassVar[Collection[str]] = ()
    """Which of them ask for GPUs: refused if a model of ours is to run on the CPU."""
    on_worker: ClassVar[Callable[..., Any] | None] = None
    """If workers are on other machines, a function: ``on_worker(function, *arguments, options=...)`` returns what
    `function` gives on one of them. An accelerator is then looked for there, not here, and each worker compares what it
    finds with `numerics` of the job (:func:`mlflow_l3d.execution.worker.refusal`)."""

    def __init__(self, *, job: Job, workers: int | None) -> None:
        """Remember the job; nothing starts before :meth:`run`."""

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome, None, None]:
        """Run the cells."""
