"""Points with names and an axis of sizes: where names stand clear of each other, and ticks that can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.report.style import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mlflow_l3d.analysis.typing import FloatArray

_SIZE: Final = 6.8
"""Points, of a name."""
_LONGEST: Final = 14
_PLACES: Final = ((5, 2), (5, -8), (-5, 2), (-5, -8), (0, 7), (0, -13), (5, 9), (-5, 9))
"""Where a name may begin or, to the left, end, in points from its dot; the first that is clear is taken."""

_Box = tuple[float, float, float, float]


def size_ticks(smallest: float, largest: float, most: int = 4) -> list[float]:
    """Return ticks for a logarithmic axis of counts: 1, 2, 5, 10, ..., or fewer where they are more than `most`."""
    low, high = smallest / 1.25, largest * 1.25
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [digit * 10.0**power for power in powers for digit in digits]
        found = [tick for tick in found if low <= tick <= high]
        if len(found) <= most:
            break
    return found[:: -(-len(found) // most)] if found else [smallest]


def name_points(axes: Axes, names: Sequence[str], x: FloatArray, y: FloatArray) -> None:
    """Write a name beside each point, clear of other names and points where there is room.

    Parameters
    ----------
    axes
        Drawn once, so that its place on the page is known.
    names
        One a point.
    x, y
        Shape (n,), in the unit of the axes.
    """
    figure = axes.get_figure()
    scale = 72 / (figure.dpi if figure is not None else 72)
    places = axes.transData.transform(list(zip(x, y, strict=True))) * scale
    frame = axes.get_window_extent()
    left, right = frame.x0 * scale, frame.x1 * scale
    taken: list[_Box] = [(px - 3, py - 3, px + 3, py + 3) for px, py in places]
    for name, at, (px, py) in zip(names, zip(x, y, strict=True), places, strict=True):
        text = shorten(name, _LONGEST)
        boxes = [_box(px, py, place, len(text)) for place in _PLACES]
        costs = [sum(_overlap(box, other) for other in taken) + _outside(box, left, right) for box in boxes]
        best = costs.index(min(costs))
        taken.append(boxes[best])
        dx, dy = _PLACES[best]
        axes.annotate(
            text,
            at,
            xytext=(dx, dy),
            textcoords="offset points",
            ha="left" if dx > 0 else "right" if dx < 0 else "center",
            fontsize=_SIZE,
            color=MUTED,
            parse_math=False,
        )


def _box(px: float, py: float, place: tuple[int, int], letters: int) -> _Box:
    width, (dx, dy) = 0.6 * _SIZE * letters, place
    start = px + dx - (0 if dx > 0 else width if dx < 0 else width / 2)
    return start, py + dy - 1, start + width, py + dy + _SIZE


def _overlap(one: _Box, other: _Box) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def _outside(box: _Box, left: float, right: float) -> float:
    return 20 * (max(0.0, left - box[0]) + max(0.0, box[2] - right))
