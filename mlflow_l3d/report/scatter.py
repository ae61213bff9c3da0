"""A line with the band of its intervals as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report.draw import short

_PATH: Final = Markup(
    '<svg class="path" role="img" aria-label="{}" viewBox="0 0 100 80" preserveAspectRatio="none">{}</svg>'
)


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
    steps = np.arange(len(values))
    across = 100 * steps / max(1, len(values) - 1)

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
