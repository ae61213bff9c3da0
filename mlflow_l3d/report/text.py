"""Text for the terminal: ASCII, no colours, at most 100 columns; and the answers that every report opens with."""

from __future__ import annotations

import math
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
