"""How a run ends where something goes wrong: the parent that we opened, or before it the run that `mlflow run` made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mlflow_l3d.tracking.connection import connect, error_line
from mlflow_l3d.tracking.parent import mark_failed
from mlflow_l3d.tracking.recorder import Recorder

_logger = logging.getLogger("mlflow_l3d")

L = TypeVar("L", bound=Recorder[Any])
"""A ledger."""


@dataclass
class UnderWay(Generic[L]):
    """What is being carried out; `ledger` is to be set as soon as the parent is open."""

    ledger: L | None = None


@contextmanager
def carried_out(work: UnderWay[L], project_run: str | None, how_far: Callable[[L], str]) -> Iterator[None]:
    """Leave a true state where the block raises: the parent fails or is interrupted, else the run `project_run` fails.

    Parameters
    ----------
    work
        Where the block puts its ledger.
    project_run
        The run that `mlflow run` made, if there is one.
    how_far
        Ledger -> what was done when the user interrupted it.
    """
    try:
        yield
    except KeyboardInterrupt:
        if work.ledger is not None:
            work.ledger.interrupt(f"Interrupted {how_far(work.ledger)}. The same command continues where it stopped.")
        raise
    except Exception as error:
        if work.ledger is not None:
            work.ledger.fail(error_line(error))
        elif project_run is not None:
            fail_project_run(project_run, error_line(error))
        raise


@contextmanager
def failing(project_run: str | None) -> Iterator[None]:
    """Mark the run `project_run` as failed, with the line that says why, where the block raises; None is no run."""
    try:
        yield
    except Exception as error:
        if project_run is not None:
            fail_project_run(project_run, error_line(error))
        raise


def fail_project_run(run_id: str, line: str) -> None:
    """Mark the run that `mlflow run` made as failed; the error itself is the caller's to show."""
    try:
        mark_failed(connect(), run_id, line)
    except Exception as error:  # noqa: BLE001 - the first error matters more
        _logger.error("The run could not be marked as failed: %s", error_line(error))
