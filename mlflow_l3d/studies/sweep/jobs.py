"""Training of the points of a sweep: one job for any executor, whose cells are those of many jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.sessions import OpenSessions, cells_at_once
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.tasks.base import Task

NOT_PREPARED: Final = "This point cannot be prepared: "
"""How the outcome of a cell begins whose session is not there."""


@dataclass(frozen=True, slots=True)
class PointCell(Cell):
    """A cell, and the number of the job that it belongs to."""

    point: int = 0

    @classmethod
    def of(cls, cell: Cell, point: int) -> PointCell:
        """Return the cell as one of a point."""
        return cls(**{name: getattr(cell, name) for name in Cell.__dataclass_fields__}, point=point)


@dataclass(frozen=True)
class SweepJob(Job):
    """The jobs of all points as one.

    Attributes
    ----------
    jobs
        Those of the points; their device is that of the whole.
    """

    jobs: Sequence[Job] = field(default=())

    @classmethod
    def joined(cls, jobs: Sequence[Job]) -> SweepJob:
        """Return one job of several."""
        shared = {each.name: getattr(jobs[0], each.name) for each in fields(Job)}
        return cls(**{**shared, "approach": Points(jobs)}, jobs=jobs)

    def of(self, cell: Cell) -> Job:
        """Return the job of the point that a cell belongs to."""
        return self.jobs[cell.point] if isinstance(cell, PointCell) else self

    def parts(self) -> Sequence[Job]:
        """Return the jobs of the points."""
        return [replace(job, device=self.device) for job in self.jobs]


class Points(Approach):
    """An approach whose cells are those of several jobs; see :class:`PointsSession`.

    Parameters
    ----------
    jobs
        Those of the points.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.name = "+".join(dict.fromkeys(job.approach.name for job in jobs))
        self.version = "+".join(dict.fromkeys(job.approach.version for job in jobs))
        self.factors = tuple(dict.fromkeys(name for job in jobs for name in job.approach.factors))

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> PointsSession:
        """Return a session; that of a point is prepared with its first cell."""
        del task, hyperparameters, model
        return PointsSession([replace(job, device=device, cache=cache) for job in self.jobs])


class PointsSession(Session):
    """Runs the cells of a call point by point, each in the session of its point.

    A point whose session cannot be prepared has outcomes that say so (:data:`NOT_PREPARED`), and is not tried again.

    Parameters
    ----------
    jobs
        Those of the points.
    """

    # Cells that one call takes; how many it is given, the sweep says (its hint).
    cells_at_once = 1024

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._open = OpenSessions()
        self._refused: dict[int, L3DError] = {}

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Run the cells; those of a point together, points in the order in which the call names them."""
        points: dict[int, list[Cell]] = {}
        for cell in cells:
            points.setdefault(cell.point if isinstance(cell, PointCell) else 0, []).append(cell)
        for point, own in points.items():
            session = self._session(point)
            if session is None:
                error = self._refused[point]
                yield from (replace(failed(cell.key, error), error=f"{NOT_PREPARED}{error}") for cell in own)
                continue
            most = cells_at_once(session, self._jobs[point])
            for start in range(0, len(own), most):
                yield from session.run(own[start : start + most])

    def close(self) -> None:
        """Close the sessions of all points."""
        self._open.close()

    def _session(self, point: int) -> Session | None:
        """Return the session of a point; None where it cannot be prepared."""
        if point not in self._refused:
            try:
                return self._open.of(self._jobs[point])
            except L3DError as error:
                self._refused[point] = error
        return None
