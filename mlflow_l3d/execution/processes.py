"""Cells in worker processes that stay warm: the model is loaded once a worker."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.dispatch import dispatch
from mlflow_l3d.execution.environment import default_workers, places
from mlflow_l3d.execution.pool import ProcessPool


class ProcessExecutor:
    """Runs cells in processes of this machine.

    A worker that dies costs nothing but its current cell, see :func:`mlflow_l3d.execution.dispatch.dispatch`. Workers
    are fresh interpreters which do not run the script that starts them; functions and classes that it defines come with
    the job.

    Parameters
    ----------
    job
        What the cells share; it is pickled, by value what the user's script or notebook defines.
    workers
        Number of processes, at most one a cell; None is one a core on the CPU, else one a GPU.

    Raises
    ------
    ParameterError
        If `workers` is not positive.
    """

    stops_cells = True

    def __init__(self, *, job: Job, workers: int | None = None) -> None:
        check_workers(workers)
        self._job = job
        self._workers = workers

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome, None, None]:
        """Run the cells, and yield outcomes as they come in.

        Raises
        ------
        L3DError
            If the approach cannot be prepared or does not survive pickling.
        """
        return dispatch(self._open, cells, self._job)

    def _open(self) -> ProcessPool:
        device = self._job.device
        return ProcessPool(self._job, self._workers or default_workers(device), places(device))


def check_workers(workers: object) -> None:
    """Raise a ParameterError unless `workers` is a positive number or None."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ParameterError("workers", workers, "must be a positive number, or auto")


def complete(options: Mapping[str, Hyperparameter], given: Mapping[str, Value] | None) -> dict[str, Value]:
    """Return all options of an executor: the given ones, the others at their defaults."""
    return {**{name: option.default for name, option in options.items()}, **(given or {})}
