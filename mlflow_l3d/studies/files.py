"""Files of a finished study: its result as JSON, tables that MLflow's UI shows, its page and its first screen."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named, typed_name
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.report.draw import WIDTH, as_file, sheet
from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import fetch_frame, known_document

LEFT_OUT: Final = {"file": ""}
"""Metadata of a field that is not written: its default is read. Another name is a Parquet file of the run."""
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_ROWS_AT_ONCE = 500
_HEIGHT: Final = re.compile('<svg [^>]*height="([0-9.]+)"')
_COLOURS: Final = {
    **dict.fromkeys(("", "minor"), ("#0067a3", "#a5cfe9")),
    "dominates": ("#b34700", "#f0b285"),
    "undecided": ("#59626d", "#cfd5dc"),
}


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def save_result(folder: Path, result: OnOneScreen, page: str = names.REPORT) -> None:
    """Write a result, which is read again by :func:`read_result`, and its report under the name of its page."""
    report = result.report()
    assert report is not None
    write_result(folder, result)
    save_report(folder, page, report)


def save_report(folder: Path, name: str, report: Document) -> None:
    """Write the page of a result under a name, and its first screen as a picture, which MLflow's UI shows."""
    report.save(folder, name)
    (folder / names.SUMMARY).write_text(picture(report), encoding="utf-8")


def write_result(folder: Path, result: OnOneScreen, name: str = names.RESULT) -> None:
    """Write a result among the files of its run."""
    content = {"schema": 1, "result": type(result).__name__, "content": _written_fields(result)}
    (folder / name).write_text(f"{json.dumps(content, ensure_ascii=False, allow_nan=False)}\n", encoding="utf-8")


def read_result(client: Client, run_id: str, *, files: bool = False, name: str = names.RESULT) -> Any:
    """Return the result that a run holds; None if it holds none, or one that this version does not read.

    Parameters
    ----------
    client, run_id
        The server, and the run.
    files
        Whether to read the fields that have a file of their own; they are None otherwise.
    name
        Of the file.
    """
    document = known_document(client, run_id, name)
    target = _result_classes().get(str(document.get("result")), "")
    if not target:
        return None
    module, _, kind = target.partition(":")
    try:
        return _Reader(client, run_id, files).record(getattr(import_module(module), kind), document["content"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


@cache
def _result_classes() -> dict[str, str]:
    """Return name -> ``module:name`` of the classes that are read: all that verbs return."""
    return {target.partition(":")[2]: target for verb in verbs().values() for target in verb.returns}


def json_types(value: Any) -> Any:
    """Return a value as JSON types, at any depth: a frame as its rows, null for missing or infinite numbers."""
    if value is None or type(value) in (str, int, bool):  # most are: what follows takes much longer
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, pd.DataFrame):
        value = value.astype(object).to_dict("records")
    if isinstance(value, Mapping):
        return {str(key): json_types(each) for key, each in value.items()}
    return [json_types(each) for each in value] if isinstance(value, list | tuple) else value


def write_json(path: Path, content: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Write content as :func:`json_types` returns it."""
    text = json.dumps(json_types(content), indent=indent, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame as an artifact in the form of MLflow's ``log_table``, which its UI shows as a table.

    A few rows at a time: as text a frame is many times as large.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"columns": {json.dumps(list(frame.columns))}, "data": [')
        for start in range(0, len(frame), _ROWS_AT_ONCE):
            rows = frame.iloc[start : start + _ROWS_AT_ONCE].astype(object).to_numpy().tolist()
            file.write((", " if start else "") + json.dumps(json_types(rows), allow_nan=False)[1:-1])
        file.write("]}")


def write_runs(folder: Path, cells: pd.DataFrame, predictions: pd.DataFrame | None) -> None:
    """Write the cells and the predictions of all runs, which other commands read."""
    cells.drop(columns=["artifact_uri", "experiment_id"], errors="ignore").to_parquet(folder / names.CELLS, index=False)
    if predictions is not None:
        predictions.to_parquet(folder / names.PREDICTIONS, index=False)


def write_tables(folder: Path, frames: Mapping[str, pd.DataFrame | None]) -> list[str]:
    """Write the frames that there are by their names, see :func:`write_table`; return these names."""
    found = {name: frame for name, frame in frames.items() if frame is not None}
    for name, frame in found.items():
        write_table(folder / name, frame)
    return list(found)


def _written(value: Any) -> Any:
    """Return a value as JSON types; a number that is not finite is its name."""
    if type(value) in _PLAIN:  # most are: what follows takes much longer
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, Metric):
        return typed_name(value)
    if isinstance(value, OnOneScreen) and (run_id := getattr(value, "run_id", "")):  # another run holds it
        return run_id
    if is_dataclass(value):
        return _written_fields(value)
    if isinstance(value, pd.DataFrame):
        rows = value.astype(object).where(value.notna(), None).to_dict("tight")
        return _written({**rows, "types": [str(kind) for kind in value.dtypes]})
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _written(each) for key, each in value.items()}
        return [[_written(key), _written(each)] for key, each in value.items()]
    if isinstance(value, np.ndarray | np.generic):
        return _written(value.tolist())
    if isinstance(value, list | tuple):
        return [each if type(each) in _PLAIN else _written(each) for each in value]
    return value


def _written_fields(record: Any) -> dict[str, Any]:
    return {each.name: _written(getattr(record, each.name)) for each in fields(record) if "file" not in each.metadata}


@dataclass(frozen=True)
class _Reader:
    """Reads the values of one run; see :func:`read_result`."""

    client: Client
    run_id: str
    files: bool

    def record(self, kind: type, content: Mapping[str, Any]) -> Any:
        """Return a record of a class; what lies in a file of its own is read from it."""
        hints = get_type_hints(kind)
        values = {name: self.value(hints[name], value) for name, value in content.items()}
        for each in fields(kind):
            if file := each.metadata.get("file"):
                values[each.name] = self._frame(file) if self.files else None
        return kind(**values)

    def _frame(self, file: str) -> pd.DataFrame | None:
        """Return a Parquet file of the run; None if there is none."""
        with temporary_folder() as folder:
            return fetch_frame(self.client, self.run_id, file, folder)

    def value(self, kind: Any, value: Any) -> Any:
        """Return the value of a type that :func:`_written` wrote."""
        if value is None or kind is Any:
            return value
        origin, kinds = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            kinds = tuple(each for each in kinds if each is not type(None))
            if len(kinds) > 1 and isinstance(value, Mapping):
                kinds = tuple(each for each in kinds if {part.name for part in fields(each)} == set(value))
            return self.value(kinds[0], value) if len(kinds) == 1 else value
        if kind is Metric:
            return named(value)
        if kind is float or origin in (np.ndarray, npt.NDArray):  # which of them, is up to numpy's version
            return float(value) if kind is float else np.array(value, dtype=np.float64)
        if kind is pd.DataFrame:
            frame = pd.DataFrame.from_dict(value, orient="tight")
            return frame.astype(dict(zip(frame.columns, value["types"], strict=True)))
        if origin in (list, tuple):
            kinds = kinds[:1] * len(value) if kinds[1:] in ((), (...,)) else kinds
            return origin(self.value(each, part) for each, part in zip(kinds, value, strict=True))
        if isinstance(kind, type) and issubclass(kind, tuple):
            hints = get_type_hints(kind).values()
            return kind(*(self.value(each, part) for each, part in zip(hints, value, strict=True)))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            pairs = value.items() if isinstance(value, Mapping) else value
            return {self.value(kinds[0], key): self.value(kinds[1], each) for key, each in pairs}
        if isinstance(value, str) and is_dataclass(kind):  # another run holds it
            return read_result(self.client, value, files=self.files)
        return self.record(kind, value) if is_dataclass(kind) else value  # type: ignore[arg-type]


def picture(document: Document) -> str:
    """Return headline, strip and table of a result as one SVG file that needs nothing else."""
    parts, bottom = [_text(20, 34, shorten(marked(document.headline), 90), "title")], 60
    drawn = document.drawing.html if document.drawing else Markup()
    if height := _HEIGHT.match(drawn):  # one that is more than an SVG is for pages alone
        parts.append(Markup('<svg x="20" y="{}" width="{}">{}</svg>').format(bottom, WIDTH - 40, drawn))
        bottom += round(float(height[1])) + 20
    if (table := document.table) is not None:
        places = _places(table)
        heads = zip(table.head, places, strict=True)
        parts += [_text(left, bottom + 14, marked(head).replace("\n", " "), "") for head, (left, _) in heads]
        bottom += 24
        for row, kind in [*zip(table.rows, table.kinds or [""] * len(table.rows), strict=True)][:20]:
            parts += _row(row, kind, places, bottom)
            bottom += 34
    return f"{as_file(sheet(bottom + 12, document.title, *parts))}\n"


def _places(table: Table) -> list[tuple[int, int]]:
    """Return left end and width of each column, by the lengths of texts; a bar is as wide as many letters."""
    columns = [*zip(map(marked, table.head), *table.rows, strict=True)]
    bars = [any(map(_is_bar, column[1:])) for column in columns]
    lengths = [
        45 // sum(bars) if is_bar else max(map(len, column)) for column, is_bar in zip(columns, bars, strict=True)
    ]
    ends = 20 + (WIDTH - 40) * np.cumsum([0, *lengths]) // max(1, sum(lengths))
    return [(int(left), int(right - left)) for left, right in pairwise(ends)]


def _row(row: Sequence[str], kind: str, places: Sequence[tuple[int, int]], top: int) -> list[Markup]:
    """Return the cells of a row: bars in the colour of its kind, and of others the text."""
    line, ground = _COLOURS.get(kind, _COLOURS["undecided"])
    bar = Markup('<svg x="{}" y="{}" width="{}" fill="{}" stroke="{}" stroke-width="0">{}</svg>')
    style = Markup("<style>.r{0} .bar{{fill:{1}}}.r{0} .interval{{stroke:{2}}}.r{0} .point{{fill:{2}}}</style>")
    cells = [
        bar.format(left, top, width - 20, ground, line, cell.html)
        if isinstance(cell, Drawn) and _is_bar(cell)
        else _text(left, top + 18, shorten(cell.replace("\n", " "), max(2, width // 6)), "" if at else "name")
        for at, (cell, (left, width)) in enumerate(zip(row, places, strict=True))
    ]
    return [style.format(top, ground, line), Markup('<g class="r{}">{}</g>').format(top, Markup("").join(cells))]


def _is_bar(cell: str) -> bool:
    return isinstance(cell, Drawn) and cell.html.startswith("<svg")


def _text(x: int, y: int, words: str, kind: str) -> Markup:
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(x, y, kind, words)
