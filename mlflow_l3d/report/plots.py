"""Plots of a page: scores of runs as a strip over one axis, dots over two axes, and a line with its band."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.draw import Axis, dot, drawn_band, drawn_line, nice_step, short, svg, text
from mlflow_l3d.report.numbers import counted, metric_text, unit_of
from mlflow_l3d.report.page import Drawing

_BINS: Final = 40
"""Stacks of dots at most."""
_MOST_DOTS: Final = 300
"""More runs are drawn as bars."""
_HEIGHT: Final = 150
"""Room for the highest stack, in pixels."""
_LETTER: Final = 2.1
"""Width of a letter in per cent of a narrow screen."""
_LEFT: Final = 14.0
_WIDTH: Final = 82.0
_BOTTOM: Final = 110.0
"""Places of the first and of the last dot in per cent, and of the lowest in pixels; the highest is 100 above."""
_PATH: Final = Markup(
    '<svg class="path" role="img" aria-label="{}" viewBox="0 0 100 80" preserveAspectRatio="none">{}</svg>'
)


def score_strip(
    scores: FloatArray,
    metric: Metric,
    *,
    std: float,
    run: str,
    term: str = "",
    names: Sequence[str] = (),
    dot_labels: Sequence[str] = (),
    collapsed: Collection[int] = (),
) -> Drawing:
    """Return the scores of runs, their mean and one standard deviation around it.

    Parameters
    ----------
    scores
        Shape (n,): finite, in the unit of the metric.
    std
        The standard deviation of a run.
    run, term
        What a run is called, and the term of a page that says what it is.
    names, dot_labels
        As in :func:`strip`; runs are numbered by default.
    collapsed
        Places of the runs that collapsed.
    """
    unit = unit_of(metric)
    values, spread = unit.scale * scores, unit.scale * std
    shown = partial(unit.written, digits=unit.digits(std))
    mean = float(values.mean())
    ends = f"{shown(float(values.min()))} to {shown(float(values.max()))}, mean {shown(mean)}"
    html = strip(
        values,
        names or [f"run {at + 1}" for at in range(len(values))],
        band=(mean - spread, mean + spread) if spread > 0 else None,
        label=f"{metric_text(metric)} of {len(values)} {run}s: {ends}",
        shown=shown,
        dot_labels=dot_labels,
        hollow=collapsed,
    )
    hollow = " Hollow: [[collapsed|collapsed]]." if collapsed else ""
    better = "" if metric.greater_is_better else " Smaller is better."
    return Drawing(html, f"{marks_text(values, run, term)} Band: ± 1 [[standard deviation|std]].{hollow}{better}")


def strip(
    scores: FloatArray,
    names: Sequence[str],
    *,
    band: tuple[float, float] | None,
    label: str,
    shown: Callable[[float], str],
    dot_labels: Sequence[str] = (),
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
    dot_labels
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
    named = [_side(axis.at(score), name, axis.at(mean)) for score, name in zip(scores, dot_labels, strict=False)]
    sides = named or [(at, at + 1) for at in bins.tolist()]
    levels = _levels(scores, sides)
    highest = max(levels) + 1
    pitch = 16.0 if dot_labels else min(11.0, _HEIGHT / highest)
    bottom = max(pitch * highest, 60.0) + 26
    parts: list[Markup] = []
    if band is not None:
        start, end = map(axis.at, band)
        parts.append(drawn_band(start, end, 18, bottom - 18))
    are_dots = as_dots(scores)
    parts += [] if are_dots else _columns(axis, width, bins, pitch, bottom)
    for at in np.argsort(scores, kind="stable") if are_dots else ():
        x = axis.at(scores[at] if dot_labels else axis.low + width * bins[at])
        y = bottom - pitch * (levels[at] + 0.5)
        told = f"{names[at]}: {shown(float(scores[at]))}"
        size = max(1.0, min(4.6, 0.43 * pitch))
        parts.append(dot(x, y, told, radius=size, run=str(at), hollow=at in hollow))
        if dot_labels:
            anchor, shift = ("start", 8) if sides[at][1] > x + 2 else ("end", -8)
            parts.append(text(x, y + 4, dot_labels[at], anchor=anchor, shift=shift))
    parts += [drawn_line("mean", axis.at(mean), axis.at(mean), 16, bottom), axis.drawn(bottom)]
    parts.append(text(axis.at(mean), 11, f"mean {shown(mean)}", kind="strong"))
    return svg(bottom + 24, label, *parts)


def as_dots(scores: FloatArray) -> bool:
    """Return whether the runs are few enough to be drawn as dots; more are drawn as bars."""
    return len(scores) <= _MOST_DOTS


def marks_text(scores: FloatArray, name: str, term: str = "") -> str:
    """Return what the marks of a strip are: dots or bars of runs with a name, whose meaning is a term of a page."""
    marks = "Dots:" if as_dots(scores) else "A bar: how many"
    return f"{marks} {f'[[{name}s|{term}]]' if term else f'{name}s'}."


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


def _side(x: float, name: str, mean: float) -> tuple[float, float]:
    """Return both ends of a dot with its name, in per cent: on the side that crosses no mean and no margin."""
    width = 3.5 + _LETTER * len(name)
    return (x - width, x + 1.5) if x + width > 100 or x < mean < x + width else (x - 1.5, x + width)


def _levels(scores: FloatArray, sides: Sequence[tuple[float, float]]) -> list[int]:
    """Return the lowest level of each dot on which it has room between its sides; lower scores come first."""
    ends: list[float] = []
    levels = [0] * len(sides)
    for at in sorted(np.argsort(scores, kind="stable").tolist(), key=sides.__getitem__):
        start, end = sides[at]
        levels[at] = next((level for level, taken in enumerate(ends) if taken <= start), len(ends))
        ends[levels[at] : levels[at] + 1] = [end]
    return levels


def scatter(
    places: FloatArray,
    values: FloatArray,
    axis: Axis,
    ticks: Sequence[tuple[float, str]],
    label: str,
    *,
    names: Sequence[str],
    line: FloatArray | None = None,
    hollow: Collection[int] = (),
) -> Markup:
    """Return a dot for each pair of a place from left to right and a value, which is the higher the larger it is.

    Parameters
    ----------
    places
        Shape (n,): 0 is at the left, 1 at the right.
    values, axis
        Shape (n,), and their axis, which is upright here.
    ticks
        Place and text of each tick below.
    label
        For readers who cannot see it.
    names
        One per dot: what a reader sees who points at it.
    line
        Shape (n,): values that a line of steps joins; None if there is none.
    hollow
        Places of the dots that are not filled.
    """
    across = [_LEFT + _WIDTH * float(place) for place in places]

    def down(value: float) -> float:
        return _BOTTOM - axis.at(value)

    parts = [drawn_line("axis", 10, 100, down(tick), down(tick)) for tick in axis.ticks]
    parts += [text(0, down(tick) + 4, axis.tick_text(tick)) for tick in axis.ticks]
    parts += [text(_LEFT + _WIDTH * place, _BOTTOM + 20, words, anchor="middle") for place, words in ticks]
    steps = [] if line is None else [*zip(across, map(down, line), strict=True)]
    for (start, height), (end, next_height) in pairwise(steps):
        parts.append(drawn_line("mean", start, end, height, height))
        parts.append(drawn_line("mean", end, end, height, next_height))
    dots = enumerate(zip(across, map(down, values), names, strict=True))
    parts += [dot(x, y, name, hollow=at in hollow) for at, (x, y, name) in dots]
    return svg(_BOTTOM + 26, label, *parts)


def path(values: FloatArray, low: FloatArray, high: FloatArray, label: str, *, ends: tuple[float, float]) -> Markup:
    """Return a line with the band of its intervals, over 1, 2, ..., and the line of one half; nan are left out.

    Parameters
    ----------
    values, low, high
        Shape (n,).
    label
        For readers who cannot see it.
    ends
        Of the upright axis.
    """
    across = 100 * np.arange(len(values)) / max(1, len(values) - 1)

    def down(each: FloatArray) -> FloatArray:
        return np.asarray(80 - 80 * (np.clip(each, *ends) - ends[0]) / (ends[1] - ends[0]))

    has_value = np.isfinite(values)
    has_band = np.isfinite(low) & np.isfinite(high)
    outline = [*zip(across[has_band], down(high)[has_band], strict=True)]
    outline += [*zip(across[has_band], down(low)[has_band], strict=True)][::-1]
    line = [*zip(across[has_value], down(values)[has_value], strict=True)]
    middle = float(down(np.array([sum(ends) / 2]))[0])
    inner = Markup("").join(
        [
            Markup('<polygon class="area" points="{}"/>').format(_points(outline)),
            Markup('<line class="half" x1="0" x2="100" y1="{0}" y2="{0}"/>').format(short(middle)),
            Markup('<polyline class="line" points="{}"/>').format(_points(line)),
        ]
    )
    return _PATH.format(label, inner)


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{short(x)},{short(y)}" for x, y in places)
