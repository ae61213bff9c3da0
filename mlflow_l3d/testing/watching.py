"""Checks of a session that can be watched; see :class:`mlflow_l3d.approaches.base.Session`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlflow_l3d.execution.base import Job
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.testing.cells import run_cells
from mlflow_l3d.testing.outcomes import differences, require


def check_watch(session: Any, cell: Cell, job: Job, unwatched: Outcome) -> None:
    """Check that a watcher is told of every epoch, changes nothing, and can end the training; it trains two cells.

    A session without the attribute ``watch`` is passed over. So is its ending where there was one epoch or none, since
    nothing is left to be cut short.

    Parameters
    ----------
    session
        Prepared for `job`.
    cell, unwatched
        A cell, and what it gave with nobody looking on.
    job
        What is trained.

    Raises
    ------
    AssertionError
        With one sentence that names what is wrong.
    """
    if not hasattr(session, "watch"):
        return
    require(session.watch is None, "watch of a session must be None until someone sets it")
    told: list[int] = []

    def look_on(key: str, epoch: int, scores: Mapping[str, float], *, end: bool = False) -> bool:
        require(key == cell.key, f"watch is told of the key {key!r}, which no cell of the call has")
        require(epoch == len(told), f"watch is told of epoch {epoch} where epoch {len(told)} comes next")
        named = bool(scores) and all(name.startswith("validation_") for name in scores)
        require(named, f"watch must be given scores named validation_..., it is given {sorted(scores)}")
        finite = all(isinstance(score, float) and math.isfinite(score) for score in scores.values())
        require(finite, f"watch must be given finite numbers, it is given {dict(scores)}")
        told.append(epoch)
        return end

    try:
        session.watch = look_on
        watched = run_cells(session, [cell], job)[cell.key]
        found = differences(unwatched, watched)
        require(not found, f"a cell gives other {', '.join(found)} where it is watched")
        if len(told) > 1:
            told.clear()
            session.watch = lambda key, epoch, scores: look_on(key, epoch, scores, end=True)
            run_cells(session, [cell], job)
            require(len(told) == 1, f"training goes on where watch asks for its end, to epoch {len(told) - 1}")
    finally:
        session.watch = None
