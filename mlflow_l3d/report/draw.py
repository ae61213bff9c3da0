"""Pictures of a page as SVG: places from left to right are per cent, so that they fit any width without a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report.numbers import counted, plain

_BINS: Final = 40
"""Stacks of dots at most."""
_MOST_DOTS: Final = 300
"""More runs are drawn as bars."""
_HEIGHT: Final = 150
"""Room for the highest stack, in pixels."""
_DOT: Final = Markup('<circle class="dot{}" data-run="{}" cx="{}%" cy="{}" r="{}"><title>{}</title></circle>')
_LETTER: Final = 2.1
"""Width of a letter in per cent of a narrow screen."""
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
        parts = [_line("axis", 0, 100, y, y)]
        for tick in self.ticks:
            x = self.at(tick)
            parts += [_line("axis", x, x, y, y + 4), text(x, y + 18, self.tick_text(tick))]
        return Markup("").join(parts)


def nice_step(width: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least `width`."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= width * (1 - 1e-9))


def svg(height: float, label: str, *parts: Markup) -> Markup:
    """Return a picture; readers who cannot see it are told `label`."""
    picture = Markup('<svg role="img" aria-label="{}" height="{}" width="100%">{}</svg>')
    return picture.format(label, short(height), Markup("").join(parts))


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "", shift: float = 0) -> Markup:
    """Return words at a place, moved by some pixels; near the ends of the picture they stay within it."""
    anchor = anchor or ("start" if x < 6 else "end" if x > 94 else "middle")
    moved = Markup(' dx="{}"').format(short(shift)) if shift else ""
    return Markup('<text x="{}%" y="{}"{} text-anchor="{}" class="{}">{}</text>').format(
        short(x), short(y), moved, anchor, kind, words
    )


def strip(
    scores: FloatArray,
    names: Sequence[str],
    *,
    band: tuple[float, float] | None,
    label: str,
    shown: Callable[[float], str],
    beside: Sequence[str] = (),
    hollow: Collection[int] = (),
    axis: Axis | None = None,
) -> Markup:
    """Return a dot for each run, alike ones stacked; the mean, one deviation around it, and both ends.

    Parameters
    ----------
    scores
        Shape (n,): finite, as they are written at the axis.
    names
        One for each run: what a reader sees who points at it.
    band
        Mean minus and plus one standard deviation; None if there is none.
    label
        For readers who cannot see it.
    shown
        Writes a score.
    beside
        Short names, one for each run, that stand at the dots; none by default.
    hollow
        Places of the runs whose dots are not filled.
    axis
        One that several strips share; its own by default.
    """
    axis = axis or Axis.over([*scores, *(band or ())])
    width = nice_step((axis.high - axis.low) / _BINS)
    bins = np.round((scores - axis.low) / width).astype(int)
    mean = float(scores.mean())
    sides = [_side(axis.at(score), name, axis.at(mean)) for score, name in zip(scores, beside, strict=False)]
    levels = _named_levels(sides) if beside else _levels(scores, bins)
    highest = max(levels) + 1
    pitch = 16.0 if beside else min(11.0, _HEIGHT / highest)
    bottom = max(pitch * highest, 60.0) + 26
    parts: list[Markup] = []
    if band is not None:
        start, end = map(axis.at, band)
        parts.append(_band(start, end, 18, bottom - 18))
    if not as_dots(scores):
        parts += _columns(axis, width, bins, pitch, bottom)
    for at in () if not as_dots(scores) else np.argsort(scores, kind="stable"):
        x, y = axis.at(scores[at] if beside else axis.low + width * bins[at]), bottom - pitch * (levels[at] + 0.5)
        told, size = f"{names[at]}: {shown(float(scores[at]))}", max(1.0, min(4.6, 0.43 * pitch))
        parts.append(_DOT.format(" hollow" if at in hollow else "", int(at), short(x), short(y), short(size), told))
        if beside:
            anchor, shift = ("start", 8) if sides[at][1] > x + 2 else ("end", -8)
            parts.append(text(x, y + 4, beside[at], anchor=anchor, shift=shift))
    parts += [_line("mean", axis.at(mean), axis.at(mean), 16, bottom), axis.drawn(bottom)]
    parts.append(text(axis.at(mean), 11, f"mean {shown(mean)}", kind="strong"))
    return svg(bottom + 24, label, *parts)


def as_dots(scores: FloatArray) -> bool:
    """Return whether so many runs are drawn as dots; more are bars."""
    return len(scores) <= _MOST_DOTS


def marks_text(scores: FloatArray, name: str, term: str = "") -> str:
    """Return what the marks of a strip are: dots or bars of runs with a name, whose meaning is a term of a page."""
    marks, name = ("A dot: one", name) if as_dots(scores) else ("A bar: how many", f"{name}s")
    return f"{marks} {f'[[{name}|{term}]]' if term else name}."


def _columns(axis: Axis, width: float, bins: npt.NDArray[np.int_], pitch: float, bottom: float) -> list[Markup]:
    """Return a bar in place of each stack of dots."""
    bar = Markup('<rect class="dot" x="{}%" width="{}%" y="{}" height="{}"><title>{}</title></rect>')
    wide = 0.8 * (axis.at(axis.low + width) - axis.at(axis.low))
    places = [
        (axis.at(axis.low + width * at), pitch * count, count) for at, count in enumerate(np.bincount(bins)) if count
    ]
    return [
        bar.format(short(x - wide / 2), short(wide), short(bottom - tall), short(tall), counted(int(count), "run"))
        for x, tall, count in places
    ]


def _levels(scores: FloatArray, bins: npt.NDArray[np.int_]) -> list[int]:
    """Return how many dots stand below each one: those of its stack with a lower score."""
    stacked: dict[int, int] = {}
    levels = [0] * len(scores)
    for at in np.argsort(scores, kind="stable"):
        levels[at] = stacked.get(bins[at], 0)
        stacked[bins[at]] = levels[at] + 1
    return levels


def _side(x: float, name: str, mean: float) -> tuple[float, float]:
    """Return both ends of a dot with its name, in per cent: on the side that crosses no mean and no margin."""
    width = 3.5 + _LETTER * len(name)
    return (x - width, x + 1.5) if x + width > 100 or x < mean < x + width else (x - 1.5, x + width)


def _named_levels(sides: Sequence[tuple[float, float]]) -> list[int]:
    """Return the lowest level of each dot on which it has room with its name."""
    ends: list[float] = []
    levels = [0] * len(sides)
    for at, (start, end) in sorted(enumerate(sides), key=lambda side: side[1]):
        levels[at] = next((level for level, taken in enumerate(ends) if taken <= start), len(ends))
        ends[levels[at] : levels[at] + 1] = [end]
    return levels


def dots_bar(values: Iterable[float], axis: Axis, label: str) -> Markup:
    """Return a dot for each difference, on a line around 0."""
    zero = axis.at(0.0)
    dots = [_DOT.format("", "", short(axis.at(value)), 13, 4, plain(value, 1, "+")) for value in values]
    return svg(26, label, _line("axis", 0, 100, 13, 13), _line("mean", zero, zero, 3, 23), *dots)


def share_bar(share: float, low: float, high: float, label: str) -> Markup:
    """Return a share (0..1) as a bar with its interval, and the line of one half that decides a verdict."""
    half = Markup('<line class="half" x1="50%" x2="50%" y1="0" y2="26"/>')
    if not math.isfinite(share):
        return svg(26, label, half)
    bar = Markup('<rect class="bar" x="0" y="5" height="16" width="{}%"/>').format(short(100 * share))
    ends = [Markup("")]
    if math.isfinite(low) and math.isfinite(high):
        ends = whisker(100 * low, 100 * high, 13)
    return svg(26, label, bar, half, *ends, _point(100 * share, 13))


def whisker(start: float, end: float, y: float) -> list[Markup]:
    """Return an interval between two places in per cent."""
    ends = [_line("interval", x, x, y - 5, y + 5) for x in (start, end)]
    return [_line("interval", start, end, y, y), *ends]


def difference_bar(value: float, low: float, high: float, axis: Axis, label: str, *, margin: float = 0.0) -> Markup:
    """Return a difference with its interval around 0, and in grey what is too small to matter."""
    parts = []
    if margin > 0:
        start, end = axis.at(-margin), axis.at(margin)
        parts.append(_band(start, end, 0, 26))
    zero = axis.at(0.0)
    parts.append(_line("mean", zero, zero, 0, 26))
    if math.isfinite(low) and math.isfinite(high):
        parts += whisker(axis.at(low), axis.at(high), 13)
    if math.isfinite(value):
        parts.append(_point(axis.at(value), 13))
    return svg(26, label, *parts)


def amount_bar(value: float, low: float, high: float, words: str) -> Markup:
    """Return an amount as a bar from 0 with its interval, as shares of the largest; the words follow it."""
    if not math.isfinite(value):
        return svg(26, words, text(0, 17, words))
    room = 72  # per cent; the words need the rest
    ends = [Markup("")]
    if math.isfinite(low) and math.isfinite(high):
        ends = whisker(room * low, room * high, 13)
    bar = Markup('<rect class="amount" x="0" y="8" height="10" width="{}%"/>').format(short(room * value))
    place = room * max(value, high if math.isfinite(high) else value) + 2
    return svg(26, words, bar, *ends, text(place, 17, words, kind="strong", anchor="start"))


def parts_bar(counts: Sequence[float], names: Sequence[str]) -> Markup:
    """Return how a whole is divided, as one bar whose parts have the colours 0, 1, ... of the page."""
    whole, start, drawn = sum(counts), 0.0, []
    for number, count in enumerate(counts):
        width = 100 * count / whole if whole else 0.0
        if not count:
            continue
        kind = number % 8
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


def _line(kind: str, start: float, end: float, top: float, bottom: float) -> Markup:
    return _LINE.format(kind, *map(short, (start, end, top, bottom)))


def _band(start: float, end: float, top: float, height: float) -> Markup:
    box = Markup('<rect class="band" x="{}%" width="{}%" y="{}" height="{}"/>')
    return box.format(*map(short, (start, end - start, top, height)))


def short(value: float) -> str:
    """Return a place with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
