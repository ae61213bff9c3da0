"""From the columns of a file or data set to a task: which columns hold what, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.tasks.base import IntArray, Task
from mlflow_l3d.tasks.identity import make_task, shorten

AUTO_TEXT: Final = (
    ("text",),
    ("premise", "choice1", "choice2", "question"),
    ("paragraph", "question", "answer"),
    ("word", "sentence1", "sentence2"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("question", "passage"),
    ("question", "sentence"),
    ("sentence",),
    ("content",),
)
"""Text columns that are found without being named; the first group that is complete wins."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a file or data set, read when they are needed.

    Attributes
    ----------
    names
        Columns.
    column
        Name -> n values: text, whole number, float, bool, or None where the value is missing.
    label_names
        Label -> name of the class, where the data set itself says so.
    ids_are_mine
        Whether the user wrote the ids, so that a repeated ``example_id`` is the user's error.
    notes
        One-line remarks on what was read.
    """

    names: tuple[str, ...]
    column: Callable[[str], Sequence[Any]]
    label_names: Mapping[int, str] | None = None
    ids_are_mine: bool = True
    notes: tuple[str, ...] = ()


def task_from_table(name: str, table: Table, text_column: str, label_column: str) -> Task:
    """Return the task that the columns of `table` hold.

    Parameters
    ----------
    name
        Name of the task.
    table
        The data.
    text_column
        ``auto``, the name of a column, or several separated by commas.
    label_column
        Column of whole numbers, bools or class names. Classes are numbered in sorted order; the names of numbered
        ones stand in the column ``<label_column>_name`` where there is one.

    Raises
    ------
    ParameterError
        If a column is missing or holds what it should not.
    """
    if label_column not in table.names:
        raise _no_column("label_column", label_column, table.names)
    text_columns = find_text_columns(table.names, text_column, label_column)
    labels, class_names = encode_labels(table, label_column)
    texts = [check_texts(table.column(column), column) for column in text_columns]
    ids, notes = find_ids(table, name)
    remarks = [f"{name}: {note}" for note in (*table.notes, *notes)]
    return make_task(name, texts, labels, class_names, ids, remarks)


def find_text_columns(names: Sequence[str], text_column: str, label_column: str) -> tuple[str, ...]:
    """Return the text columns that `text_column` names, or finds where it is ``auto``."""
    if text_column == "auto":
        for group in AUTO_TEXT:
            if all(name in names and name != label_column for name in group):
                return group
        found = ", ".join(shorten(name) for name in names)
        raise ParameterError(
            "text_column", "auto", f"no column has a name that is known; there are {found}", "Name it."
        )
    if text_column in names:
        wanted: tuple[str, ...] = (text_column,)
    else:
        wanted = tuple(part.strip() for part in text_column.split(","))
    for name in wanted:
        if name not in names:
            raise _no_column("text_column", name, names)
    if len(set(wanted)) < len(wanted) or label_column in wanted:
        raise ParameterError("text_column", text_column, "must name different columns, and not the label column")
    return wanted


def check_texts(values: Sequence[Any], column: str) -> tuple[str, ...]:
    """Return the texts; raise where one is missing, blank or no text."""
    empty = [
        row for row, value in enumerate(values, 1) if _missing(value) or (isinstance(value, str) and not value.strip())
    ]
    if empty:
        allowed = f"{len(empty)} of {len(values)} texts are empty or missing, the first in row {empty[0]} of the data"
        raise ParameterError("text_column", column, allowed, "Fill or remove these rows.")
    other = next((value for value in values if not isinstance(value, str)), None)
    if other is not None:
        raise ParameterError("text_column", column, f"must hold texts, not values of type {type(other).__name__}")
    return tuple(values)


def encode_labels(table: Table, column: str) -> tuple[IntArray, tuple[str, ...]]:
    """Return labels in ``[0, C)`` (shape (n,), int64) and the names of the classes in that order."""
    values = table.column(column)
    missing = [row for row, value in enumerate(values, 1) if _missing(value)]
    if missing:
        allowed = f"{len(missing)} of {len(values)} labels are missing, the first in row {missing[0]} of the data"
        raise ParameterError("label_column", column, allowed, "Fill or remove these rows.")
    kinds = {type(value) for value in values}
    if float in kinds:
        allowed = "must hold whole numbers or class names, not decimal numbers: scores (regression) have no classes"
        raise ParameterError("label_column", column, allowed, "If they are class numbers, store them as integers.")
    if kinds not in ({int}, {bool}, {str}):
        found = ", ".join(sorted(kind.__name__ for kind in kinds)) or "nothing"
        raise ParameterError("label_column", column, f"must hold either whole numbers or class names, not {found}")
    present = sorted(set(values))
    number = {value: index for index, value in enumerate(present)}
    labels = np.fromiter((number[value] for value in values), dtype=np.int64, count=len(values))
    names = [str(value) for value in present]
    _check_classes(column, names, np.bincount(labels, minlength=len(names)))
    if kinds != {str}:
        names = _named(table, column, present, labels) or names
    return labels, tuple(names)


def find_ids(table: Table, task: str) -> tuple[npt.NDArray[Any] | None, tuple[str, ...]]:
    """Return the ids from ``example_id`` or ``id`` and remarks on them; None where rows are to be numbered."""
    name = next((column for column in ("example_id", "id") if column in table.names), None)
    if name is None:
        return None, ()
    values = table.column(name)
    ids = _as_ids(values)
    if ids is not None and len(np.unique(ids)) == len(ids):
        return ids, ()
    if name == "example_id" and table.ids_are_mine:
        seen: dict[Any, int] = {}
        repeated = next((row for row, value in enumerate(values, 1) if seen.setdefault(value, row) != row), None)
        where = f"; row {repeated} of the data repeats an earlier one" if repeated else ""
        allowed = f"the column example_id must hold unique ids, all whole numbers or all texts{where}"
        raise ParameterError("task", task, allowed, "Mend the column, or remove it to have rows numbered.")
    return None, (f"the column {name} does not identify examples, so their rows are numbered instead",)


def _named(table: Table, column: str, present: Sequence[int], labels: IntArray) -> list[str]:
    """Return the names of numbered classes, from the data set or its column of names; empty where there are none."""
    if table.label_names is not None and set(present) <= set(table.label_names):
        return [table.label_names[label] for label in present]
    name_column = f"{column}_name"
    if name_column not in table.names:
        return []
    pairs = {*zip(labels.tolist(), table.column(name_column), strict=True)}
    names = {label: str(name) for label, name in pairs if not _missing(name) and str(name).strip()}
    if not len(pairs) == len(names) == len(set(names.values())) == len(present):
        allowed = f"the column {name_column} must hold exactly one name for each number in {column}"
        raise ParameterError("label_column", column, allowed, f"Mend or rename the column {name_column}.")
    return [names[label] for label in range(len(present))]


def _check_classes(column: str, names: Sequence[str], counts: IntArray) -> None:
    if len(names) < 2:
        allowed = f"every example has the label {shorten(names[0])!r}, and at least 2 classes are needed"
        raise ParameterError("label_column", column, allowed)
    if counts.min() < 2:
        small = int(counts.argmin())
        allowed = f"class {shorten(names[small])!r} has 1 example, and every class needs at least 2"
        others = int((counts < 2).sum()) - 1
        more = f" (so have {others} other classes)" if others else ""
        raise ParameterError("label_column", column, allowed + more, "Add examples, or remove the class.")


def _as_ids(values: Sequence[Any]) -> npt.NDArray[Any] | None:
    kinds = {type(value) for value in values}
    if kinds == {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            return np.array([str(value) for value in values])
    return np.array(values, dtype=np.str_) if kinds == {str} else None


def _missing(value: object) -> bool:
    return value is None or value == "" or value != value


def _no_column(parameter: str, name: str, names: Sequence[str]) -> ParameterError:
    return unknown_name(parameter, name, [shorten(column) for column in names], "one of the columns")
