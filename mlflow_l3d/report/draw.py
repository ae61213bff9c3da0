"""Pictures of a page as SVG: places from left to right are per cent, so that they fit any width without a script."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from mlflow_l3d.report.numbers import minus, plain
from mlflow_l3d.report.table import Drawn

WIDTH: Final = 860
"""Width of a sheet, in pixels."""
_LETTERS: Final = 41
"""Of a picture in Markdown."""
_SHEET: Final = Markup(
    '<svg class="sheet" role="img" aria-label="{0}" width="{1}" height="{2}" viewBox="0 0 {1} {2}">{3}</svg>'
)
_STYLE: Final = Markup(
    "text{font:12px system-ui,Helvetica,Arial,sans-serif;fill:#59626d}"
    ".title{font-size:20px;font-weight:600;fill:#1b1f24}.strong,.name{font-weight:600;fill:#1b1f24}"
    ".dot{fill:#0067a3}.band{fill:#e6edf3}.mean{stroke:#1b1f24;stroke-width:2}.axis{stroke:#d8dde3}"
    ".half{stroke:#1b1f24;stroke-dasharray:3 3}.interval{stroke:#1b1f24;stroke-width:2.5}.amount{fill:#a5cfe9}"
    ".point{fill:#0067a3}"
)
_DOT: Final = Markup('<circle class="dot{}" data-run="{}" cx="{}%" cy="{}" r="{}"><title>{}</title></circle>')
_LINE: Final = Markup('<line class="{}" x1="{}%" x2="{}%" y1="{}" y2="{}"/>')


@dataclass(frozen=True)
class Axis:
    """A horizontal axis.

    Attributes
    ----------
    low, high
        Its ends.
    step
        Distance of its ticks: 1, 2 or 5 times a power of ten.
    """

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, values: Iterable[float], ticks: int = 5) -> Axis:
        """Return an axis with round ends that holds the finite ones of some values; from 0 to 1 if there are none."""
        finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        width = (high - low) or abs(high) / 10 or 1.0
        step = nice_step(width / ticks)
        margin = 0.02 * width if high > low else width / 2
        quarter = step / 4
        ends = quarter * math.floor((low - margin) / quarter), quarter * math.ceil((high + margin) / quarter)
        return cls(*ends, step)

    def at(self, value: float) -> float:
        """Return the place of a value in per cent, cut at the ends."""
        return 100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    @property
    def ticks(self) -> list[float]:
        """The values at its ticks."""
        first = math.ceil(self.low / self.step - 1e-9)
        count = math.floor(self.high / self.step + 1e-9) - first + 1
        return [(first + at) * self.step for at in range(count)]

    def tick_text(self, value: float) -> str:
        """Return a tick as it is written: with as many decimals as the step has."""
        return plain(value, max(0, -math.floor(math.log10(self.step) + 1e-9)))

    def drawn(self, y: float) -> Markup:
        """Return the line of the axis at a height, with ticks and numbers below it."""
        parts = [drawn_line("axis", 0, 100, y, y)]
        for tick in self.ticks:
            x = self.at(tick)
            parts += [drawn_line("axis", x, x, y, y + 4), text(x, y + 18, self.tick_text(tick))]
        return Markup("").join(parts)

    def head(self, label: str) -> Drawn:
        """Return the numbers of the axis as the head of a column of pictures."""
        numbers = [text(self.at(tick), 12, minus(self.tick_text(tick))) for tick in self.ticks]
        return Drawn(svg(15, label, *numbers), letters=f"{self.low:.4g} to {self.high:.4g}")


def nice_step(width: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least `width`."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= width * (1 - 1e-9))


def svg(height: float, label: str, *parts: Markup) -> Markup:
    """Return a picture; readers who cannot see it get `label`."""
    picture = Markup('<svg role="img" aria-label="{}" height="{}" width="100%">{}</svg>')
    return picture.format(label, short(height), Markup("").join(parts))


def sheet(height: float, label: str, *parts: Markup) -> Markup:
    """Return a picture of :data:`WIDTH`, which may be a file of its own, see :func:`as_file`."""
    return _SHEET.format(label, WIDTH, short(height), Markup("").join(parts))


def as_file(sheet: Markup) -> str:
    """Return a sheet that needs no page around it: with its colours, on white."""
    whole = str(sheet).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return whole.replace(">", f'><style>{_STYLE}</style><rect width="100%" height="100%" fill="#ffffff"/>', 1)


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "", shift: float = 0) -> Markup:
    """Return words at a place, moved by some pixels; near the ends of the picture they stay within it."""
    anchor = anchor or ("start" if x < 6 else "end" if x > 94 else "middle")
    moved = Markup(' dx="{}"').format(short(shift)) if shift else ""
    return Markup('<text x="{}%" y="{}"{} text-anchor="{}" class="{}">{}</text>').format(
        short(x), short(y), moved, anchor, kind, words
    )


def dots_bar(values: Iterable[float], axis: Axis, label: str) -> Markup:
    """Return a dot for each difference, on a line around 0."""
    zero = axis.at(0.0)
    dots = [dot(axis.at(value), 13, plain(value, 1, "+"), radius=4) for value in values]
    return svg(26, label, drawn_line("axis", 0, 100, 13, 13), drawn_line("mean", zero, zero, 3, 23), *dots)


def share_bar(share: float, low: float, high: float, label: str) -> Markup:
    """Return a share (0..1) as a bar with its interval, and the line of one half; an arrow if either is cut at 1."""
    half = Markup('<line class="half" x1="50%" x2="50%" y1="0" y2="26"/>')
    if not math.isfinite(share):
        return svg(26, label, half)
    bar = Markup('<rect class="bar" x="0" y="5" height="16" width="{}%"/>').format(short(100 * min(share, 1)))
    ends = [_point(100 * share, 13)] if share <= 1 else []
    if math.isfinite(low) and math.isfinite(high):
        ends = [*whisker(100 * min(low, 1), 100 * min(high, 1), 13), *ends]
    if max(share, high) > 1:
        ends.append(text(100, 18, "\N{BLACK RIGHT-POINTING TRIANGLE}", kind="strong"))
    return svg(26, label, bar, half, *ends)


def whisker(start: float, end: float, y: float) -> list[Markup]:
    """Return an interval between two places in per cent."""
    ends = [drawn_line("interval", x, x, y - 5, y + 5) for x in (start, end)]
    return [drawn_line("interval", start, end, y, y), *ends]


def difference_bar(value: float, low: float, high: float, axis: Axis, label: str, *, margin: float = 0.0) -> Markup:
    """Return a difference with its interval around 0, and in grey what is too small to matter."""
    parts = []
    if margin > 0:
        start, end = axis.at(-margin), axis.at(margin)
        parts.append(drawn_band(start, end, 0, 26))
    zero = axis.at(0.0)
    parts.append(drawn_line("mean", zero, zero, 0, 26))
    if math.isfinite(low) and math.isfinite(high):
        parts += whisker(axis.at(low), axis.at(high), 13)
    if math.isfinite(value):
        parts.append(_point(axis.at(value), 13))
    return svg(26, label, *parts)


def difference_cell(value: float, low: float, high: float, axis: Axis, label: str, *, margin: float = 0.0) -> Drawn:
    """Return a difference as :func:`difference_bar` draws it for a page, and with letters for Markdown."""
    places = (0.0, -margin, margin, *(0.0 if math.isnan(place) else place for place in (low, high, value)))
    zero, start, end, first, last, point = (round(axis.at(place) * (_LETTERS - 1) / 100) for place in places)
    letters = ["\N{MIDDLE DOT}"] * _LETTERS
    letters[start : end + 1] = "\N{LIGHT SHADE}" * (end + 1 - start)
    if not (math.isnan(low) or math.isnan(high)):
        letters[first : last + 1] = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (last + 1 - first)
        letters[first] = "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}" if math.isfinite(low) else "<"
        letters[last] = "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}" if math.isfinite(high) else ">"
    letters[zero] = "\N{BOX DRAWINGS LIGHT VERTICAL}"
    letters[point] = "\N{BLACK CIRCLE}" if math.isfinite(value) else letters[point]
    return Drawn(difference_bar(value, low, high, axis, label, margin=margin), letters=f"`{''.join(letters)}`")


def amount_bar(value: float, low: float, high: float, words: str) -> Markup:
    """Return an amount as a bar from 0 with its interval, as shares of the largest; the words follow it."""
    if not math.isfinite(value):
        return svg(26, words, text(0, 17, words))
    room = 72  # per cent; the words need the rest
    ends = whisker(room * low, room * high, 13) if math.isfinite(low) and math.isfinite(high) else []
    bar = Markup('<rect class="amount" x="0" y="8" height="10" width="{}%"/>').format(short(room * value))
    place = room * max(value, high if math.isfinite(high) else value) + 2
    return svg(26, words, bar, *ends, text(place, 17, words, kind="strong", anchor="start"))


@lru_cache(maxsize=1000)  # many examples have the same votes
def parts_bar(counts: tuple[float, ...], names: tuple[str, ...]) -> Markup:
    """Return how a whole is divided, as one bar whose parts have the colours 0, 1, ... of the page."""
    whole, start, drawn = sum(counts), 0.0, []
    for number, count in enumerate(counts):
        if not count:
            continue
        kind, width = number % 8, 100 * count / whole
        drawn.append(
            Markup('<rect class="c{}" x="{}%" width="{}%" height="18"><title>{}</title></rect>').format(
                kind, short(start), short(width), f"{names[number]}: {count:g}"
            )
        )
        if width > 9:
            drawn.append(text(start + width / 2, 13, f"{count:g}", kind=f"on{kind}", anchor="middle"))
        start += width
    label = ", ".join(f"{name}: {count:g}" for name, count in zip(names, counts, strict=True) if count)
    return svg(18, label, *drawn)


def _point(x: float, y: float) -> Markup:
    return Markup('<circle class="point" cx="{}%" cy="{}" r="4.5"/>').format(short(x), short(y))


def dot(x: float, y: float, words: str, *, radius: float = 3.5, run: str = "", hollow: bool = False) -> Markup:
    """Return a dot at a place in per cent and a height in pixels; `run` is the number by which the script finds it."""
    return _DOT.format(" hollow" if hollow else "", run, *map(short, (x, y, radius)), words)


def drawn_line(kind: str, start: float, end: float, top: float, bottom: float) -> Markup:
    """Return a line between places in per cent, and heights in pixels."""
    return _LINE.format(kind, *map(short, (start, end, top, bottom)))


def drawn_band(start: float, end: float, top: float, height: float) -> Markup:
    """Return a range between places in per cent, of a height in pixels."""
    box = Markup('<rect class="band" x="{}%" width="{}%" y="{}" height="{}"/>')
    return box.format(*map(short, (start, end - start, top, height)))


def short(value: float) -> str:
    """Return a place with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
