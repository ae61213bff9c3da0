"""Sentences, names and parts of a page as HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from mlflow_l3d.report.terms import TERMS
from mlflow_l3d.report.text import marked

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a page with a template of its own, and the values that it shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __html__(self) -> str:
        """Return it as HTML, every value escaped."""
        return environment().get_template(self.template).render(self.values)


def chip(kind: str, text: str) -> Markup:
    """Return a short word on a coloured ground, for a cell of a table; `kind` is a class of the style sheet."""
    return Markup('<span class="chip {}">{}</span>').format(kind, text)


def subheading(text: str) -> Snippet:
    """Return a heading within a section."""
    return Snippet("subheading.html", {"text": text})


def minus(text: str) -> str:
    """Return a text with a true minus sign, which is as wide as a plus, before its numbers."""
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)


def prose(text: str) -> Markup:
    """Return a sentence as HTML: its marks become bold words, and words with their meaning."""
    safe = (
        str(escape(minus(text)))
        .replace(" %", "\N{NO-BREAK SPACE}%")
        .replace(" \N{PLUS-MINUS SIGN} ", " \N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}")
    )
    return Markup(marked(safe, "<b>{}</b>".format, _term))  # noqa: S704 - escaped


def _term(words: str, name: str) -> str:
    if name not in TERMS:  # a name of the user's that looks like a mark
        return words
    tip = escape(TERMS[name])
    return f'<span class="term" tabindex="0">{words}<span class="tip" role="tooltip">{tip}</span></span>'


def _name(text: str) -> Markup:
    """Return a name that may break after an underscore or a plus; a text that is escaped stays as it is."""
    return Markup(re.sub(r"([_+])(?=[A-Za-z])", r"\1<wbr>", str(escape(text))))  # noqa: S704 - escaped


def _command(text: str) -> Markup:
    """Return a command that breaks before an option, not within it."""
    return Markup(re.sub(r"(--[\w-]+)", r'<span class="whole">\1</span>', str(escape(text))))  # noqa: S704 - escaped


def _plain(text: str) -> str:
    """Return a head of a table without its marks and pictures."""
    return Markup("{}").format(text).striptags() if hasattr(text, "__html__") else marked(text)


@cache
def environment() -> Environment:
    """Return the templates; jinja2 is loaded with the first page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("mlflow_l3d.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(minus=minus, prose=prose, name=_name, command=_command, plain=_plain)
    return templates
