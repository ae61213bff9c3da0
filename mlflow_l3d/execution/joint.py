"""Several jobs in one run of an executor: cells say which job they belong to, and each job has its own session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.sessions import OpenSessions, cells_at_once
from mlflow_l3d.tasks.base import Task

NOT_PREPARED: Final = "This point cannot be prepared: "
"""How the outcome of a cell begins whose session is not there."""


@dataclass(frozen=True, slots=True)
class JointCell(Cell):
    """A cell, and the number of the job that it belongs to."""

    job: int = 0

    @classmethod
    def of(cls, cell: Cell, job: int) -> JointCell:
        """Return the cell as one of a job."""
        return cls(**{each.name: getattr(cell, each.name) for each in fields(Cell)}, job=job)


@dataclass(frozen=True)
class JointJob(Job):
    """Several jobs as one; what it says itself is what the first of them says.

    Attributes
    ----------
    jobs
        The jobs; their device is that of the whole.
    """

    jobs: Sequence[Job] = ()

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> JointJob:
        """Return one job of several."""
        shared = {each.name: getattr(jobs[0], each.name) for each in fields(Job)}
        return cls(**{**shared, "approach": JointApproach(jobs)}, jobs=jobs)


def job_of(cell: Cell, job: Job) -> Job:
    """Return the job that a cell belongs to: `job` itself, unless that is joint."""
    return job.jobs[cell.job] if isinstance(job, JointJob) and isinstance(cell, JointCell) else job


def single_jobs(job: Job) -> list[Job]:
    """Return the jobs that a job is made of: itself, unless it is joint."""
    return [replace(each, device=job.device) for each in job.jobs] if isinstance(job, JointJob) else [job]


class JointApproach(Approach):
    """An approach whose cells are those of several jobs; see :class:`JointSession`.

    Parameters
    ----------
    jobs
        The jobs, by their numbers.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.name = "+".join(dict.fromkeys(job.approach.name for job in jobs))

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> JointSession:
        """Return a session; that of a job is prepared with its first cell."""
        del task, hyperparameters, model
        return JointSession([replace(job, device=device, cache=cache) for job in self.jobs])


class JointSession(Session):
    """Runs the cells of a call job by job, each in the session of its job.

    A job whose session cannot be prepared has outcomes that say so (:data:`NOT_PREPARED`), and is not tried again.

    Parameters
    ----------
    jobs
        The jobs, by their numbers.
    """

    # Cells that one call takes; how many it is given, the study says (`CountedCells`).
    cells_at_once = 1024

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._open = OpenSessions()
        self._refused: dict[int, L3DError] = {}

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Run the cells; those of a job together, jobs in the order in which the call names them."""
        cells_of_job: dict[int, list[Cell]] = {}
        for cell in cells:
            cells_of_job.setdefault(cell.job if isinstance(cell, JointCell) else 0, []).append(cell)
        for number, its_cells in cells_of_job.items():
            session = self._session(number)
            if session is None:
                error = self._refused[number]
                yield from (replace(failed(cell.key, error), error=f"{NOT_PREPARED}{error}") for cell in its_cells)
                continue
            most = cells_at_once(session, self._jobs[number])
            for start in range(0, len(its_cells), most):
                yield from session.run(its_cells[start : start + most])

    def close(self) -> None:
        """Close the sessions of all jobs."""
        self._open.close()

    def _session(self, number: int) -> Session | None:
        """Return the session of a job; None if it cannot be prepared."""
        if number not in self._refused:
            try:
                return self._open.of(self._jobs[number])
            except L3DError as error:
                self._refused[number] = error
        return None
