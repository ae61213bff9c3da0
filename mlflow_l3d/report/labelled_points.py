"""Points with names and an axis of sizes: where names stand clear of each other, and ticks that can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

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
    dots = axes.transData.transform(np.column_stack([x, y])) * scale
    frame = axes.get_window_extent()
    taken = np.column_stack([dots - 3, dots + 3])
    for name, at, dot in zip(names, zip(x, y, strict=True), dots, strict=True):
        text = shorten(name, _LONGEST)
        width, shift = 0.6 * _SIZE * len(text), np.array(_PLACES)
        start = dot + shift - np.column_stack([width * (1 - np.sign(shift[:, 0])) / 2, np.ones(len(shift))])
        boxes = np.column_stack([start, start + np.array([width, _SIZE + 1])])  # left, bottom, right, top
        common = np.minimum(boxes[:, None, 2:], taken[:, 2:]) - np.maximum(boxes[:, None, :2], taken[:, :2])
        outside = np.maximum(0, frame.x0 * scale - boxes[:, 0]) + np.maximum(0, boxes[:, 2] - frame.x1 * scale)
        best = int(np.argmin(common.clip(0).prod(axis=2).sum(axis=1) + 20 * outside))
        taken = np.vstack([taken, boxes[best]])
        side = ("right", "center", "left")[int(np.sign(shift[best, 0])) + 1]
        look: Any = {"textcoords": "offset points", "fontsize": _SIZE, "color": MUTED, "parse_math": False}
        axes.annotate(text, at, xytext=_PLACES[best], ha=side, **look)
