"""What a pull request and a README show of a result: a comment in Markdown, and a badge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import marked

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


def comment_markdown(document: Document, rows: Sequence[Mapping[str, str]], footer: str) -> str:
    """Return a result as a comment: headline, numbers, the table of the report, answers, and what to do next.

    Pictures are letters in these tables: GitHub shows no SVG within a comment, and a file would have to be published
    first.
    """
    tables = [each.markdown() for each in (Table.of(rows) if rows else None, document.table) if each]
    notes = "\n".join(f"- {marked(note)}" for note in document.notes)
    texts = [*tables, *(answer.markdown(1) for answer in document.answers), notes]
    steps = [f"Next: {escaped(marked(step.said))}\n\n    {shorten(step.command)}".rstrip() for step in document.steps]
    headline = escaped(marked(document.headline or document.title))
    return "\n\n".join(filter(None, [f"### {headline}", *map(escaped, texts), *steps, escaped(footer)])) + "\n"


def escaped(markdown: str) -> str:
    """Return Markdown without links, pictures and mentions: names come from whoever opened the pull request."""
    return markdown.translate(_ENTITIES)


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
