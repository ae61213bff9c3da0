"""Dots, and lines, over two axes as SVG."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report.draw import Axis, dot, drawn_line, short, svg, text

_LEFT: Final = 14.0
_WIDTH: Final = 82.0
_BOTTOM: Final = 110.0
"""Places of the first and of the last dot in per cent, and of the lowest in pixels; the highest is 100 above."""
_PATH: Final = Markup(
    '<svg class="path" role="img" aria-label="{}" viewBox="0 0 100 80" preserveAspectRatio="none">{}</svg>'
)


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

    has_value, has_band = np.isfinite(values), np.isfinite(low) & np.isfinite(high)
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
