"""Dots over two axes as SVG; places from left to right are per cent, as in all pictures of a page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report.draw import Axis, svg, text

_LEFT: Final = 14.0
_WIDTH: Final = 82.0
_BOTTOM: Final = 110.0
"""Places of the first and of the last dot in per cent, and of the lowest in pixels; the highest is 100 above."""
_LINE: Final = Markup('<line class="{}" x1="{:.1f}%" x2="{:.1f}%" y1="{:.1f}" y2="{:.1f}"/>')
_DOT: Final = Markup('<circle class="dot" cx="{:.1f}%" cy="{:.1f}" r="3.5"><title>{}</title></circle>')


def scatter(
    places: FloatArray,
    values: FloatArray,
    axis: Axis,
    ticks: Sequence[tuple[float, str]],
    label: str,
    *,
    names: Sequence[str],
    line: FloatArray | None = None,
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
    """
    across = [_LEFT + _WIDTH * float(place) for place in places]

    def down(value: float) -> float:
        return _BOTTOM - axis.at(value)

    parts = [_LINE.format("axis", 10, 100, down(tick), down(tick)) for tick in axis.ticks]
    parts += [text(0, down(tick) + 4, axis.tick_text(tick)) for tick in axis.ticks]
    parts += [text(_LEFT + _WIDTH * place, _BOTTOM + 20, words, anchor="middle") for place, words in ticks]
    steps = [] if line is None else [*zip(across, map(down, line), strict=True)]
    for (start, height), (end, next_height) in pairwise(steps):
        parts.append(_LINE.format("mean", start, end, height, height))
        parts.append(_LINE.format("mean", end, end, height, next_height))
    parts += [_DOT.format(x, down(value), name) for x, value, name in zip(across, values, names, strict=True)]
    return svg(_BOTTOM + 26, label, *parts)
