"""The first screen as a picture of its own: MLflow's UI shows it, and a slide or a paper can hold it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from mlflow_l3d.report.draw import WIDTH, as_file, sheet
from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.report.text import marked

_HEIGHT: Final = re.compile('<svg [^>]*height="([0-9.]+)"')
_ROW: Final = 34
_BAR: Final = 310
_MOST: Final = 20
"""Rows that are shown."""
_COLOURS: Final = {
    "": ("#0067a3", "#a5cfe9"),
    "dominates": ("#b34700", "#f0b285"),
    "minor": ("#0067a3", "#a5cfe9"),
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
        for row, kind in [*zip(table.rows, table.kinds or [""] * len(table.rows), strict=True)][:_MOST]:
            parts += _row(row, kind, places, bottom)
            bottom += _ROW
    return f"{as_file(sheet(bottom + 12, document.title, *parts))}\n"


def _places(table: Table) -> list[tuple[int, int]]:
    """Return left end and width of each column: bars are equally wide, texts share the rest by their lengths."""
    columns = [*zip(map(marked, table.head), *table.rows, strict=True)]
    bars = [any(map(_is_bar, column[1:])) for column in columns]
    lengths = [0 if is_bar else max(map(len, column)) for column, is_bar in zip(columns, bars, strict=True)]
    left, bar = 20, _BAR if sum(bars) == 1 else _BAR // max(1, sum(bars))
    rest = (WIDTH - 40 - bar * sum(bars)) / max(1, sum(lengths))
    places = []
    for is_bar, length in zip(bars, lengths, strict=True):
        width = bar if is_bar else int(rest * length)
        places.append((left, width))
        left += width
    return places


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
