"""How a session begins and ends, in this process or in a worker."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.failures import one_line
from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job

_logger = logging.getLogger(__name__)


@contextmanager
def session_of(job: Job) -> Iterator[Session]:
    """Prepare the session of `job`, and close it in the end.

    Raises
    ------
    L3DError
        If it cannot be prepared: the approach's own error where it is one, else one line that says what was raised,
        with the traceback as a note.
    """
    session = prepared(job)
    try:
        yield session
    finally:
        try:
            session.close()
        except Exception:
            _logger.warning("approach %s could not close its session", job.approach.name, exc_info=True)


def prepared(job: Job) -> Session:
    """Return the session of `job`; errors as :func:`session_of`."""
    try:
        found = job.approach.prepare(job.task, job.hyperparameters, model=job.model, device=job.device, cache=job.cache)
    except L3DError:
        raise
    except (Exception, SystemExit) as error:
        wrapped = L3DError(f"approach {job.approach.name} could not be prepared: {one_line(error)}")
        wrapped.add_note("".join(traceback.format_exception(error)))
        raise wrapped from error
    if not isinstance(found, Session):
        raise L3DError(f"approach {job.approach.name}: prepare returned a {type(found).__name__}, not a Session")
    return found


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
