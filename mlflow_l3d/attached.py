"""The run that `mlflow run` made for us: where something goes wrong before we open it, it is marked as failed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow_l3d.ledger.connection import connect, error_line
from mlflow_l3d.ledger.parent import mark_failed

_logger = logging.getLogger("mlflow_l3d")


@contextmanager
def failing(attached: str | None) -> Iterator[None]:
    """Mark the run `attached` as failed, with the line that says why, where the block raises; None is no run."""
    try:
        yield
    except Exception as error:
        if attached is not None:
            fail_attached(attached, error_line(error))
        raise


def fail_attached(run_id: str, line: str) -> None:
    """Mark the run that `mlflow run` made as failed; the error itself is the caller's to show."""
    try:
        mark_failed(connect(), run_id, line)
    except Exception as error:  # noqa: BLE001 - the first error matters more
        _logger.error("The run could not be marked as failed: %s", error_line(error))
