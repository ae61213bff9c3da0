"""Tables of predictions: their columns, and which of their rows a score is computed from."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.choice import class_column
from mlflow_l3d.analysis.cure.ensembles import RunPredictions
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.classification import METRICS
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import error_line

if TYPE_CHECKING:
    import pyarrow as pa

Form: TypeAlias = Literal["classes", "numbers", "texts"]
_logger = logging.getLogger("mlflow_l3d")
_ANSWERS: Final = ("example_id", "label", "prediction")
_ROWS: Final = 1 << 16


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
        first, more = ", ".join(lost[:3]), ", ..." if len(lost) > 3 else ""
        text = "%d of %d finished cells have no %s (%s%s), and no part in consistency. Delete them to train them again."
        _logger.warning(text, len(lost), len(present), names.PREDICTIONS, first, more)


def with_whole_averages(
    run_id: str, document: Mapping[str, Any], cells: pd.DataFrame, answers: pd.DataFrame | Mapping[str, Any] | None
) -> pd.DataFrame:
    """Return cells whose macro averages are over all classes: version 0.1.0 left out those without a test example.

    `document` describes the parent; `answers` has `label`, `prediction`, and `cell_key` or the cell's row, `run`. Later
    studies, files and studies of chosen classes are unchanged, and any if a finished cell has no predictions (None).
    """
    classes = len((document.get("task") or {}).get("classes") or ())
    is_later = "greater_is_better" in document or "imported_from" in document
    if is_later or not classes or (document.get("hyperparameters") or {}).get("classes", "all") != "all":
        return cells
    averages = {each.name: each.of_classes for each in METRICS if each.of_classes and each.name in cells}
    if not averages:
        return cells
    if answers is None:
        fix = "Not every cell has predictions: if there are such classes, give the command of the study again."
        text = "Run %s: version 0.1.0 left classes without a test example out of %s. %s"
        _logger.warning(text, run_id, ", ".join(averages), fix)
        return cells
    rows = dict(zip(cells["cell_key"], cells.index, strict=True))
    table = pd.DataFrame(answers)
    table = table[~table[names.REFERENCE]] if names.REFERENCE in table else table
    computed = {
        at: {
            name: of_classes(each["label"].to_numpy(), each["prediction"].to_numpy(), classes)
            for name, of_classes in averages.items()
        }
        for at, each in table.groupby(table["run"] if "run" in table else table["cell_key"].map(rows))
    }
    whole = pd.DataFrame.from_dict(computed, orient="index")
    recorded = cells.loc[whole.index]
    changed = [name for name in averages if not np.allclose(whole[name], recorded[name], equal_nan=True)]
    if not changed:
        return cells
    text = f"Run {run_id}: version 0.1.0 left classes without a test example out of {', '.join(changed)}"
    finished = int(cells["status"].eq("FINISHED").sum())
    if lost := finished - len(whole):
        why = f"{lost} of {finished} finished cells have no predictions"
        _logger.warning("%s. They stay so, because %s. Give the command of the study again.", text, why)
        return cells
    _logger.warning("%s, which now count all classes.", text)
    return cells.assign(**{name: whole[name].reindex(cells.index) for name in changed})


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


def run_predictions(cell: Any, table: pa.Table, form: Form, validation: str = "") -> RunPredictions | None:
    """Return what a run predicts from its table; None if it lacks a number.

    Parameters
    ----------
    cell
        Has its column and its metrics.
    table
        Of predictions, perhaps with class scores and the reference set.
    form
        What labels and predictions are.
    validation
        The metric that chooses the best of several runs, if `cell` has it.
    """
    labels, predictions = (np.asarray(table[name].to_numpy()) for name in ("label", "prediction"))
    if form == "classes":
        labels = class_column(labels, "label")
        predictions = class_column(predictions, "prediction")
    elif form == "numbers":
        labels, predictions = (np.asarray(column, dtype=np.float64) for column in (labels, predictions))
        if not (np.isfinite(labels).all() and np.isfinite(predictions).all()):
            return None
    of_classes = [name for name in table.column_names if name.startswith(names.CLASS_SCORE)]
    column = getattr(cell, "column", None)
    return RunPredictions(
        -1 if pd.isna(column) else int(column),
        table["example_id"].to_numpy(),
        labels,
        predictions,
        ~table[names.REFERENCE].to_numpy() if has_reference(table.schema) else np.ones(len(table), dtype=bool),
        np.column_stack([table[name].to_numpy() for name in of_classes]) if of_classes else None,
        float(getattr(cell, validation, np.nan)),
    )
