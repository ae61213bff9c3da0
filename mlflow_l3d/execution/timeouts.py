"""How long a call may be silent before its worker is taken to hang."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Final

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.joint import job_of

MEDIANS: Final = 20
"""``auto``: a cell may take so many times the median of the finished cells of its job."""
FLOOR_SECONDS: Final = 600.0
"""``auto``: no call is given up before that; the session of a point of a sweep is prepared inside a call."""
FIRST_SECONDS: Final = 86_400.0
"""``auto``: as long as no cell of its job is finished nobody knows what is long, and a day is."""
_REMEMBERED: Final = 99
"""Cells of a job, the last ones, whose median counts."""


class Limits:
    """The limits of the calls of one job: those of ``cell_timeout``.

    Parameters
    ----------
    job
        Its ``cell_timeout``: seconds a cell, infinite for no limit, None for ``auto``.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._seconds: dict[int, deque[float]] = {}

    def finished(self, cell: Cell, seconds: float) -> None:
        """Note that a cell took so long."""
        if self._job.cell_timeout is None:
            self._seconds.setdefault(id(job_of(cell, self._job)), deque(maxlen=_REMEMBERED)).append(seconds)

    def exceeded(self, cells: Iterable[Cell], silent: float) -> float:
        """Return the limit, in seconds, of a call that has these cells left; 0 if `silent` seconds are within it."""
        timeout = self._job.cell_timeout
        if silent <= (FLOOR_SECONDS if timeout is None else timeout):
            return 0.0
        limit = self._auto(cells) if timeout is None else timeout * sum(1 for _ in cells)
        return limit if silent > limit else 0.0

    def _auto(self, cells: Iterable[Cell]) -> float:
        counts: dict[int, int] = {}
        for cell in cells:
            job = id(job_of(cell, self._job))
            counts[job] = counts.get(job, 0) + 1
        return math.fsum(
            max(FLOOR_SECONDS, MEDIANS * median(self._seconds[job]) * count) if job in self._seconds else FIRST_SECONDS
            for job, count in counts.items()
        )
