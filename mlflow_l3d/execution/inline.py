"""Cells in this process, one call after the other: for tests, debugging, and sessions that take many cells at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from mlflow_l3d.approaches.failures import LostDeviceError
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import run_cells
from mlflow_l3d.execution.sessions import cells_at_once, session_of
from mlflow_l3d.execution.workers import Queue, share


class InlineExecutor:
    """Runs cells in this process; a cell that ends the process ends everything.

    Parameters
    ----------
    job
        What the cells share.
    workers
        1 or None.

    Raises
    ------
    ParameterError
        If more workers are asked for: they would have no effect.
    """

    one_worker = True

    def __init__(self, *, job: Job, workers: int | None = None) -> None:
        if workers not in {None, 1}:
            allowed = "must be 1 or auto with executor=inline"
            raise ParameterError("workers", workers, allowed, "Use executor=processes.")
        self._job = job

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome, None, None]:
        """Run the cells in order; the session is prepared before the second is taken from an iterator.

        Raises
        ------
        L3DError
            If the accelerator takes no more work from this process.
        """
        queue = Queue(cells)
        if not queue.look_ahead(1):
            return
        try:
            with session_of(self._job) as session:
                most = cells_at_once(session, self._job)
                while call := queue.take(share(queue.expected(most), [], most)):
                    yield from run_cells(session, call.cells, self._job)
        except LostDeviceError as error:
            fix = "The same command computes the missing cells; executor=processes replaces such a process by itself."
            raise L3DError(f"device={self._job.device} is lost to this process ({error}). {fix}") from error
