"""A result as people read it: one document, which the terminal prints and one HTML file shows.

The file has no fonts or pictures from elsewhere, and no scripts but the filter of a sweep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mlflow_l3d.report.style import save_png, to_svg
from mlflow_l3d.report.table import Answer, Part, Table, document

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure of a document: on a page as SVG, and as a PNG of its own; drawn once, when it is needed.

    Attributes
    ----------
    draw
        Returns the figure.
    name
        Of the file; on a page its ids begin with it.
    label
        What readers who cannot see it are told.
    caption
        The line below it.
    """

    draw: Callable[[], Figure]
    name: str
    label: str = ""
    caption: str = ""

    @cached_property
    def figure(self) -> Figure:
        """The figure."""
        return self.draw()

    @property
    def stem(self) -> str:
        """The name without signs that stand for something else in a path."""
        return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in self.name)

    @property
    def svg(self) -> Markup:
        """The figure as an element of a page: matplotlib escapes every text in it."""
        return Markup(to_svg(self.figure, self.stem))  # noqa: S704

    def save(self, folder: Path) -> None:
        """Write the figure as a PNG."""
        save_png(self.figure, folder / f"{self.stem}.png")


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list on a page: a name in bold, something about it, and a text; `kind` is a class of the styles."""

    text: str
    name: str = ""
    about: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a page with a template of its own, and the values that it shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __html__(self) -> str:
        """Return it as HTML, every value escaped."""
        return _environment().get_template(self.template).render(self.values)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under a heading: paragraphs, lists, tables, pictures and snippets in their order.

    It is left out if it has none but None.
    """

    title: str
    parts: Sequence[str | Table | Picture | Snippet | list[Item] | None]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A result as people read it: terminal, page and the run's description show the same answers and tables.

    Attributes
    ----------
    title, headline
        Its heading; what the terminal has in its place.
    answers
        What a page opens with.
    lines, text
        For the terminal: paragraphs below the title, whose long words (paths, addresses) stay whole, and what follows.
    notes
        Sentences below the heading of a page.
    sections
        What follows on a page.
    settings
        Name -> value, shown as they are: leave out what must not be seen (tokens, private paths).
    sources
        Literature, at the end of a page.
    files
        Pictures that are files alone.
    """

    title: str
    headline: str = ""
    answers: Sequence[Answer] = ()
    lines: Sequence[str] = ()
    text: Sequence[Part] = ()
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    sources: str = ""
    files: Sequence[Picture] = ()

    def to_text(self) -> str:
        """Return what the terminal shows: lines of at most 100 characters, but for words of `lines` that are longer."""
        return document(self.headline or self.title, self.lines, self.text)

    def to_html(self) -> str:
        """Return a page that works offline and in a frame, follows the reader's light or dark setting, and prints.

        Every text is escaped. Same document, same page.
        """
        return _environment().get_template("page.html").render(document=self)

    @property
    def pictures(self) -> list[Picture]:
        """Those of the page, in its order, and those that are files alone."""
        shown = [part for section in self.sections for part in section.parts if isinstance(part, Picture)]
        return [*shown, *self.files]

    def save(self, folder: Path, name: str) -> None:
        """Write the page under a name, and every picture as a PNG."""
        (folder / name).write_text(self.to_html(), encoding="utf-8")
        for picture in self.pictures:
            picture.save(folder)


def chip(kind: str, text: str) -> Markup:
    """Return a short word on a coloured ground, for a cell of a table; `kind` is a class of the style sheet."""
    return Markup('<span class="chip {}">{}</span>').format(kind, text)


def subheading(text: str) -> Snippet:
    """Return a heading within a section."""
    return Snippet("subheading.html", {"text": text})


def minus(text: str) -> str:
    """Return a text with a true minus sign, which is as wide as a plus, before its numbers."""
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)


def _prose(text: str) -> str:
    return minus(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _name(text: str) -> Markup:
    """Return a name that may break after an underscore or a plus; a text that is escaped stays as it is."""
    return Markup(re.sub(r"([_+])(?=[A-Za-z])", r"\1<wbr>", str(escape(text))))  # noqa: S704 - escaped


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mlflow_l3d.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(minus=minus, prose=_prose, name=_name)
    return environment
