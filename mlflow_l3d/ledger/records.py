"""The record of one cell, as it lies in the spool and as it is written to MLflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mlflow_l3d.ledger.connection import public_path, public_uri
from mlflow_l3d.plan.cells import Cell, Outcome

_PATH = re.compile(r'File "([^"]+)"')


@dataclass(frozen=True, slots=True)
class CellRecord:
    """What is known of one cell beside its predictions; JSON types only.

    Attributes
    ----------
    phase, factor, row, column, index, configurations, seeds, key, name
        As in :class:`mlflow_l3d.plan.cells.Cell`.
    metrics, curves, error, traceback
        As in :class:`mlflow_l3d.plan.cells.Outcome`; `metrics` holds ``duration_seconds``, too.
    end_time
        Milliseconds since 1970 (UTC).
    """

    phase: str
    factor: str | None
    row: int | None
    column: int | None
    index: int | None
    configurations: Mapping[str, int]
    seeds: Mapping[str, int]
    key: str
    name: str
    end_time: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    error: str | None = None
    traceback: str | None = None

    @classmethod
    def of(cls, cell: Cell, outcome: Outcome, end_time: int) -> CellRecord:
        """Join a cell and its outcome."""
        metrics = {
            **{name: float(value) for name, value in outcome.metrics.items()},
            "duration_seconds": float(outcome.duration_seconds),
        }
        return replace(
            cls.known(cell, metrics, end_time),
            curves={name: [float(value) for value in values] for name, values in outcome.curves.items()},
            error=None if outcome.error is None else public_path(public_uri(outcome.error)),
            traceback=None if outcome.traceback is None else without_private_paths(outcome.traceback),
        )

    @classmethod
    def known(cls, cell: Cell, metrics: Mapping[str, float], end_time: int) -> CellRecord:
        """Make the record of a finished cell from its metrics."""
        return cls(
            phase=cell.phase,
            factor=cell.factor,
            row=cell.row,
            column=cell.column,
            index=cell.index,
            configurations=dict(cell.configurations),
            seeds=dict(cell.seeds),
            key=cell.key,
            name=cell.name,
            end_time=end_time,
            metrics=metrics,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        return asdict(self)


def without_private_paths(traceback: str) -> str:
    """Shorten file names to what follows the last ``site-packages``, or else to their last three parts.

    In what else is said, the home folder becomes ``~``, and users and passwords of addresses are left out.
    """

    def shorten(match: re.Match[str]) -> str:
        path = match[1].replace("\\", "/")
        _, marker, tail = path.rpartition("/site-packages/")
        return f'File "{tail if marker else "/".join(path.split("/")[-3:])}"'

    return public_path(public_uri(_PATH.sub(shorten, traceback)))
