"""The record of one cell or trial, as it lies in the spool and as it is written to MLflow."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from mlflow_l3d.cells.cell import Cell, Logged, Outcome
from mlflow_l3d.paths import public_path
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import public_uri

_PATH = re.compile(r'File "([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What one child run is made of; JSON types only.

    Attributes
    ----------
    role
        ``l3d.role``.
    key
        ``l3d.cell_key``: the same key means the same result.
    name
        Name of the run.
    end_time
        Milliseconds since 1970 (UTC).
    metrics
        Numbers; ``duration_seconds`` among them.
    curves
        Name -> one value per step.
    params_logged, tags_logged, metrics_logged
        What its training logged itself, see :class:`mlflow_l3d.cells.cell.Logged`; artifacts lie next to the record.
    error, traceback
        One line, and the whole, if it failed.
    seeds
        Factor -> seed; of a trial those of every configuration, separated by commas.
    """

    role: ClassVar[str]
    key: str
    name: str
    end_time: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    params_logged: Mapping[str, str] = field(default_factory=dict)
    tags_logged: Mapping[str, str] = field(default_factory=dict)
    metrics_logged: Sequence[tuple[str, float, int, int]] = ()
    error: str | None = None
    traceback: str | None = None
    seeds: Mapping[str, int | str]

    def tags(self) -> dict[str, str]:
        """Return the tags that say what the run is."""
        return {names.ROLE: self.role, names.CELL_KEY: self.key}

    def params(self) -> dict[str, str]:
        """Return the parameters that not every sibling has."""
        return {f"seed.{name}": str(seed) for name, seed in self.seeds.items()}

    @property
    def status(self) -> str:
        """How the run ends: ``FINISHED``, ``FAILED`` or ``KILLED``."""
        return "FAILED" if self.error else "FINISHED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord(RunRecord):
    """The facts about one cell, without its predictions.

    Attributes
    ----------
    phase, factor, row, column, index, configurations
        As in :class:`mlflow_l3d.cells.cell.Cell`.
    """

    role: ClassVar[str] = "cell"
    phase: str
    factor: str | None
    row: int | None
    column: int | None
    index: int | None
    configurations: Mapping[str, int]

    @classmethod
    def of(cls, cell: Cell, outcome: Outcome) -> CellRecord:
        """Join a cell and its outcome."""
        return cls(**asdict(cell), name=cell.name, **measured(outcome))

    def to_row(self, run_id: str | None) -> dict[str, Any]:
        """Return its row in a table of cells, with the run or the place that holds it."""
        place = {name: getattr(self, name) for name in names.COORDINATES}
        about = {"run_id": run_id, "cell_key": self.key, "status": self.status}
        seeds = {f"seed.{factor}": seed for factor, seed in self.seeds.items()}
        return {**place, **about, **seeds, **({} if self.error else self.metrics)}

    def tags(self) -> dict[str, str]:
        """Return the tags that say which cell it is."""
        places = {tag: getattr(self, name) for name, tag in names.COORDINATES.items()}
        stated = {tag: str(value) for tag, value in places.items() if value is not None}
        return {**RunRecord.tags(self), **stated}

    def params(self) -> dict[str, str]:
        """Return the configuration and the seed of every factor."""
        factors = {f"factor.{name}": str(number) for name, number in self.configurations.items()}
        return factors | RunRecord.params(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord(RunRecord):
    """The facts about one trial of a search.

    Attributes
    ----------
    stage
        ``coarse``, ``fine``, or ``held_out``.
    number
        Number of the trial within its stage; of the configuration if it is held out.
    state
        ``complete``, ``pruned`` or ``failed``.
    hyperparameters
        All of them.
    """

    role: ClassVar[str] = "trial"
    stage: str
    number: int
    state: str
    hyperparameters: Mapping[str, Any]

    def tags(self) -> dict[str, str]:
        """Return the tags that say which trial it is."""
        trial = {names.LEVEL: self.stage, names.TRIAL: str(self.number), names.TRIAL_STATE: self.state}
        return {**RunRecord.tags(self), **trial}

    def params(self) -> dict[str, str]:
        """Return the hyperparameters and the seeds."""
        return {name: str(value) for name, value in self.hyperparameters.items()} | RunRecord.params(self)

    @property
    def status(self) -> str:
        """How the run ends; what was pruned did not reach its end."""
        return {"complete": "FINISHED", "pruned": "KILLED", "failed": "FAILED"}[self.state]


def measured(outcome: Outcome) -> dict[str, Any]:
    """Return what a record holds of an outcome, which came in right now."""
    logged = outcome.logged or Logged()
    seconds = {"duration_seconds": outcome.duration_seconds} if outcome.duration_seconds else {}
    return {
        "end_time": int(time.time() * 1000),
        "metrics": {**outcome.metrics, **seconds},
        "curves": dict(outcome.curves),
        "params_logged": dict(logged.params),
        "tags_logged": dict(logged.tags),
        "metrics_logged": list(logged.metrics),
        "error": None if outcome.error is None else public_path(public_uri(outcome.error)),
        "traceback": None if outcome.traceback is None else without_private_paths(outcome.traceback),
    }


def without_private_paths(traceback: str) -> str:
    """Shorten file names to what follows the last ``site-packages``, or else to their last three parts.

    In what else is said, the home folder becomes ``~``, and users and passwords of addresses are left out.
    """

    def shorten(match: re.Match[str]) -> str:
        path = match[1].replace("\\", "/")
        _, marker, tail = path.rpartition("/site-packages/")
        return f'File "{tail if marker else "/".join(path.split("/")[-3:])}"'

    return public_path(public_uri(_PATH.sub(shorten, traceback)))
