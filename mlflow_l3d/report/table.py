"""The table of every report: the same object as text in the terminal and, by a macro, on a page; texts with tables."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from mlflow_l3d.report.numbers import MISSING, plain, shorten
from mlflow_l3d.report.text import WIDTH, ascii_text, columns, heading, marked, wrap

if TYPE_CHECKING:
    import pandas as pd

_NAME: Final = 60
"""Most characters of a line of a first cell; half of it if the other columns need the room."""


class Drawn(str):
    """A cell that a page shows as HTML, and the terminal as this text; a column without texts is left out there.

    Parameters
    ----------
    html
        What a page shows.
    text
        What the terminal shows.
    letters
        What Markdown shows of a picture.
    """

    __slots__ = ("html", "letters")
    html: Markup
    letters: str

    def __new__(cls, html: Markup, text: str = "", letters: str = "") -> Drawn:
        """Return the cell."""
        cell = super().__new__(cls, text)
        cell.html, cell.letters = html, letters or text
        return cell

    def __html__(self) -> Markup:
        """Return what a page shows."""
        return self.html


UNDECIDED: Final = "\N{CIRCLE WITH LEFT HALF BLACK}"
SIGNS: Final = {
    **dict.fromkeys(("dominates", "better", "worse", "yes", "keep"), "\N{BLACK CIRCLE}"),
    **dict.fromkeys(("minor", "equivalent", "no", "reject"), "\N{WHITE CIRCLE}"),
}


def verdict_cell(word: str) -> Drawn:
    """Return a verdict for a cell of a table, on a page with its sign; it has the colour of the row."""
    sign = SIGNS.get(word, UNDECIDED)
    return Drawn(Markup('<span class="verdict"><span aria-hidden="true">{}</span> {}</span>').format(sign, word), word)


class _Column(NamedTuple):
    at: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its head, its rows (the first cell names the row), and a sentence below it.

    Attributes
    ----------
    head
        In lines if there are line breaks. In the terminal a line above the last may reach over the columns to its
        left.
    rows
        A cell may hold a second, smaller line after a line break; the terminal puts it behind the first. A page shows
        a cell of type ``Markup`` as it is.
    note
        Below the table.
    texts
        Columns of words, which stand at the left and may break.
    title
        Above the table.
    kind
        A class of the style sheet, for a page.
    kinds
        One class of the style sheet for each row; none by default.
    legend
        Behind the note, on a page alone: what pictures show.
    more
        Columns that a page shows only when a reader asks for them, and the terminal never.
    links
        On a page the name of row n links to the section ``<links>-n``; empty for no links.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: frozenset[int] = frozenset()
    title: str = ""
    kind: str = ""
    kinds: tuple[str, ...] = ()
    legend: str = ""
    more: frozenset[int] = frozenset()
    links: str = ""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, str]], note: str = "", **more: Any) -> Table:
        """Return the table of rows, at least one, that are mappings from the head to the cell, all alike."""
        return cls(tuple(rows[0]), tuple(tuple(row.values()) for row in rows), note, **more)

    def without_empty(self, names: Collection[str], empty: str = MISSING) -> Table:
        """Return the table without those of the named columns that hold nothing but `empty`."""
        columns = enumerate(zip(self.head, *self.rows, strict=True))
        return self._only([at for at, (name, *cells) in columns if name not in names or set(cells) - {empty}])

    def _is_drawn(self, at: int) -> bool:
        """Return whether a column holds nothing but pictures."""
        return bool(self.rows) and all(isinstance(row[at], Drawn) and not row[at] for row in self.rows)

    def _only(self, places: Sequence[int]) -> Table:
        """Return the table of some columns."""
        head, *rows = (tuple(row[at] for at in places) for row in (self.head, *self.rows))
        texts, more = (frozenset(n for n, at in enumerate(places) if at in marks) for marks in (self.texts, self.more))
        return replace(self, head=head, rows=tuple(rows), texts=texts, more=more)

    def lines(self, indent: str = "") -> list[str]:
        """Return the table as lines of at most :data:`~mlflow_l3d.report.text.columns` characters.

        The columns stand closer where they do not fit; then names are broken; else columns go below, under the same
        names. A narrow terminal cuts no cell that a wide one shows whole: rather, a line is too long for it.
        """
        room = columns.get() - len(indent)
        places = [at for at in range(len(self.head)) if at not in self.more and not self._is_drawn(at)]
        if len(places) < len(self.head):
            return self._only(places).lines(indent)
        heads = [marked(cell).split("\n") for cell in self.head]
        deep = max(map(len, heads))
        head = list(zip(*([""] * (deep - len(each)) + each for each in heads), strict=True))
        names = [_one_line(row[0], 2 * _NAME) for row in (*head, *self.rows)]
        left = min(_NAME, max(map(len, names)))
        grid = [
            [name, *[_one_line(cell, WIDTH - len(indent) - left - 1) for cell in row[1:]]]
            for name, row in zip(names, (*head, *self.rows), strict=True)
        ]
        widths = [left, *[max(len(row[at]) for row in grid[deep - 1 :]) for at in range(1, len(heads))]]
        rest = room - sum(widths[1:]) - len(widths) + 1
        least = max(map(len, names[:deep]))
        alone = room - 1 - max(widths[1:], default=0)
        widths[0] = min(left, rest if rest >= max(_NAME // 2, least) else max(_NAME // 5, least, alone))
        grid[deep:] = [line for row in grid[deep:] for line in _broken(row, widths[0])]
        lines = [self.title] if self.title else []
        for number, block in enumerate(_blocks(widths, room)):
            shown = [indent + _line(row, block, self.texts) for row in grid]
            rule = indent + "-" * block[-1].end
            lines += [*[""][: min(number, 1)], *shown[:deep], rule, *shown[deep:]]
        return [*lines, *(["", *wrap(self.note)] if self.note else [])]

    def markdown(self) -> str:
        """Return the table as Markdown, under its title."""

        def line(cells: Iterable[str]) -> str:
            texts = (cell.letters if isinstance(cell, Drawn) else marked(cell) for cell in cells)
            return f"| {' | '.join(text.replace('|', '/') for text in texts)} |".replace("\n", " ")

        cells = [[getattr(row[at], "letters", row[at]) for row in self.rows] for at in range(len(self.head))]
        columns = [at for at, column in enumerate(cells) if any(column) or not self._is_drawn(at)]
        if len(columns) < len(self.head):
            return self._only(columns).markdown()
        rows = [line(self.head), line(["---"] * len(self.head)), *map(line, self.rows)]
        title = f"**{self.title}**" if self.title else ""
        return "\n\n".join(filter(None, [title, "\n".join(rows), marked(self.note)]))


def frame_table(frame: pd.DataFrame, note: str, most: int = 50) -> Table | None:
    """Return the first rows of a frame as a table; None if it has none."""
    if frame.empty:
        return None
    heads = [str(name).replace("_", " ") for name in frame]
    rows = frame.head(most).to_numpy(object)
    texts = frozenset(at for at, value in enumerate(rows[0]) if isinstance(value, str))
    return Table.of([dict(zip(heads, map(_cell, row), strict=True)) for row in rows], note, texts=texts - {0})


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2g}" if 0 < abs(value) < 1e-3 else plain(value, 0 if value.is_integer() else 3)


def _broken(row: list[str], width: int) -> Iterator[list[str]]:
    """Yield a row whose name has at most so many characters, and the rest of the name in rows of its own."""
    first, *more = textwrap.wrap(row[0], width, subsequent_indent="  ") or [""]
    yield [first, *row[1:]]
    yield from ([name, *[""] * (len(row) - 1)] for name in more)


def _blocks(widths: Sequence[int], room: int) -> Iterator[list[_Column]]:
    """Yield the columns that stand side by side, each time after the first one."""
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= room else 1
    block = [_Column(0, 0, widths[0])]
    for at, width in enumerate(widths[1:], 1):
        if len(block) > 1 and block[-1].end + gap + width > room:
            yield block
            block = block[:1]
        start = block[-1].end + gap
        block.append(_Column(at, start, start + width))
    yield block


def _line(row: Sequence[str], block: Sequence[_Column], texts: Collection[int]) -> str:
    line = [" "] * block[-1].end
    free = len(line)
    for at, start, end in reversed(block):  # a head that is wider than its column reaches over those before it
        if cell := row[at]:
            place = max(0, min(start if at == 0 or at in texts else end - len(cell), free - len(cell)))
            line[place : place + len(cell)] = cell
            free = place - 1
    return "".join(line).rstrip()


def _one_line(cell: str, width: int) -> str:
    """Return a cell on one line; spaces that line up its parts stay."""
    text = cell.replace("(\N{PLUS-MINUS SIGN}", "(")
    return text if text.isprintable() and len(text) <= width else shorten(text, width)


Part = str | Table | list[str] | None
"""Of a text: a paragraph, a table with an empty line before it, lines as they are, or nothing."""


def document(title: str, lines: Iterable[str], parts: Iterable[Part]) -> str:
    """Return a text with what ASCII lacks written out.

    Parameters
    ----------
    title
        Its heading.
    lines
        Below it: paragraphs whose long words (paths, addresses) stay whole.
    parts
        What follows.
    """
    lines_of_text = [*heading(marked(title)), *[line for text in lines for line in wrap(text, split_words=False)]]
    for part in parts:
        if isinstance(part, str):
            lines_of_text += wrap(part, "    ")
        elif isinstance(part, list):
            lines_of_text += part
        elif part is not None:
            lines_of_text += ["", *part.lines()]
    return ascii_text("\n".join(line.rstrip() for line in lines_of_text)) + "\n"
