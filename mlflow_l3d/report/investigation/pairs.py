"""Base against swap runs of a radial design."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.report.numbers import points, shorten
from mlflow_l3d.report.style import BLUE, INK, MUTED, dress, new_figure, settings, typical_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pair_scatter(importance: Importance, *, metric: str = "score") -> Figure:
    """Return the pairs of one factor as dots: score of the base run, and with that factor alone drawn anew.

    Parameters
    ----------
    importance
        Of a radial design: its table has shape (n, 2), fractions (0..1); percentage points are shown. Pairs that lack a
        run are counted, not drawn.
    metric
        What the scores are, for the axes.

    Notes
    -----
    The squared distance from the line of equal scores is the squared difference behind the contributed std (Jansen
    1999). Both axes span :func:`mlflow_l3d.report.style.typical_range`; dots outside stand at the edge, hollow.
    """
    table = np.asarray(importance.table, dtype=np.float64) * 100
    pairs = table[np.isfinite(table).all(axis=1)]
    name, unit = shorten(importance.factor, 40), f"{shorten(metric, 30)} (pp)"
    with settings():
        figure = new_figure(4.6)
        axes, words = figure.subplots(1, 2, width_ratios=[2.0, 1.0])
        dress(axes, x=f"base run, {unit}", y=f"swap run, {unit}", grid="x", title=f"{name}: {len(pairs)} pairs of runs")
        axes.yaxis.grid(visible=True, color=axes.xaxis.get_gridlines()[0].get_color(), linewidth=0.7)
        low, high = typical_range(pairs)
        margin = 0.04 * (high - low)
        ends = (low - margin, high + margin)
        axes.plot(ends, ends, color=INK, linewidth=1)
        inside = ((pairs >= low) & (pairs <= high)).all(axis=1)
        axes.plot(*pairs[inside].T, "o", color=BLUE, markersize=4.5, alpha=0.75, markeredgewidth=0)
        edge = np.clip(pairs[~inside], low, high)
        axes.plot(*edge.T, "o", color="none", markeredgecolor=BLUE, markersize=5)
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        axes.set_box_aspect(1)
        words.set_axis_off()
        words.text(0, 0.98, "\n".join(_lines(importance, len(table) - len(pairs), len(edge))), **_TEXT)
    return figure


_TEXT = {"va": "top", "ha": "left", "fontsize": 9, "color": MUTED, "linespacing": 1.7}


def _lines(importance: Importance, missing: int, outside: int) -> list[str]:
    lines = [
        "distance from the line:",
        f"contributed std {points(importance.contributed_std)}",
        "spread along the line:",
        f"mitigated std {points(importance.mitigated_std)}",
    ]
    if missing:
        lines.append(f"pairs that lack a run: {missing}")
    if outside:
        lines.append(f"far outside (hollow): {outside}")
    return lines
