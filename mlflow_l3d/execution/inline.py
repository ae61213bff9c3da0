"""Cells one after the other in this process: for tests, debugging, and approaches that batch by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import run_cell
from mlflow_l3d.execution.sessions import session_of
from mlflow_l3d.plan.cells import Cell, Outcome


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

    def __init__(self, *, job: Job, workers: int | None = None) -> None:
        if workers not in {None, 1}:
            raise ParameterError(
                "workers", workers, "must be 1 or auto with executor=inline", "Use executor=processes."
            )
        self._job = job

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Run the cells in order; the session is prepared before the first is taken from an iterator that has one."""
        waiting = iter(cells)
        first = next(waiting, None)
        if first is None:
            return
        with session_of(self._job) as session:
            yield run_cell(session, first, self._job)
            for cell in waiting:
                yield run_cell(session, cell, self._job)
