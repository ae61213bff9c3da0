"""What a cell or trial leaves, as it lies in the spool and is written to MLflow: its record and its predictions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mlflow_l3d.cells.cell import Cell, Logged, Outcome
from mlflow_l3d.errors import L3DError, logger
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import error_line, public_path, public_uri

if TYPE_CHECKING:
    import pyarrow as pa
_ANSWERS: Final = ("example_id", "label", "prediction")
_ROWS: Final = 1 << 16
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


class UnreadableError(L3DError, ValueError):
    """A file that a run holds is damaged."""


@contextmanager
def undamaged(name: str, fix: str = "give the command of the study again, and use its new run") -> Iterator[None]:
    """Raise an UnreadableError if a file of a run cannot be read; `name` is the file for people."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        why = error_line(error).rstrip(".")
        raise UnreadableError(f"{name} is damaged ({why}). Restore it, or {fix}.") from error


def read_rows(path: Path, name: str = names.PREDICTIONS, *, scores: bool = False, reference: bool = False) -> pa.Table:
    """Return the predictions in a file; `scores` and `reference` as for `reader.read_predictions`.

    Raises
    ------
    L3DError
        If it is damaged, or lacks a column; `name` is the file for people.
    """
    import pyarrow.parquet as pq

    again = "delete that run: the command of the study trains it again"
    with undamaged(name, again), pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        for column in _ANSWERS:
            if column not in schema.names:
                raise L3DError(f"{name} has no column {column}; example_id, label and prediction are needed.")
        of_classes = [each for each in schema.names if scores and each.startswith(names.CLASS_SCORE)]
        of_reference = [names.REFERENCE] if has_reference(schema) else []
        table = file.read([*_ANSWERS, *of_reference, *of_classes], use_threads=False)
    return table if reference else test_rows(table)


def warn_of_missing(present: Mapping[str, bool]) -> None:
    """Warn of finished runs whose predictions were removed: cell -> whether there are some. None at all is usual."""
    lost = [cell for cell, is_there in present.items() if not is_there]
    if 0 < len(lost) < len(present):
        first, more = ", ".join(lost[:3]), ", ..." * (len(lost) > 3)
        text = "%d of %d finished cells have no %s (%s%s), and no part in consistency. Delete them to train them again."
        logger.warning(text, len(lost), len(present), names.PREDICTIONS, first, more)


def has_reference(schema: pa.Schema) -> bool:
    """Return whether a table of predictions marks examples of a reference set; texts of that name are a stranger's."""
    return names.REFERENCE in schema.names and str(schema.field(names.REFERENCE).type) == "bool"


def test_rows(table: pa.Table) -> pa.Table:
    """Return the rows of a table of predictions that are test examples, not examples of a reference set."""
    import pyarrow.compute as pc

    if not has_reference(table.schema):
        return table
    return table.filter(pc.invert(table[names.REFERENCE])).drop_columns([names.REFERENCE])


def rows_by_cell(path: Path, keys: Iterable[str], at_once: float = _ROWS) -> Iterator[tuple[int, pa.Table]]:
    """Yield places of keys and predictions of their cells from the one table of a parent.

    About `at_once` rows are read at a time, so that a cell may come in two parts.
    """
    import pyarrow.parquet as pq

    place = {key: number for number, key in enumerate(keys)}
    with pq.ParquetFile(path, read_dictionary=["cell_key"]) as file:
        if not {"cell_key", *_ANSWERS} <= set(file.schema_arrow.names):
            return
        columns = [*_ANSWERS, names.REFERENCE] if has_reference(file.schema_arrow) else [*_ANSWERS]
        for groups in _together([file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)], at_once):
            of_rows = file.read_row_groups(groups, ["cell_key"], use_threads=False)["cell_key"].to_pandas()
            rows_of = of_rows.groupby(of_rows, observed=True).indices
            if named := [key for key in rows_of if key in place]:
                answers = file.read_row_groups(groups, columns, use_threads=False)
                yield from ((place[key], test_rows(answers.take(rows_of[key]))) for key in named)


def _together(rows: Sequence[int], at_once: float) -> Iterator[list[int]]:
    """Yield the numbers of row groups that are read in one call."""
    begun, held = 0, 0
    for at, count in enumerate(rows):
        held += count
        if held >= at_once or at == len(rows) - 1:
            yield list(range(begun, at + 1))
            begun, held = at + 1, 0
