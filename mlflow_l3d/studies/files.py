"""Files of a finished study: JSON, tables that MLflow's UI shows, and the first screen as a picture."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.report.draw import WIDTH, as_file, sheet
from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.report.text import marked
from mlflow_l3d.tracking import names

_HEIGHT: Final = re.compile('<svg [^>]*height="([0-9.]+)"')
_COLOURS: Final = {
    **dict.fromkeys(("", "minor"), ("#0067a3", "#a5cfe9")),
    "dominates": ("#b34700", "#f0b285"),
    "undecided": ("#59626d", "#cfd5dc"),
}


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


_ROWS_AT_ONCE = 500


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def save_report(folder: Path, name: str, report: Document) -> None:
    """Write the page of a result under a name, and its first screen as a picture, which MLflow's UI shows."""
    report.save(folder, name)
    (folder / names.SUMMARY).write_text(picture(report), encoding="utf-8")


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


def write_tables(folder: Path, frames: Mapping[str, pd.DataFrame | None]) -> list[str]:
    """Write the frames that there are by their names, see :func:`write_table`; return these names."""
    found = {name: frame for name, frame in frames.items() if frame is not None}
    for name, frame in found.items():
        write_table(folder / name, frame)
    return list(found)
