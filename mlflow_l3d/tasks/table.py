"""Columns of a file or data set before they are a task: roles, missing values, and the part of each row."""

from __future__ import annotations

import codecs
import json
import re
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.tasks.identity import shorten
from mlflow_l3d.tasks.predefined_split import no_predefined_split, numbers_of_parts
from mlflow_l3d.tasks.settings import IntArray

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_l3d.tasks.base import Task

SPLIT_COLUMN: Final = "split"
"""Column that says which part a row belongs to: train, validation or test."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a file or data set, read when they are needed.

    Attributes
    ----------
    names
        Columns.
    column
        Name -> n values: text, whole number, float, bool, or None for a missing value.
    label_names
        Label -> name of the class, if the data set itself names its classes.
    parts
        Shape (n,): the published part of each row, if the data set has parts; else the column ``split`` names it.
    ids_are_mine
        Whether the user wrote the ids, so that a repeated ``example_id`` is the user's error.
    notes
        One-line remarks for the user.
    """

    names: tuple[str, ...]
    column: Callable[[str], Sequence[Any]]
    label_names: Mapping[int, str] | None = None
    parts: IntArray | None = None
    ids_are_mine: bool = True
    notes: tuple[str, ...] = ()


def encoding_of(path: Path) -> str:
    """Return UTF-16 if the file begins with its mark, else UTF-8, with or without a mark."""
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def read_texts(path: Path) -> pd.DataFrame:
    """Return the columns of a CSV file as texts; a field that a short row lacks is nan.

    The header shows the separator of fields: a comma, else a semicolon, a tab or a bar; in a .tsv file a tab.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not well-formed, with the end of a sentence about the file; a UnicodeDecodeError if it is not UTF-8.
    """
    import pandas as pd

    encoding = encoding_of(path)
    with path.open(encoding=encoding) as lines:
        header = lines.readline()
    sep = "\t" if path.suffix.lower() == ".tsv" else next((mark for mark in ",;\t|" if mark in header), ",")
    # Everything is read as text: the words "NA" and "null" are texts and labels like any other, and "007" is an id.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            form: dict[str, Any] = {"sep": sep, "dtype": str, "keep_default_na": False, "encoding": encoding}
            # pandas itself gives the second of two columns another name.
            names = pd.read_csv(path, header=None, nrows=1, **form).iloc[0]
            table: pd.DataFrame = pd.read_csv(path, index_col=False, **form)
    except pd.errors.EmptyDataError:
        raise ValueError("is empty") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        matched = re.search(
            r"Expected \d+ fields in line \d+, saw \d+|EOF inside string starting at row \d+", str(error)
        )
        why = matched.group() if matched else "rows have more fields than the header"
        raise ValueError(f"is not well-formed ({why}). Put double quotes around fields that need them.") from None
    if twice := [name for name in names[names.duplicated()] if name]:
        raise ValueError(f"names {shorten(twice[0])} twice. Give each column a name of its own.")
    return table


def with_parts(name: str, table: Table, label_column: str) -> Table:
    """Return a table that knows the published part of each of its rows.

    Test rows without a label (because the labels are not public) are left out, and a note reports this.

    Raises
    ------
    ParameterError
        If neither the data set nor a column names the part of each row, or a part is unknown.
    """
    parts = table.parts
    if parts is None:
        if SPLIT_COLUMN not in table.names:
            raise no_predefined_split(name, f"the data has no column {SPLIT_COLUMN}")
        parts = numbers_of_parts(table.column(SPLIT_COLUMN), SPLIT_COLUMN)
    labels = table.column(label_column)
    hidden = (parts == 2) & np.fromiter((missing(value) for value in labels), dtype=bool, count=len(labels))
    table = replace(table, parts=parts)
    return select(table, ~hidden, "test row(s) without a label") if hidden.any() else table


class SomeRows(list[Any]):
    """Values of rows with their numbers in the whole data, from 1; given as pairs."""

    def __init__(self, pairs: Sequence[tuple[int, Any]]) -> None:
        super().__init__(value for _, value in pairs)
        self.rows = [row for row, _ in pairs]


def numbered(values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Return values with the numbers of their rows in the whole data, from 1."""
    return zip(values.rows if isinstance(values, SomeRows) else count(1), values, strict=False)


def select(table: Table, keep: npt.NDArray[np.bool_], what: str) -> Table:
    """Return the table with the rows to keep, shape (n,), and with a note on how many rows were left out."""
    rows = np.flatnonzero(keep).tolist()

    def column(name: str) -> SomeRows:
        values = [*numbered(table.column(name))]
        return SomeRows([values[row] for row in rows])

    notes = (*table.notes, f"left out {int((~keep).sum())} {what}")
    return replace(table, column=column, notes=notes, parts=None if table.parts is None else table.parts[keep])


def without_gaps(table: Table, columns: Sequence[str], most: float = 0.05) -> tuple[Table, list[int]]:
    """Return a table without the rows that lack a text or label, and the rows that it keeps, from 0.

    If more than a share `most` of the rows, or all, lack something, they stay and lead to the error of their column.

    Raises
    ------
    ParameterError
        If they would be the errors of several columns: it names all.
    """
    numbers = np.array([row for row, _ in numbered(table.column(columns[0]))])
    gaps = {name: [row for row, value in numbered(table.column(name)) if blank(value)] for name in columns}
    empty, rows = np.isin(numbers, [row for each in gaps.values() for row in each]), np.arange(len(numbers))
    listed = "; ".join(
        f"{len(gap)} without {name.strip()} (row {str(gap[:20])[1:-1]}{', ...' * (len(gap) > 20)})"
        for name, gap in gaps.items()
        if gap
    )
    if 0 < empty.sum() <= most * len(rows) and not empty.all():
        return select(table, ~empty, f"row(s) with gaps, counted from 1: {listed}"), rows[~empty].tolist()
    if len([*filter(None, gaps.values())]) > 1:
        raise ParameterError("task", "data", f"rows, counted from 1, have gaps: {listed}", "Fill or remove these rows.")
    return table, rows.tolist()


def spelled(name: str, names: Sequence[str]) -> str:
    """Return the column that a name means: this one, or the only one that differs in case and outer spaces alone."""
    alike = [each for each in names if each.strip().casefold() == name.strip().casefold()]
    return alike[0] if name not in names and len(alike) == 1 else name


def check_labels_there(values: Sequence[Any], column: str) -> None:
    """Raise if a label is missing."""
    rows = [row for row, value in numbered(values) if missing(value)]
    if rows:
        allowed = f"{len(rows)} of {len(values)} labels are missing, the first in row {rows[0]} of the data"
        raise ParameterError("label_column", column, allowed, "Fill or remove these rows.")


def missing(value: object) -> bool:
    """Return whether a cell of a table is empty."""
    return value is None or value == "" or value != value


def blank(value: object) -> bool:
    """Return whether a cell of a table is empty, or a text of blanks."""
    return missing(value) or (isinstance(value, str) and not value.strip())


def no_column(parameter: str, name: str, names: Sequence[str], fix: str = "") -> ParameterError:
    """Return the error for a missing column, with a fix if there is a better one than its name."""
    error = unknown_name(parameter, name, [shorten(column) for column in names], "one of the columns")
    fix = fix or error.fix or f"Name it: --{parameter.replace('_', '-')} COLUMN (in Python {parameter}=...)."
    return ParameterError(parameter, error.value, error.allowed, fix)


def repeated_texts(task: Task, columns: Sequence[str]) -> Iterator[str]:
    """Yield a remark on texts that several examples share, with what removes them."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, text in enumerate(zip(*task.texts, *task.choices, strict=True)):
        rows.setdefault(text, []).append(row)
    shared = [places for places in rows.values() if len(places) > 1]
    two = sum(len(np.unique(task.labels[places])) > 1 for places in shared)
    once = "1 text occurs" if len(shared) == 1 else f"{len(shared):,} texts occur"
    if shared:
        yield (
            f"{task.name}: {once} more than once, in {sum(map(len, shared)):,} of {len(task):,} rows"
            f"{f' ({two:,} of them with different labels)' * bool(two)}: "
            "the same text may be trained on and tested on. "
            f"Keep one of each, in pandas: data = data.drop_duplicates({columns})"
        )


ROLES: Final = {
    "example_id": ("example_id", "id", "idx", "index", "row_id", "sample_id", "uid"),
    "label": ("label", "labels", "target", "targets", "y_true", "gold", "true", "truth", "ground_truth", "y", "actual"),
    "prediction": ("prediction", "predictions", "predicted", "pred", "preds", "y_pred", "output", "outputs", "yhat"),
}
"""Role of a column of predictions -> the names that programs give it, most likely first."""


def roles_of(names: Container[str]) -> dict[str, str]:
    """Return the roles that columns have: role -> the likeliest of their names."""
    likeliest = {role: next((name for name in each if name in names), "") for role, each in ROLES.items()}
    return {role: name for role, name in likeliest.items() if name}


def read_columns(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a .parquet or .jsonl file, or of any other file read as CSV; None for a missing value.

    Raises
    ------
    L3DError
        If it cannot be read.
    """
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path, partitioning=None)
            columns = {str(name): table.column(name).to_pylist() for name in table.column_names}
        elif path.suffix == ".jsonl":
            with path.open(encoding=encoding_of(path)) as lines:
                records = [json.loads(line) for line in lines if line.strip()]
            columns = {name: [record[name] for record in records] for name in records[0]} if records else {}
        else:
            columns = (
                {str(name): values.tolist() for name, values in read_texts(path).items()} if path.stat().st_size else {}
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # pyarrow's are ValueErrors
        text = " ".join(str(error).split())[:200]
        raise L3DError(f"{path.name} cannot be read ({type(error).__name__}: {text})") from None
    return {name: [None if missing(value) else value for value in values] for name, values in columns.items()}
