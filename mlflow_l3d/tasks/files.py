"""A user's own file: .csv, .tsv, .parquet or .jsonl."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.columns import task_from_table
from mlflow_l3d.tasks.kinds import USUAL, Reading
from mlflow_l3d.tasks.table import Table

SUFFIXES: Final = (".csv", ".tsv", ".parquet", ".jsonl")
"""Endings (in any case) by which a file is known."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?")


def load_file(path: Path, reading: Reading = USUAL) -> Task:
    """Return the task in a file; its name is that of the file, without the folder.

    Parameters
    ----------
    path
        CSV and TSV have a header, UTF-8, and double quotes around fields that need them; JSONL has one object a line.
    reading
        What is to be read of it.

    Raises
    ------
    ParameterError
        If there is no such file, it cannot be read, or a column holds what it should not; rows are counted from 1.
    """
    if not path.is_file():
        fix = "Give a path from the current folder, or a whole one."
        raise ParameterError("task", path, "there is no such file", fix)
    try:
        table = _READERS[path.suffix.lower()](path)
        if not table.names or not len(table.column(table.names[0])):
            raise ParameterError("task", path.name, "the file holds no examples")
        return task_from_table(path.name, table, reading)
    except UnicodeDecodeError:
        raise ParameterError("task", path.name, "the file is not UTF-8", "Save it as UTF-8.") from None
    except OSError as error:
        raise ParameterError("task", path.name, f"the file cannot be read ({error.strerror or 'damaged'})") from error


def _read_csv(path: Path) -> Table:
    import pandas as pd

    # Everything is read as text: the words "NA" and "null" are texts and labels like any other, and "007" is an id.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                path,
                sep="\t" if path.suffix.lower() == ".tsv" else ",",
                dtype=str,
                keep_default_na=False,
                index_col=False,
                encoding="utf-8-sig",
            )
    except pd.errors.EmptyDataError:
        raise ParameterError("task", path.name, "the file is empty") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        found = re.search(r"Expected \d+ fields in line \d+, saw \d+|EOF inside string starting at row \d+", str(error))
        why = found.group() if found else "rows have more fields than the header"
        fix = "Put double quotes around fields that need them."
        raise ParameterError("task", path.name, f"the file is not well-formed ({why})", fix) from None
    return Table(tuple(map(str, frame.columns)), lambda name: _typed(frame[name].tolist()))


def _typed(values: Sequence[Any]) -> list[Any]:
    """Return the values of a text-only column as whole numbers or floats where all of them are; None for missing."""
    cells = [value if isinstance(value, str) and value else None for value in values]
    present = [cell for cell in cells if cell is not None]
    if present and all(map(_WHOLE.fullmatch, present)):
        return [None if cell is None else int(cell) for cell in cells]
    # "01" and "1" are different names, so whole numbers that are not written plainly stay text.
    if any("." in cell or "e" in cell.lower() for cell in present) and all(map(_DECIMAL.fullmatch, present)):
        return [None if cell is None else float(cell) for cell in cells]
    return cells


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

    try:
        file = pq.ParquetFile(path)
        names = tuple(file.schema_arrow.names)
    except pa.ArrowInvalid:
        raise ParameterError("task", path.name, "the file is not Parquet, or is damaged") from None

    def column(name: str) -> list[Any]:
        try:
            values: list[Any] = file.read(columns=[name]).column(0).to_pylist()
        except (pa.ArrowInvalid, OSError):
            raise ParameterError("task", path.name, f"the column {name} is damaged") from None
        return values

    return Table(names, column)


def _read_jsonl(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ParameterError("task", path.name, f"line {number} is not JSON ({error.msg})") from None
            if not isinstance(row, dict):
                raise ParameterError("task", path.name, f"line {number} must be a JSON object")
            rows.append(row)
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    return Table(names, lambda name: [row.get(name) for row in rows])


_READERS = {".csv": _read_csv, ".tsv": _read_csv, ".parquet": _read_parquet, ".jsonl": _read_jsonl}
