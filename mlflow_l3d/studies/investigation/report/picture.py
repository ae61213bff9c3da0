"""The first screen as a picture of its own: MLflow's UI shows it, and a slide or a paper can hold it."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.page import Drawing
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.report.text import marked

WIDTH: Final = 860
_STRIP: Final = 210
_ROW: Final = 34
_COLOURS: Final = {
    "": ("#0067a3", "#a5cfe9"),
    "dominates": ("#b34700", "#f0b285"),
    "minor": ("#0067a3", "#a5cfe9"),
    "undecided": ("#59626d", "#cfd5dc"),
}
_STYLE: Final = Markup(
    "text{font:12px system-ui,Helvetica,Arial,sans-serif;fill:#59626d}"
    ".title{font-size:20px;font-weight:600;fill:#1b1f24}.strong,.name{font-weight:600;fill:#1b1f24}"
    ".dot{fill:#0067a3}.band{fill:#e6edf3}.mean{stroke:#1b1f24;stroke-width:2}.axis{stroke:#d8dde3}"
    ".half{stroke:#1b1f24;stroke-dasharray:3 3}.interval{stroke-width:2.5}"
)


def picture(headline: str, drawing: Drawing | None, table: Table | None) -> str:
    """Return headline, strip and bars as one SVG file that needs nothing else."""
    parts = [_text(20, 34, shorten(marked(headline), 90), "title")]
    bottom = 60
    if drawing is not None:
        parts.append(Markup('<svg x="20" y="{}" width="{}">{}</svg>').format(bottom, WIDTH - 40, drawing.html))
        bottom += _STRIP
    rows = [] if table is None or not table.kinds else [*zip(table.rows, table.kinds, strict=True)]
    for row, kind in rows:
        parts += _bar_row(row, kind, bottom)
        bottom += _ROW
    inner = Markup("").join(parts)
    whole = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}"><style>{2}</style>'
        '<rect width="100%" height="100%" fill="#ffffff"/>{3}</svg>\n'
    )
    return str(whole.format(WIDTH, bottom + 12, _STYLE, inner))


def _bar_row(row: tuple[str, ...], kind: str, top: int) -> list[Markup]:
    """Return name, verdict, bar, share and points of a factor."""
    name, verdict, bar, share, moves = row
    line, ground = _COLOURS.get(kind, _COLOURS["undecided"])
    assert isinstance(bar, Drawn)
    coloured = Markup('<svg x="300" y="{}" width="290" fill="{}" stroke="{}" stroke-width="0">{}</svg>')
    style = Markup("<style>.r{0} .bar{{fill:{1}}}.r{0} .interval{{stroke:{2}}}.r{0} .point{{fill:{2}}}</style>")
    return [
        _text(20, top + 18, shorten(name, 30), "name"),
        _text(210, top + 18, str(verdict), ""),
        style.format(top, ground, line),
        Markup('<g class="r{}">{}</g>').format(top, coloured.format(top, ground, line, bar.html)),
        _text(610, top + 18, share.replace("\n", " "), ""),
        _text(760, top + 18, moves.replace("\n", " "), ""),
    ]


def _text(x: int, y: int, words: str, kind: str) -> Markup:
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(x, y, kind, words)
