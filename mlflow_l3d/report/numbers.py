"""Numbers as people read them; fractions (0..1) become percentage points."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mlflow_l3d.metrics.base import Metric

if TYPE_CHECKING:
    import pandas as pd

MISSING: Final = "n/a"
"""Text in place of a missing number."""
_SMALL: Final = 0.01
"""Three decimals of a smaller number have fewer than two digits."""


def plain(value: float, digits: int = 2, sign: str = "") -> str:
    """Return a number without a unit, ``n/a`` where it is not finite; `sign` ``+`` shows that of a positive one.

    What is rounded to 0 has a sign only where signs are shown: there it says on which side of 0 it lies.
    """
    return f"{value + 0.0:{sign or 'z'}.{digits}f}" if math.isfinite(value) else MISSING


def points(value: float, digits: int = 2) -> str:
    """Return a fraction (0..1) in percentage points."""
    return plain(100 * value, digits)


def minus(text: str) -> str:
    """Return a text with a true minus sign, which is as wide as a plus, before its numbers."""
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)


def roughly(count: float) -> str:
    """Return an estimated number of things in two digits."""
    return f"{float(f'{count:.2g}'):,.0f}"


def signed(value: float) -> str:
    """Return a number without a unit with its sign and two decimals."""
    return plain(value, sign="+")


@dataclass(frozen=True, slots=True)
class Unit:
    """What scores are written in: percentage points, or the units of a metric that is not read in percent.

    Attributes
    ----------
    scale
        What a score is multiplied by.
    name, noun, short
        The unit in a heading, behind a number, and at an axis.
    """

    scale: int
    name: str
    noun: str
    short: str

    def written(self, number: float, digits: int = 2, sign: str = "") -> str:
        """Return a number that is in this unit already; one in units has three decimals or more, or else two digits."""
        if self.scale == 1 and digits <= 3 and 0 < abs(number) < _SMALL:
            return f"{number:{sign}.2g}"
        return plain(number, digits if self.scale > 1 else max(3, digits), sign)

    def text(self, value: float, digits: int = 2) -> str:
        """Return a score, or a difference or standard deviation of scores."""
        return self.written(self.scale * value, digits)

    def digits(self, std: float) -> int:
        """Return the number of decimals of scores on a first screen, by their standard deviation: it has two digits."""
        scaled = self.scale * std
        return math.ceil(-math.log10(scaled)) + (scaled < _SMALL) if 0 < scaled < 0.1 else 1

    def amount(self, value: float) -> str:
        """Return a score, or a difference or standard deviation of scores, with its unit."""
        return f"{self.text(value)} {self.noun}"

    def change(self, difference: float, digits: int = 2) -> str:
        """Return a difference with its sign."""
        return self.written(self.scale * difference, digits, "+")

    def size(self, value: float, text: str = "") -> str:
        """Return the size of a difference as a headline has it, without a unit if the metric is not in per cent.

        `text` is the number, if it is not to be rounded to one decimal, or to two digits below 1.
        """
        if self.scale == 1:
            return text or self.text(abs(value))
        points = abs(self.scale * value)
        number = text or (plain(points, 1) if points >= 1 or points == 0 else f"{points:.2g}")
        return f"{number} {'point' if number == '1' else 'points'}"

    @property
    def behind(self) -> str:
        """The unit after a number on a first screen; empty unless the metric is read in percent."""
        return f" {self.noun}" if self.scale > 1 else ""

    def typical(self, std: float) -> str:
        """Return a standard deviation as a first screen has it."""
        return f"± {self.text(std, self.digits(std))}"

    def heads(self, frame: pd.DataFrame, scores: Mapping[str, str], differences: Mapping[str, str]) -> pd.DataFrame:
        """Return a frame with scores and differences of scores in this unit, with which their new names end."""
        names = {
            name: head if self.scale == 1 else f"{head} ({unit})"
            for heads, unit in ((scores, "%"), (differences, self.short))
            for name, head in heads.items()
            if name in frame
        }
        return frame.assign(**{name: self.scale * frame[name] for name in names}).rename(columns=names)

    def squared(self, value: float) -> str:
        """Return a variance: three decimals, two digits where these would be zeros."""
        scaled = self.scale**2 * value
        return f"{scaled:.2g}" if 0 < abs(scaled) < 1e-3 else plain(scaled, 3)


POINTS: Final = Unit(100, "percentage points", "points", "pp")
UNITS: Final = Unit(1, "units", "units", "units")


def unit_of(metric: Metric) -> Unit:
    """Return the unit of a metric's scores."""
    return POINTS if metric.percent else UNITS


def probability(value: float) -> str:
    """Return a p-value with three decimals, ``<0.001`` below them."""
    return "<0.001" if value < 0.001 else plain(value, 3)


def percent(level: float) -> str:
    """Return a level of confidence as in ``95 %``."""
    return f"{100 * level:.4g} %"


def share_text(share: float) -> str:
    """Return a share (0..1) in whole per cent."""
    return f"{100 * share:.0f} %" if share >= 0.01 else "<1 %"


def share_texts(share: float, low: float, high: float, digits: int = 0) -> list[str]:
    """Return a share and its limits in per cent; decimals show on which side of one half they lie: it decides verdicts.

    `digits` are the fewest decimals of the share.
    """
    every = ([points(each, number) for each in (0.5, low, high)] for number in range(5))
    needed = next((number for number, (half, *limits) in enumerate(every) if half not in limits), 0)
    return [points(share, max(digits, needed)), points(low, needed), points(high, needed)]


def between(low: float, high: float, shown: Callable[[float], str] = signed, form: str = "{} to {}") -> str:
    """Return an interval as in ``-0.90 to +0.10``, ``n/a`` if it has no end."""
    ends = shown(low), shown(high)
    return MISSING if MISSING in ends else form.format(*ends)


def bracketed(low: float, high: float, shown: Callable[[float], str] = signed) -> str:
    """Return an interval as in ``[-0.90, +0.10]``, ``n/a`` if it has no end."""
    return between(low, high, shown, "[{}, {}]")


def interval_of(row: Mapping[Any, Any], name: str, shown: Callable[[float], str] = signed) -> str:
    """Return the interval of a number in a row of a table, ``n/a`` if it has none."""
    return between(row.get(f"{name}_ci_low", math.nan), row.get(f"{name}_ci_high", math.nan), shown)


def with_limits(text: str, limits: str, form: str = "{}") -> str:
    """Return a number, and below it its interval if it has one."""
    return text if MISSING in (text, limits) else f"{text}\n{form.format(limits)}"


def cell_of(row: Mapping[Any, Any], name: str, shown: Callable[[float], str]) -> str:
    """Return a number in a row of a table, and below it its interval if it has one."""
    return with_limits(shown(row[name]), interval_of(row, name, shown), "({})")


def counted(number: int, what: str) -> str:
    """Return a number with its noun, as in ``1 trial`` or ``1,200 trials``."""
    return f"{number:,} {what if number == 1 else 'studies' if what == 'study' else f'{what}s'}"


def listed(names: Sequence[str], word: str = "and") -> str:
    """Return names as a sentence has them, as in ``a, b and c``."""
    return ", ".join(names[:-1]) + (f" {word} " if len(names) > 1 else "") + names[-1]


def metric_text(metric: Metric) -> str:
    """Return a metric with its unit, as in ``accuracy in %``."""
    return f"{metric} in %" if metric.percent else str(metric)


def duration(seconds: float) -> str:
    """Return a time that was measured, as in ``12 min 34 s``, ``n/a`` where it is not finite."""
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def rough_duration(hours: float) -> str:
    """Return a time that is estimated, in the unit that people would use, ``n/a`` where it is not known."""
    if not math.isfinite(hours):
        return MISSING
    if hours < 100 / 3600:
        return f"{hours * 3600:.3g} s"
    if hours < 2:
        return f"{hours * 60:.0f} min"
    return f"{hours:.1f} h" if hours < 100 else f"{hours / 24:.0f} days"


def value_text(value: object) -> str:
    """Return a hyperparameter as people read it: a float with at most four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shorten_all(names: Sequence[str], width: int) -> dict[str, str]:
    """Return each name cut to at most `width` characters: its end where beginnings are alike, so that they differ."""
    short = {name: shorten(name, width) for name in names}
    if len(set(short.values())) < len(short):
        lines = {name: shorten(name) for name in names}
        short = {name: line if len(line) <= width else "..." + line[3 - width :] for name, line in lines.items()}
    return short


def shorten(text: str, width: int = 10_000) -> str:
    """Return `text` on one line of printable characters, cut to at most `width` of them."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= width else line[: width - 3] + "..."
