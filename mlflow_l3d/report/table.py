"""Text for the terminal (ASCII, no colours, at most 100 columns): answers and tables, which pages show, too."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from mlflow_l3d.report.numbers import MISSING, shorten

WIDTH: Final = 100
"""Columns of the terminal that are used at most."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the questions that a report opens with: a short answer, and sentences below it."""

    question: str
    short: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it in one paragraph."""
        return f"{self.question} {self.short}. {' '.join(self.sentences)}"

    def markdown(self, most: int | None = None) -> str:
        """Return question, short answer and at most so many sentences as Markdown, for the description of a run."""
        return f"**{self.question}** {self.short}. {' '.join(self.sentences[:most])}"


def advice(do: str, why: str) -> Answer:
    """Return what would settle a comparison, and why: decided in one place, and printed everywhere alike."""
    return Answer("What would settle it?", do, (why,))


def advise(there: str, runs: float, examples: float, *, settled: bool, more_runs: bool = False) -> Answer:
    """Return what would settle a comparison.

    Parameters
    ----------
    there
        How many runs of each there are, as text.
    runs, examples
        Runs of each that settle it with 80 %; test examples that do with runs without end; inf if no number does.
    settled
        Whether there is a verdict.
    more_runs
        Whether more test examples alone would not do.
    """
    if settled:
        return advice("settled", f"The {there} runs of each settle it.")
    if math.isfinite(runs):
        why = "If the true difference is the one found, that many runs of each settle it with 80 % probability"
        return advice(f"{runs:,.0f} runs", f"{why}; {there} are there.")
    if not math.isfinite(examples):
        why = "There is no difference to settle. Name a smallest effect: the two may be equivalent within it."
        return advice("a smallest effect", why)
    why = f"No number of runs alone settles it. With runs without end it takes about {examples:,.0f} test examples."
    return advice("more runs and test examples" if more_runs else "more test examples", why)


def ascii_text(text: str) -> str:
    """Return a text with those signs written out that ours have and ASCII lacks."""
    return text.replace("±", "+-").replace(" · ", " | ")


def heading(text: str, line: str = "=") -> list[str]:
    """Return a title and the line below it."""
    short = shorten(ascii_text(text), WIDTH)
    return [short, line * len(short)]


def wrap(text: str, indent: str = "", *, split_words: bool = True) -> list[str]:
    """Return one paragraph as lines, all but the first with an indent; paths and addresses may stay whole."""
    line = shorten(ascii_text(text))
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_long_words=split_words, break_on_hyphens=False
    ) or [""]


_NAME: Final = 60
"""Longest first cell, in characters."""


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
        In lines where there are line breaks. In the terminal a line above the last may reach over the columns to its
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
    keys
        How many of the first cells name a row; in the terminal they stand again before columns that go below.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: frozenset[int] = frozenset()
    title: str = ""
    kind: str = ""
    keys: int = 1

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, str]], note: str = "", **more: Any) -> Table:
        """Return the table of rows, at least one, that are mappings from the head to the cell, all alike."""
        return cls(tuple(rows[0]), tuple(tuple(row.values()) for row in rows), note, **more)

    def without_empty(self, names: Collection[str], empty: str = MISSING) -> Table:
        """Return the table without those of the named columns that hold nothing but `empty`."""
        columns = enumerate(zip(self.head, *self.rows, strict=True))
        places = [at for at, (name, *cells) in columns if name not in names or set(cells) - {empty}]
        head, *rows = (tuple(row[at] for at in places) for row in (self.head, *self.rows))
        texts = frozenset(place for place, at in enumerate(places) if at in self.texts)
        return replace(self, head=head, rows=tuple(rows), texts=texts)

    def lines(self, indent: str = "") -> list[str]:
        """Return the table as lines of at most :data:`~mlflow_l3d.report.table.WIDTH` characters.

        The columns stand closer where they do not fit, and else go below, under the same names.
        """
        room = WIDTH - len(indent)
        heads = [cell.split("\n") for cell in self.head]
        deep = max(map(len, heads))
        head = list(zip(*([""] * (deep - len(each)) + each for each in heads), strict=True))
        names = [_one_line(row[0], _NAME) for row in (*head, *self.rows)]
        left = max(map(len, names))
        grid = [
            [name, *[_one_line(cell, room - left - 1) for cell in row[1:]]]
            for name, row in zip(names, (*head, *self.rows), strict=True)
        ]
        widths = [left, *[max(len(row[at]) for row in grid[deep - 1 :]) for at in range(1, len(heads))]]
        lines = [self.title] if self.title else []
        for number, block in enumerate(_blocks(widths, room, self.keys)):
            shown = [indent + _line(row, block, self.texts) for row in grid]
            rule = indent + "-" * block[-1].end
            lines += [*[""][: min(number, 1)], *shown[:deep], rule, *shown[deep:]]
        return [*lines, *(["", *wrap(self.note)] if self.note else [])]

    def markdown(self) -> str:
        """Return the table as Markdown, under its title."""

        def line(cells: Iterable[str]) -> str:
            return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

        rows = [line(self.head), line(["---"] * len(self.head)), *map(line, self.rows)]
        title = f"**{self.title}**" if self.title else ""
        return "\n\n".join(filter(None, [title, "\n".join(rows), self.note]))


def _blocks(widths: Sequence[int], room: int, keys: int) -> Iterator[list[_Column]]:
    """Yield the columns that stand side by side, each time after the first ones."""
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= room else 1
    block = [_Column(0, 0, widths[0])]
    for at, width in enumerate(widths[1:], 1):
        if len(block) > keys and block[-1].end + gap + width > room:
            yield block
            block = block[:keys]
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
    lines_of_text = [*heading(title), *[line for text in lines for line in wrap(text, split_words=False)]]
    for part in parts:
        if isinstance(part, str):
            lines_of_text += wrap(part, "    ")
        elif isinstance(part, list):
            lines_of_text += part
        elif part is not None:
            lines_of_text += ["", *part.lines()]
    return ascii_text("\n".join(line.rstrip() for line in lines_of_text)) + "\n"
