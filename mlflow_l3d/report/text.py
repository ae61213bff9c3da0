"""Text for the terminal: ASCII, no colours, at most 100 columns; and the answers that every report opens with."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from mlflow_l3d.report.numbers import MISSING, Unit, roughly, shorten

WIDTH: Final = 100
"""Columns of the terminal that are used at most, and of every text that is kept: it is the same for all readers."""
columns: Final = ContextVar("columns", default=WIDTH)
"""Columns of a line; the command line alone sets fewer, for what it prints on a narrow terminal."""


RETRY: Final = "If you remove the cause, the same command trains the rest:"
"""Follows the number of failed runs, in a step that repeats the command of the study."""
COMPARE: Final = "Is another system better? Name its run, and the luck of both is counted:"
"""Comes before the command that compares a run with another."""
_MARKS: Final = re.compile(r"\*\*(.+?)\*\*|\[\[(.+?)\|(\w+)\]\]")
"""Marks of a sentence: ``**strong**``, and ``[[words|term]]`` for words whose meaning a page explains on the spot."""


def marked(
    text: str, strong: Callable[[str], str] = str, term: Callable[[str, str], str] = lambda words, _: words
) -> str:
    """Return a sentence with its marks written as `strong` and `term` write them; by default they are left out."""
    return _MARKS.sub(lambda mark: strong(mark[1]) if mark[1] is not None else term(mark[2], mark[3]), text)


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next: why, and the command to type."""

    text: str
    command: str = ""

    @property
    def said(self) -> str:
        """The text; a colon at its end, without a command to come, is a full stop."""
        return f"{self.text[:-1]}." if self.text.endswith(":") and not self.command else self.text

    def lines(self) -> list[str]:
        """Return it as lines for the terminal; a command stays on one line, to be copied."""
        return [*wrap(f"Next: {self.said}", "    "), *([f"    {self.command}"] if self.command else [])]


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the questions that a report opens with: a short answer, and sentences below it.

    Attributes
    ----------
    question
        As the reader would ask it.
    short
        The answer in a few words; empty if the first sentence is the answer.
    sentences
        The first one stands below the question, the others wait until a reader asks.
    """

    question: str
    short: str
    sentences: tuple[str, ...]

    @property
    def lead(self) -> str:
        """What a first screen says."""
        opening = f"**{self.short}.** " if self.short not in ("", MISSING) else ""
        return opening + " ".join(self.sentences[:1])

    @property
    def text(self) -> str:
        """All of it in one paragraph."""
        return marked(f"{self.question} {self.lead} {' '.join(self.sentences[1:])}").rstrip()

    def markdown(self, most: int | None = None) -> str:
        """Return question, short answer and at most so many sentences as Markdown, for the description of a run."""
        return marked(f"**{self.question}** {self.lead} {' '.join(self.sentences[1:most])}".rstrip(), "**{}**".format)


def few_runs(degrees: float) -> str:
    """Return that two or three runs, with so many degrees of freedom of their spread, do not know it."""
    return " So few runs barely show how much scores vary." if degrees < 3 else ""


def may_be_luck(two: str, size: str, collapsed: str = "") -> str:
    """Return below which difference two runs may differ by luck; `collapsed` says how many others collapsed."""
    between = f"{collapsed} [[collapsed|collapsed]]; between two others" if collapsed else f"Between two {two}"
    return f"{between}, a difference below {size} may be [[luck|luck]]."


def changed_predictions(share: float, unit: str = "seed") -> str:
    """Return how many predictions change if a run is repeated, as the end of a sentence on how often two runs agree."""
    if share == 0:
        return ": none changes"
    if share < 0.001:
        return ": almost none changes"
    if not share <= 0.4:  # or it is not known
        return ""
    number = round(1 / share)
    # One in so many if that is right within a tenth.
    words = f"one in {number:,} changes" if abs(number * share - 1) <= 0.1 else f"{10 * share:.0f} in 10 change"
    return f": **about {words}** with the {unit}"


def effect_step(ends: Sequence[float], unit: Unit, command: Callable[[str], str]) -> Iterator[Step]:
    """Yield the step that names a smallest effect: the least one, in two digits, for which the interval suffices."""
    width = unit.scale * max(map(abs, ends))
    if 0 < width < math.inf:
        power = 10.0 ** (math.floor(math.log10(width)) - 1)
        effect = f"{power * math.ceil(width / power):g}"
        text = "Name the largest difference that does not matter to you. From"
        yield Step(f"{text} {unit.size(0, effect)} on, these runs settle it:", command(effect))


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
        Runs of each that settle it with 80 %; test examples that do with infinitely many runs; inf if no number does.
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
    why = f"No number of runs alone settles it. With unlimited runs it takes about {roughly(examples)} test examples."
    return advice("more runs and test examples" if more_runs else "more test examples", why)


def all_of(number: int) -> str:
    """Return ``both`` or, as in ``all 3``, how many more there are."""
    return "both" if number == 2 else f"all {number}"


def ascii_text(text: str) -> str:
    """Return a text with those signs written out that ours have and ASCII lacks."""
    return text.replace("±", "+-").replace(" · ", " | ")


def heading(text: str) -> list[str]:
    """Return a title and the line below it."""
    lines = wrap(text)
    return [*lines, "=" * max(map(len, lines))]


def wrap(text: str, indent: str = "", *, split_words: bool = True) -> list[str]:
    """Return one paragraph as lines, all but the first with an indent; paths and addresses may stay whole."""
    line = shorten(ascii_text(marked(text)))
    return textwrap.wrap(
        line, columns.get(), subsequent_indent=indent, break_long_words=split_words, break_on_hyphens=False
    ) or [""]
