"""How sessions begin and end, in this process or in a worker: that of one job, or those of several in one run."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

import numpy as np

from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.failures import StudyEndedError, check_device, failed, one_line
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.numerics import reproducible
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import L3DError, logger
from mlflow_l3d.execution.base import Job
from mlflow_l3d.privacy import public_text
from mlflow_l3d.tasks.base import Task

MOST_OPEN: Final = 32
"""Sessions that a process has open at once."""
FREE_SHARE: Final = 0.25
"""Share of the memory that stays free for the next session, and for other processes."""


class NoFurtherCellError(L3DError):
    """A session says that no further cell can be run, by whomever."""


@contextmanager
def session_of(job: Job) -> Iterator[Session]:
    """Prepare the session of `job`, and close it in the end.

    Raises
    ------
    L3DError
        If it cannot be prepared: the approach's own error if it is one, else one line that says what was raised,
        with the traceback as a note. Also if the session says that no further cell can be run.
    LostDeviceError
        If the accelerator takes no more work from this process.
    """
    with reproducible(job.device, deterministic=job.deterministic):
        session = prepared(job)
        try:
            yield session
        except StudyEndedError as error:
            raise NoFurtherCellError(str(error)) from error
        finally:
            close_session(job, session)


def close_session(job: Job, session: Session) -> None:
    """Close a session; what it raises is said and goes no further."""
    try:
        session.close()
    except Exception:  # noqa: BLE001
        logger.warning("approach %s could not close its session", job.approach.name, exc_info=True)


def prepared(job: Job) -> Session:
    """Return the session of `job`; errors as :func:`session_of`."""
    try:
        task = _read_only(job.task) if job.approach.self_tested else job.task
        session = job.approach.prepare(task, job.hyperparameters, model=job.model, device=job.device, cache=job.cache)
    except L3DError:
        raise
    except (Exception, SystemExit) as error:
        check_device(error)
        wrapped = L3DError(f"approach {job.approach.name} could not be prepared: {one_line(error)}")
        wrapped.add_note(public_text("".join(traceback.format_exception(error))))
        raise wrapped from error
    if not isinstance(session, Session):
        raise L3DError(f"approach {job.approach.name}: prepare returned a {type(session).__name__}, not a Session")
    return session


def cells_at_once(session: Session, job: Job) -> int:
    """Return how many cells the session takes in one call.

    Raises
    ------
    L3DError
        If the attribute is not a positive whole number.
    """
    value = session.cells_at_once
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        wrong = f"cells_at_once of its session must be a positive number, it is {value!r}"
        raise L3DError(f"approach {job.approach.name}: {wrong}")
    return int(value)


def free_share(device: str) -> float:
    """Return the share of memory that is free: on this machine or on a GPU, whichever is less; 1 if unknown."""
    shares = [1.0]
    with suppress(OSError, KeyError, ValueError):  # no Linux
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kibibytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        shares.append(kibibytes["MemAvailable"] / kibibytes["MemTotal"])
    if device.startswith("cuda") and "torch" in sys.modules:
        import torch

        free, total = torch.cuda.mem_get_info(torch.device(device))
        shares.append(free / total)
    return min(shares)


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


def _read_only(task: Task) -> Task:
    """Return the task with arrays that nobody can write into, since they are of all cells."""
    arrays = {name: getattr(task, name) for name in ("labels", "example_ids", "parts", "features")}
    read_only = {name: array.view() for name, array in arrays.items() if array is not None}
    for array in read_only.values():
        array.flags.writeable = False
    return replace(task, **read_only)


def job_of(cell: Cell, job: Job) -> Job:
    """Return the job that a cell belongs to: `job` itself, unless its approach is joint."""
    joint = job.approach
    return joint.jobs[cell.job] if isinstance(joint, JointApproach) and isinstance(cell, JointCell) else job


class JointApproach(Approach):
    """An approach whose cells come from several jobs; see :class:`JointSession`.

    Parameters
    ----------
    jobs
        The jobs, by their numbers; all have the device of the first, which says all else of the whole.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.name = "+".join(dict.fromkeys(job.approach.name for job in jobs))

    def job(self) -> Job:
        """Return the jobs as one."""
        return replace(self.jobs[0], approach=self)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> JointSession:
        """Return a session; that of a job is prepared with its first cell."""
        del task, hyperparameters, model
        return JointSession([replace(job, device=device, cache=cache) for job in self.jobs])


class JointSession(Session):
    """Runs the cells of a call job by job, each in the session of its job.

    Sessions stay open, the latest used ones, as long as there is memory: before another one is prepared, those that
    were not used for the longest time are closed until there are fewer than :data:`MOST_OPEN` and at least
    :data:`FREE_SHARE` of the memory of the machine, and of the device, is free. The last one stays if it has the model
    of the new one, so that what the approaches lend each other is not loaded again.

    A job whose session cannot be prepared has outcomes that report it (:data:`NOT_PREPARED`), and is not tried again.

    Parameters
    ----------
    jobs
        The jobs, by their numbers.
    """

    # Cells that one call takes; how many it is given, the study says (`CountedCells`).
    cells_at_once = 1024

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._open: dict[int, Session] = {}
        self._refused: dict[int, L3DError] = {}

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Run the cells; those of a job together, jobs in the order in which the call names them."""
        cells_of_job: dict[int, list[Cell]] = {}
        for cell in cells:
            cells_of_job.setdefault(cell.job if isinstance(cell, JointCell) else 0, []).append(cell)
        for number, its_cells in cells_of_job.items():
            session = self.session(number)
            if session is None:
                error = self._refused[number]
                yield from (replace(failed(cell.key, error), error=f"{NOT_PREPARED}{error}") for cell in its_cells)
                continue
            most = cells_at_once(session, self._jobs[number])
            for start in range(0, len(its_cells), most):
                yield from session.run(its_cells[start : start + most])

    def close(self) -> None:
        """Close the sessions of all jobs."""
        while self._open:
            self._close_oldest()

    def session(self, number: int) -> Session | None:
        """Return the session of a job, the same object while it is open; None if it cannot be prepared."""
        if number not in self._open and number not in self._refused:
            self._make_room(self._jobs[number])
            try:
                self._open[number] = prepared(self._jobs[number])
            except L3DError as error:
                self._refused[number] = error
        if number in self._refused:
            return None
        self._open[number] = self._open.pop(number)  # the latest used one comes last
        return self._open[number]

    def _make_room(self, job: Job) -> None:
        while self._open and (len(self._open) >= MOST_OPEN or free_share(job.device) < FREE_SHARE):
            oldest = self._jobs[next(iter(self._open))]
            if len(self._open) == 1 and (oldest.model, oldest.approach.name) == (job.model, job.approach.name):
                return
            self._close_oldest()

    def _close_oldest(self) -> None:
        number = next(iter(self._open))
        close_session(self._jobs[number], self._open.pop(number))
