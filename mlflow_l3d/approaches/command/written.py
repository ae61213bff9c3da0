"""What a command wrote: predictions, metrics, or both."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.base import OF_CLASSES, OF_NUMBERS
from mlflow_l3d.metrics.forms import form_of
from mlflow_l3d.plan.cells import Logged

PREDICTIONS: Final = ("predictions.csv", "predictions.parquet", "predictions.jsonl")
METRICS: Final = "metrics.json"
COLUMNS: Final = ("example_id", "label", "prediction")
_SCORE: Final = "score_"


@dataclass(frozen=True)
class Written:
    """The files of one run of a command.

    Attributes
    ----------
    ids
        Shape (n,), int64 or str; None without predictions.
    labels, predictions
        Shape (n,), str: the names of classes; float64 where all are numbers and one of them is not whole; of a task
        without classes as :mod:`mlflow_l3d.metrics.forms` says.
    scores
        Name of a class -> shape (n,), float32: columns ``score_<class>``.
    metrics
        Of ``metrics.json``, or those that were logged.
    logged
        What a project logged.
    """

    ids: npt.NDArray[np.int64] | npt.NDArray[np.str_] | None = None
    labels: npt.NDArray[Any] | None = None
    predictions: npt.NDArray[Any] | None = None
    scores: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    logged: Logged | None = None

    @property
    def decimal(self) -> bool:
        """Whether predictions are numbers, not all of them whole, and so those of a regression."""
        return self.labels is not None and self.labels.dtype.kind == "f"

    def as_numbers(self) -> Written:
        """Return it with labels and predictions as numbers; raise a ValueError where one is none."""
        labels, predictions = (
            None if values is None else values.astype(float) for values in (self.labels, self.predictions)
        )
        return replace(self, labels=labels, predictions=predictions)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of classes that occur, numbers in their order; empty without predictions, and of a regression."""
        if self.labels is None or self.predictions is None or self.decimal:
            return ()
        found = {*self.labels.tolist(), *self.predictions.tolist(), *self.scores}
        return tuple(sorted(found, key=lambda name: (0, int(name), name) if _is_number(name) else (1, 0, name)))


def read(folder: Path, kind: str = "", said: str = "") -> Written:
    """Return what a command wrote to its folder.

    Parameters
    ----------
    folder
        Its folder.
    kind
        The kind of its task, where that is known beforehand.
    said
        The last line that it wrote to stderr, which may say why there is nothing.

    Raises
    ------
    L3DError
        If there is nothing, or it is not what docs/bring-your-own.md says.
    """
    metrics = _metrics(folder / METRICS) if (folder / METRICS).is_file() else {}
    if not metrics and not _files(folder):
        wrote = f"the command wrote neither {', '.join(PREDICTIONS)} nor {METRICS} to {{output}}"
        raise L3DError(f"{wrote}; it said: {said}" if said else wrote)
    return with_predictions(folder, metrics, kind)


def with_predictions(folder: Path, metrics: dict[str, float], kind: str = "") -> Written:
    """Return metrics, and the predictions of a folder where it has any, as :func:`read`."""
    files = _files(folder)
    if len(files) > 1:
        raise L3DError(f"there are {' and '.join(files)}: one of them is enough")
    return _predictions(folder / files[0], metrics, kind) if files else Written(metrics=metrics)


def _files(folder: Path) -> list[str]:
    return [name for name in PREDICTIONS if (folder / name).is_file()]


def _metrics(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise L3DError(f"{path.name} is not valid JSON ({error})") from None
    if not isinstance(found, dict) or not found:
        raise L3DError(f"{path.name} must map names to numbers")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise L3DError(f"{path.name}: {name} is {value!r}, not a finite number")
    return {name: float(value) for name, value in found.items()}


def _predictions(path: Path, metrics: dict[str, float], kind: str) -> Written:
    columns = _columns(path)
    if not columns:
        raise L3DError(f"{path.name} is empty")
    if missing := [name for name in COLUMNS if name not in columns]:
        raise L3DError(f"{path.name} lacks the column {missing[0]}; it has {', '.join(list(columns)[:10])}")
    ids = columns["example_id"]
    if not ids:
        raise L3DError(f"{path.name} has no row")
    of_texts = bool(kind) and kind not in (*OF_CLASSES, *OF_NUMBERS)
    for name in COLUMNS[:1] if of_texts else COLUMNS:
        if (row := next((row for row, value in enumerate(columns[name]) if _missing(value)), None)) is not None:
            raise L3DError(f"{path.name}: {name} is missing in row {row + 1}")
    whole = all(_is_id(str(value)) for value in ids)
    numbers = np.array([int(value) for value in ids], dtype=np.int64) if whole else np.array(list(map(str, ids)))
    twice, times = Counter(numbers.tolist()).most_common(1)[0]
    if times > 1:
        raise L3DError(f"{path.name}: example_id {twice} stands there twice")
    if of_texts:
        form = form_of(kind)
        try:
            given = form.labels(columns["label"]), form.predictions(columns["prediction"])
        except ValueError as error:
            raise L3DError(f"{path.name}: {error}") from None
        return Written(numbers, *given, metrics=metrics)
    scores = {}
    for name in (column for column in columns if column.startswith(_SCORE)):
        try:
            scores[name.removeprefix(_SCORE)] = np.array([float(value) for value in columns[name]], dtype=np.float32)
        except (TypeError, ValueError):
            raise L3DError(f"{path.name}: {name} must hold numbers") from None
        if np.isnan(scores[name.removeprefix(_SCORE)]).any():
            raise L3DError(f"{path.name}: {name} must hold numbers")
    labels, predictions = _decimal(columns) or (
        np.array([_class(value, name, path) for value in columns[name]]) for name in COLUMNS[1:]
    )
    return Written(numbers, labels, predictions, scores, metrics)


def _decimal(columns: dict[str, list[Any]]) -> list[npt.NDArray[np.float64]] | None:
    """Return labels and predictions where all are finite numbers, and one of them is not whole."""
    try:
        found = [np.array([float(value) for value in columns[name]]) for name in COLUMNS[1:]]
    except (TypeError, ValueError):
        return None
    known = all(np.isfinite(values).all() for values in found)
    return found if known and any((values % 1).any() for values in found) else None


def _columns(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a file; plain lists, since a data frame takes longer than most files of predictions."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path, partitioning=None)
            return {
                str(name): column.to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)
            }
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix == ".csv":
                header, *rows = [*csv.reader(file, strict=True)] or [[]]
                rows = [row for row in rows if row]
                return {name: list(column) for name, column in zip(header, _turned(rows, len(header)), strict=True)}
            records = [json.loads(line) for line in file if line.strip()]
        return {name: [record[name] for record in records] for name in records[0]} if records else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:  # pyarrow's are ValueErrors
        text = " ".join(str(error).split())[:200]
        raise L3DError(f"{path.name} cannot be read ({type(error).__name__}: {text})") from None


def _turned(rows: list[list[str]], columns: int) -> list[tuple[str, ...]]:
    if not rows:
        return [()] * columns
    if uneven := next((number for number, row in enumerate(rows, start=1) if len(row) != columns), None):
        raise ValueError(f"row {uneven} has {len(rows[uneven - 1])} values, the header has {columns}")
    return list(zip(*rows, strict=True))


def _missing(value: Any) -> bool:
    return value is None or value in ("", "nan", "NaN") or (isinstance(value, float) and math.isnan(value))


def _class(value: Any, column: str, path: Path) -> str:
    """Return the name of a class; a whole number is one, too, also where it is written as ``1.0``."""
    if not isinstance(value, float):
        text = str(value).strip()
        if "." not in text:
            return text
        try:
            value = float(text)
        except ValueError:
            return text
    if not value.is_integer():
        fix = "classes are texts or whole numbers, and of a regression every label and prediction is a number"
        raise L3DError(f"{path.name}: {column} holds {value:g}; {fix}")
    return str(int(value))


def _is_id(text: str) -> bool:
    """Return whether a text is a number of 64 bits as it is written: ``01`` and ``1`` are two ids."""
    return _is_number(text) and len(text) < 19 and str(int(text)) == text


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and name.isascii()
