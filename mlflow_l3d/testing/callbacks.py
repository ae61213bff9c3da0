"""Checks of a session that reports its epochs; see :class:`mlflow_l3d.approaches.base.Session`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.execution.base import Job
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.testing.cells import run_cells
from mlflow_l3d.testing.outcomes import differences, require


def check_callbacks(session: Session, cell: Cell, job: Job, silent: Outcome) -> None:
    """Check that a callback hears of every epoch, changes nothing, and can end the training; it trains two cells.

    A session that does not say ``reports_epochs`` is passed over. So is its ending where there was one epoch or none,
    since nothing is left to be cut short.

    Parameters
    ----------
    session
        Prepared for `job`.
    cell, silent
        A cell, and what it gave without a callback.
    job
        What is trained.

    Raises
    ------
    AssertionError
        With one sentence that names what is wrong.
    """
    if not session.reports_epochs:
        return
    require(session.on_epoch_end is None, "on_epoch_end of a session must be None until someone sets it")
    told: list[int] = []

    def listen(key: str, epoch: int, scores: Mapping[str, float], *, end: bool = False) -> bool:
        require(key == cell.key, f"on_epoch_end is called with the key {key!r}, which no cell of the call has")
        require(epoch == len(told), f"on_epoch_end is called with epoch {epoch} where epoch {len(told)} comes next")
        named = bool(scores) and all(name.startswith("validation_") for name in scores)
        require(named, f"on_epoch_end must be given scores named validation_..., it is given {sorted(scores)}")
        finite = all(isinstance(score, float) and math.isfinite(score) for score in scores.values())
        require(finite, f"on_epoch_end must be given finite numbers, it is given {dict(scores)}")
        told.append(epoch)
        return end

    try:
        session.on_epoch_end = listen
        heard = run_cells(session, [cell], job)[cell.key]
        found = differences(silent, heard)
        require(not found, f"a cell gives other {', '.join(found)} where on_epoch_end is set")
        if len(told) > 1:
            told.clear()
            session.on_epoch_end = lambda key, epoch, scores: listen(key, epoch, scores, end=True)
            run_cells(session, [cell], job)
            require(len(told) == 1, f"training goes on where on_epoch_end asks for its end, to epoch {len(told) - 1}")
    finally:
        session.on_epoch_end = None
