"""A user's own data: a .csv, .tsv, .parquet or .jsonl file, a folder with a data set, or a name on the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlflow_l3d.errors import ParameterError, imported
from mlflow_l3d.paths import unique_pairs
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.columns import task_from_table
from mlflow_l3d.tasks.kinds import USUAL, Reading
from mlflow_l3d.tasks.table import Table, encoding_of, numbers_of_parts, read_texts

SUFFIXES: Final = (".csv", ".tsv", ".parquet", ".jsonl")
"""Endings, in any letter case, of the files that we read."""
PREFIX: Final = "hf:"
"""Beginning of a name on the hub of the Hugging Face library `datasets`."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,999}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?")


def load_file(path: Path, reading: Reading = USUAL) -> Task:
    """Return the task in a file; it has the name of the file, without the folder.

    Parameters
    ----------
    path
        CSV and TSV have a header, and double quotes around fields that need them; JSONL has one object per line. UTF-8,
        or UTF-16 with its mark. The header of a CSV shows its separator: a comma, else a semicolon, a tab or
        a bar.
    reading
        Which columns to read, and how.

    Raises
    ------
    ParameterError
        If there is no such file, it cannot be read, or a column has a wrong value; rows are counted from 1.
    """
    if not path.is_file():
        where = "there is no such file in the working directory, which with `mlflow run` is the project's folder"
        raise ParameterError("task", path, where, "Give a path from there, or a whole one.")
    try:
        table = _READERS[path.suffix.lower()](path)
        if not table.names or not len(table.column(table.names[0])):
            raise ParameterError("task", path.name, "the file holds no examples")
        return task_from_table(path.name, table, reading)
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        allowed = f"the file is not UTF-8 (byte 0x{error.object[error.start]:02x} in line {line} or later)"
        fix = "Save it as UTF-8: in Excel as 'CSV UTF-8', or by iconv -f ENCODING -t UTF-8, with its encoding."
        raise ParameterError("task", path.name, allowed, fix) from None
    except OSError as error:
        raise ParameterError("task", path.name, f"the file cannot be read ({error.strerror or 'damaged'})") from error


def _read_csv(path: Path) -> Table:
    try:
        frame = read_texts(path)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise ParameterError("task", path.name, f"the file {error}") from None
    return Table(tuple(map(str, frame.columns)), lambda name: _typed(frame[name].tolist()))


def is_data(value: object) -> bool:
    """Return whether a value is a data frame of pandas, or a data set of the library `datasets`."""
    return type(value).__name__ in ("DataFrame", "Dataset", "DatasetDict") and hasattr(value, "shape")


def load_data(data: Any, name: str, reading: Reading = USUAL) -> Task:
    """Return the task in a data frame or data set; errors as of :func:`load_file`."""
    if not hasattr(data, "notna"):
        return task_from_table(name, _table(data, reading), reading)
    whole = data.astype(object).where(data.notna(), None).set_axis(map(str, data.columns), axis="columns")
    return task_from_table(name, Table(tuple(whole.columns), lambda column: whole[column].tolist()), reading)


def _typed(values: Sequence[Any]) -> list[Any]:
    """Return the values of a text-only column as whole numbers or floats if all of them are; None for missing."""
    cells = [value if isinstance(value, str) and value else None for value in values]
    present = [cell for cell in cells if cell is not None]
    are_whole = bool(present) and all(map(_WHOLE.fullmatch, present))
    # "01" and "1" are different names, so whole numbers that are not written plainly stay text.
    are_decimal = any("." in cell or "e" in cell.lower() for cell in present) and all(map(_DECIMAL.fullmatch, present))
    convert = int if are_whole else float if are_decimal else str
    return [None if cell is None else convert(cell) for cell in cells]


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

    with path.open(encoding=encoding_of(path)) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=unique_pairs)
            except (ValueError, RecursionError) as error:
                why = getattr(error, "msg", str(error))
                raise ParameterError("task", path.name, f"line {number} is not JSON ({why})") from None
            if not isinstance(row, dict):
                raise ParameterError("task", path.name, f"line {number} must be a JSON object")
            rows.append(row)
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    return Table(names, lambda name: [row.get(name) for row in rows])


_READERS = {".csv": _read_csv, ".tsv": _read_csv, ".parquet": _read_parquet, ".jsonl": _read_jsonl}


def load_folder(folder: Path, reading: Reading = USUAL) -> Task:
    """Return the task in a folder that ``save_to_disk`` wrote, or one of data files that ``load_dataset`` reads.

    Raises
    ------
    ParameterError
        If the folder holds no data set, or a column has a wrong value.
    L3DError
        If `datasets` is not installed.
    """
    datasets = imported("datasets", f"task={folder.name}:", "models")
    saved = any((folder / marker).is_file() for marker in ("state.json", "dataset_dict.json"))
    try:
        loaded = datasets.load_from_disk(str(folder)) if saved else datasets.load_dataset(str(folder.resolve()))
    except Exception as error:
        allowed = f"the folder holds no data set that can be read ({type(error).__name__})"
        raise ParameterError("task", folder.name, allowed, "Give a .csv, .tsv, .parquet or .jsonl file.") from error
    return task_from_table(folder.resolve().name, _table(loaded, reading), reading)


def load_from_hub(name: str, reading: Reading = USUAL) -> Task:
    """Return the task behind ``hf:NAME`` or ``hf:NAME/CONFIG``: every split that has labels, one after another.

    NAME may itself be ``OWNER/SET``. Two parts are first read so, and then, if the hub has no such set, as a
    set without an owner and its configuration. Code that comes with a data set is never run.

    Raises
    ------
    ParameterError
        If the hub has no such data set or configuration, or cannot be reached, or a column has a wrong value.
    L3DError
        If `datasets` is not installed.
    """
    datasets = imported("datasets", f"task={name}:", "models")
    parts = name.removeprefix(PREFIX).split("/")
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise ParameterError("task", name, "must be hf:NAME, hf:NAME/CONFIG or hf:OWNER/NAME/CONFIG")
    owned = ("/".join(parts[:2]), *parts[2:])
    for candidate in (owned, tuple(parts)) if len(parts) == 2 else (owned,):
        try:
            loaded = datasets.load_dataset(*candidate)
        except datasets.exceptions.DatasetNotFoundError:
            continue
        except Exception as error:
            # The library's own errors name the configurations; the texts of others may hold paths.
            is_its_own = type(error) in (ValueError, RuntimeError)
            why = str(error) if is_its_own else getattr(error, "strerror", None) or type(error).__name__
            allowed = f"the data set cannot be loaded from the hub ({why})"
            raise ParameterError("task", name, allowed, "Check the network, or give a file or a folder.") from error
        return task_from_table(name, _table(loaded, reading), reading)
    raise ParameterError("task", name, "the hub has no such data set, or it is not public", "Log in if you own it.")


def _table(loaded: Any, reading: Reading) -> Table:
    """Return the splits that have labels as one table."""
    splits: Mapping[str, Any] = loaded if isinstance(loaded, Mapping) else {"all": loaded}
    label_column = reading.label_column
    labelled = [split for split, data in splits.items() if _has_labels(data, label_column)]
    kept = [splits[split] for split in labelled or splits]
    left_out = sorted(set(splits) - set(labelled)) if labelled else []
    parts = None
    if reading.predefined_split and len(splits) > 1:
        parts = np.repeat(numbers_of_parts(labelled or splits, "split"), list(map(len, kept)))
    names = tuple(name for name in kept[0].column_names if all(name in data.column_names for data in kept))
    feature = kept[0].features.get(label_column)
    # Of tags, which are lists of classes, the names belong to the members.
    class_names = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
    label_names = dict(enumerate(class_names)) if class_names else None
    notes = tuple(f"split {split} has no labels and is left out" for split in left_out)

    def column(name: str) -> list[Any]:
        values = [value for data in kept for value in data[name]]
        # In this library a class label of -1 means a hidden label.
        hidden = class_names is not None and name == label_column
        return [None if hidden and value == -1 else value for value in values]

    return Table(names, column, label_names, parts, ids_are_mine=False, notes=notes)


def _has_labels(data: Any, label_column: str) -> bool:
    values = data[label_column] if label_column in data.column_names else ()
    return any(value is not None and value != -1 for value in values)
