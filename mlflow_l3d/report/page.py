"""A result as people read it: one document, for the terminal, as one HTML file, and as a comment with its badge.

The file has no fonts, pictures or scripts from elsewhere. What it says can be read without its script.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report.draw import as_file
from mlflow_l3d.report.html import Snippet, environment
from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.table import Part, Table, document
from mlflow_l3d.report.text import Answer, Step, marked, wrap

_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
_BINS: Final = 24
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "&#91;", "@": "@&#8203;", "#": "#&#8203;"})
_COLOURS: Final = {"better": "#1a7f37", "equivalent": "#1a7f37", "worse": "#b34700", "undecided": "#59626d"}
_LETTER: Final = 6.6
"""Width of a letter of a badge, in pixels."""
_BADGE: Final = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{0}: {1}" width="{4}" height="20">'
    '<title>{0}: {1}</title><rect width="{4}" height="20" fill="{5}"/><rect width="{6}" height="20" fill="#3d444d"/>'
    '<g fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
    '<text x="6" y="14" textLength="{2}">{0}</text><text x="{7}" y="14" textLength="{3}">{1}</text></g></svg>\n'
)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of a page: an element, and the line below it.

    It is also the file `name`.svg, if it has a name: a :func:`mlflow_l3d.report.draw.sheet`.
    """

    html: Markup
    caption: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list on a page: a name in bold, something about it, and a text; `kind` is a class of the styles."""

    text: str
    name: str = ""
    about: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under a heading: paragraphs, lists, tables, pictures and snippets in their order.

    It is left out if it has none but None.

    Attributes
    ----------
    title, parts
        Its heading, and what it holds.
    is_open
        Whether a reader sees it without asking.
    name
        What links call it.
    """

    title: str
    parts: Sequence[str | Table | Drawing | Snippet | list[Item] | None]
    is_open: bool = False
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A result as people read it: terminal, page and the run's description show the same answers and tables.

    Attributes
    ----------
    title
        Its name in a list of tabs; the heading if there is no headline.
    headline
        One sentence that decides.
    about, place
        Above it: what was studied, and how many runs, with a link.
    answers
        What a page opens with: three, and more of them below the first table.
    drawing
        The picture next to the answers.
    table, second_table, steps
        Below: the first table, on a page a second one, and what to do next.
    lines, short_table, remarks
        For the terminal: paragraphs below the title, whose long words (paths, addresses) stay whole; a table in place
        of the first one; and what follows the steps, by default the notes.
    notes
        Sentences below the first table.
    in_full
        What stands below the further sentences of the answers, folded.
    sections
        What follows on a page, folded.
    settings
        Name -> value, shown as they are: leave out what must not be seen (tokens, private paths).
    sources
        Literature, at the end of a page.
    data
        What the script of a page reads: JSON types.
    files
        Pictures that are files alone.
    legend
        Letter -> the name that it stands for: below the headline of a text or comment.
    """

    title: str
    headline: str = ""
    about: str = ""
    place: str | Markup = ""
    answers: Sequence[Answer] = ()
    drawing: Drawing | None = None
    table: Table | None = None
    second_table: Table | None = None
    steps: Sequence[Step] = ()
    legend: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[str] = ()
    short_table: Table | None = None
    remarks: Sequence[Part] | None = None
    notes: Sequence[str] = ()
    in_full: Sequence[str | Table | list[Item]] = ()
    sections: Sequence[Section] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    sources: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[Drawing] = ()

    def to_text(self) -> str:
        """Return what the terminal shows: lines of at most 100 characters, but for words of `lines` that are longer."""
        answers = [line for each in self.answers for line in wrap(f"{each.question} {each.lead}", "    ")]
        steps = [line for each in self.steps for line in each.lines()]
        rest = self.notes if self.remarks is None else self.remarks
        details = [line for text in self.lines for line in wrap(text, split_words=False)]
        parts = [answers, details, self.short_table or self.table, [""], steps, *rest]
        return document(self.headline or self.title, [legend_text(self.legend)] if self.legend else [], parts)

    def description(self, *more: str, first: int = 0) -> str:
        """Return headline, answers and more as Markdown, for the description of a run in MLflow's UI.

        MLflow shows its first two lines until a reader asks for more: they are the headline, with the names of its
        letters, and the answer `first`.
        """
        answers = [answer.markdown(1) for answer in self.answers]
        headline = marked(self.headline)
        letters = {*re.findall(r"\w+", headline)} & {*self.legend}
        if letters:
            headline += f" ({legend_text({letter: self.legend[letter] for letter in sorted(letters)})})"
        return "\n\n".join([f"**{headline}** {answers.pop(first)}", *answers, *more])[:5000]

    def to_html(self, *, folded: bool = True) -> str:
        """Return a page that works offline and in a frame, follows the reader's light or dark setting, and prints.

        Every text is escaped. Same document, same page.

        Parameters
        ----------
        folded
            Whether to show what follows the first screen.
        """
        return environment().get_template("page.html").render(document=self, folded=folded)

    @property
    def folded(self) -> list[Section]:
        """What follows on a page: the answers in full, then the sections."""
        rest = [Item(" ".join(each.sentences[1:]), each.question) for each in self.answers if each.sentences[1:]]
        return [Section("The answers in full", [rest or None, *self.in_full], name="answers"), *self.sections]

    @property
    def script_data(self) -> Markup:
        """What the script reads, so written that no text can end its element."""
        text = json.dumps(self.data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704 - escaped

    @property
    def pictures(self) -> list[Drawing]:
        """Those that are files: of the page, in its order, and those that are files alone."""
        shown = [part for section in self.sections for part in section.parts if isinstance(part, Drawing)]
        return [each for each in [*shown, *self.files] if each.name]

    def save(self, folder: Path, name: str) -> None:
        """Write the page under a name, and every picture that is a file."""
        (folder / name).write_text(self.to_html(), encoding="utf-8")
        for picture in self.pictures:
            (folder / f"{picture.name}.svg").write_text(f"{as_file(picture.html)}\n", encoding="utf-8")


def comment_markdown(document: Document, rows: Sequence[Mapping[str, str]], footer: str) -> str:
    """Return a result as a comment: headline, numbers, the table of the report, answers, and what to do next.

    Pictures are letters in these tables: GitHub shows no SVG within a comment, and a file would have to be published
    first.
    """
    tables = [each.markdown() for each in (Table.of(rows) if rows else None, document.table) if each]
    notes = "\n".join(f"- {marked(note)}" for note in document.notes)
    texts = [legend_text(document.legend), *tables, *(answer.markdown(1) for answer in document.answers), notes]
    steps = [f"Next: {escaped(marked(step.said))}\n\n    {shorten(step.command)}".rstrip() for step in document.steps]
    headline = escaped(marked(document.headline or document.title))
    return "\n\n".join(filter(None, [f"### {headline}", *map(escaped, texts), *steps, escaped(footer)])) + "\n"


def escaped(markdown: str) -> str:
    """Return Markdown without links, pictures and mentions: names come from whoever opened the pull request."""
    return markdown.translate(_ENTITIES)


def legend_text(legend: Mapping[str, str]) -> str:
    """Return what letters stand for."""
    return ", ".join(f"{letter}: {shorten(name)}" for letter, name in legend.items())


def histogram(scores: FloatArray) -> str:
    """Return how many runs have which score, from the lowest to the highest, as letters."""
    counts, _ = np.histogram(scores, _BINS)
    tallest = max(1, counts.max())
    return "".join(_HEIGHTS[math.ceil(count * (len(_HEIGHTS) - 1) / tallest)] for count in counts)


def badge_svg(label: str, text: str, verdict: str = "") -> str:
    """Return a badge: white on dark colours, so that it can be read on any page."""
    label, text = shorten(label, 40), shorten(text, 80)
    left, right = (math.ceil(_LETTER * len(words)) for words in (label, text))
    colour = _COLOURS.get(verdict, "#0067a3")
    return str(_BADGE.format(label, text, left, right, left + right + 24, colour, left + 12, left + 18))
