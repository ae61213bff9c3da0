"""Columns of a file or data set before they are a task: roles, missing values, and the part of each row."""

from __future__ import annotations

import codecs
import json
import re
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.tasks.base import Task, no_predefined_split
from mlflow_l3d.tasks.identity import shorten
from mlflow_l3d.tasks.settings import PARTS, IntArray

if TYPE_CHECKING:
    import pandas as pd

Column: TypeAlias = "pd.Series[Any]"
"""Values of a column, of type object; the index counts rows of the whole data from 1."""
SPLIT_COLUMN: Final = "split"
"""Column that says which part a row belongs to: train, validation or test."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a file or data set, read when they are needed.

    Attributes
    ----------
    names
        Columns.
    read
        Name -> values: text, whole number, float, bool, or None for a missing value.
    label_names
        Label -> name of the class, if the data set itself names its classes.
    parts
        Shape (n,): the published part of each row, if the data set has parts; else the column ``split`` names it.
    ids_are_mine
        Whether the user wrote the ids, so that a repeated ``example_id`` is the user's error.
    notes
        One-line remarks for the user.
    rows
        Shape (n,): places of the rows in the data, from 0; None if no row was left out.
    """

    names: tuple[str, ...]
    read: Callable[[str], Sequence[Any]]
    label_names: Mapping[int, str] | None = None
    parts: IntArray | None = None
    ids_are_mine: bool = True
    notes: tuple[str, ...] = ()
    rows: IntArray | None = None

    def column(self, name: str) -> Column:
        """Return the n values of a column; the index counts rows of the whole data from 1."""
        import pandas as pd

        values = self.read(name)
        column = pd.Series(values, range(1, len(values) + 1), dtype=object)
        return column if self.rows is None else column.iloc[self.rows]

    def with_parts(self, name: str, label_column: str) -> Table:
        """Return a table that knows the published part of each of its rows.

        Test rows without a label (because the labels are not public) are left out, and a note reports this.

        Raises
        ------
        ParameterError
            If neither the data set nor a column names the part of each row, or a part is unknown.
        """
        parts = self.parts
        if parts is None:
            if SPLIT_COLUMN not in self.names:
                raise no_predefined_split(name, f"the data has no column {SPLIT_COLUMN}")
            parts = numbers_of_parts(self.column(SPLIT_COLUMN), SPLIT_COLUMN)
        hidden = (parts == 2) & self.column(label_column).map(missing).to_numpy(bool)
        table = replace(self, parts=parts)
        return table.select(~hidden, "without a label in the test part") if hidden.any() else table

    def select(self, keep: npt.NDArray[np.bool_], what: str) -> Table:
        """Return the table with the rows to keep, shape (n,), and with a note on how many rows were left out."""
        rows = np.arange(len(keep)) if self.rows is None else self.rows
        notes = (*self.notes, f"left out {(count := int((~keep).sum())):,} row{'s' if count != 1 else ''} {what}")
        return replace(self, rows=rows[keep], notes=notes, parts=None if self.parts is None else self.parts[keep])

    def without_gaps(self, columns: Sequence[str], most: float = 0.05) -> Table:
        """Return a table without the rows that lack a text or label.

        If more than a share `most` of the rows, or all, lack something, they stay, and lead to the error of a column.

        Raises
        ------
        ParameterError
            If they would be the errors of several columns: it names all.
        """
        import pandas as pd

        gaps = pd.DataFrame({name: self.column(name).map(blank).astype(bool) for name in columns})
        rows_without = {name: gap.index[gap].tolist() for name, gap in gaps.items() if gap.any()}
        listed = "; ".join(
            f"{len(rows)} without {str(name).strip()} (row {str(rows[:20])[1:-1]}{', ...' if len(rows) > 20 else ''})"
            for name, rows in rows_without.items()
        )
        empty = gaps.any(axis=1).to_numpy()
        if 0 < empty.sum() <= most * len(empty) and not empty.all():
            return self.select(~empty, f"with gaps, counted from 1: {listed}")
        if len(rows_without) > 1:
            allowed = f"rows, counted from 1, have gaps: {listed}"
            raise ParameterError("task", "data", allowed, "Fill or remove these rows.")
        return self


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


_PART_NAMES: Final = (("train", "training"), ("validation", "valid", "val", "dev", "development"), ("test", "testing"))
_PART_OF: Final = {name: part for part, names in enumerate(_PART_NAMES) for name in names}
"""Name of a part in data sets -> position in `PARTS`."""


def numbers_of_parts(names: Iterable[object], column: str) -> IntArray:
    """Return the position in `PARTS` of each name, shape (n,).

    Raises
    ------
    ParameterError
        For the first unknown name; rows are counted from 1.
    """
    values = list(names)
    positions = {value: _PART_OF.get(str(value).strip().casefold(), -1) for value in set(values)}
    numbers = np.fromiter((positions[value] for value in values), dtype=np.int64, count=len(values))
    if len(numbers) and numbers.min() < 0:
        row = int(numbers.argmin())
        name = str(values[row])[:40]
        allowed = f"the column {column} has {name!r} in row {row + 1} of the data; known are {', '.join(PARTS)}"
        raise ParameterError(column, name, allowed, "Correct the column.")
    return numbers


def those(values: Column, wrong: Callable[[Any], bool]) -> Column:
    """Return the wrong ones of the values of a column."""
    return values[values.map(wrong).astype(bool)]


def wrong_row(parameter: str, column: str, wrong: Column, problem: str, fix: str = "") -> ParameterError:
    """Return the error about the first of some wrong values of a column."""
    allowed = f"row {wrong.index[0]} of the data has {shorten(wrong.iloc[0])!r}, and {problem}"
    return ParameterError(parameter, column, allowed, fix)


def spelled(name: str, names: Sequence[str]) -> str:
    """Return the column that a name means: this one, or the only one that differs in case and outer spaces alone."""
    alike = [each for each in names if each.strip().casefold() == name.strip().casefold()]
    return alike[0] if name not in names and len(alike) == 1 else name


def check_labels_there(values: Column, column: str) -> None:
    """Raise if a label is missing."""
    if len(gaps := those(values, missing)):
        allowed = f"{len(gaps)} of {len(values)} labels are missing, the first in row {gaps.index[0]} of the data"
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
    import pandas as pd

    texts = pd.Series([*zip(*task.texts, *task.choices, strict=True)])
    groups = pd.Series(task.labels).groupby(texts).agg(["size", "nunique"])
    shared = groups[groups["size"] > 1]
    two = int((shared["nunique"] > 1).sum())
    once = "1 text occurs" if len(shared) == 1 else f"{len(shared):,} texts occur"
    if len(shared):
        yield (
            f"{task.name}: {once} more than once, in {shared['size'].sum():,} of {len(task):,} rows"
            f"{f' ({two:,} of them with different labels)' if two else ''}: "
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
        raise L3DError(f"{path.name} cannot be read ({type(error).__name__}: {str(error)[:200]})") from None
    return {name: [None if missing(value) else value for value in values] for name, values in columns.items()}
