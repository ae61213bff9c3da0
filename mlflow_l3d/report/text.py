"""Text for the terminal: ASCII, no colours, at most 100 columns; and the answers that every report opens with."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.report.numbers import shorten

WIDTH: Final = 100
"""Columns of the terminal that are used at most."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the questions that a report opens with: a short answer, and sentences below it."""

    question: str
    short: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """What would settle a comparison, and why: decided in one place, and printed everywhere alike."""

    do: str
    why: str

    @property
    def answer(self) -> Answer:
        """The same as a report opens with it."""
        return Answer("What would settle it?", self.do, (self.why,))


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
