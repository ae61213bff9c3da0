"""A report as one HTML file without scripts (but the filter of a sweep), fonts or pictures from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.style import to_svg
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure on a page: as SVG, what readers who cannot see it are told, and the line below it."""

    svg: Markup
    label: str
    caption: str

    @classmethod
    def of(cls, figure: Figure, name: str, label: str, caption: str) -> Picture:
        """Draw a figure; `name` makes the ids in it its own."""
        # Made by matplotlib, which escapes every text in it.
        return cls(Markup(to_svg(figure, name)), shorten(label, 200), caption)  # noqa: S704


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under a heading: paragraphs, tables and pictures in their order, and a list of notes.

    It is left out where it has none but None.
    """

    title: str
    parts: Sequence[str | Table | Picture | None]
    notes: Sequence[str] = ()


def page(
    title: str,
    *,
    answers: Sequence[Answer] = (),
    sections: Sequence[Section] = (),
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
    template: str = "page.html",
    **more: Any,
) -> str:
    """Return a page that works offline and in a frame, follows the reader's light or dark setting, and prints.

    Parameters
    ----------
    title
        Heading of the page.
    answers
        What it opens with.
    sections
        What follows.
    notes
        Sentences shown below the heading.
    settings
        Name -> value, shown as they are: leave out what must not be seen (tokens, private paths).
    template
        Of this package; `more` is what else it shows.

    Returns
    -------
    str
        Every text that is passed in is escaped. Same input, same page.
    """
    shown = {"title": title, "answers": answers, "sections": sections, "notes": notes, "settings": settings}
    return _environment().get_template(template).render(**shown, **more)


def chip(kind: str, text: str) -> Markup:
    """Return a short word on a coloured ground, for a cell of a table; `kind` is a class of the style sheet."""
    return Markup('<span class="chip {}">{}</span>').format(kind, text)


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
