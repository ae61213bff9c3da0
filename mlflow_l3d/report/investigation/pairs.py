"""Base against swap runs of a radial design."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.report.numbers import shorten, unit_of
from mlflow_l3d.report.style import BLUE, INK, MUTED, dress, panels, typical_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pair_scatter(importance: Importance, *, metric: str = "score") -> Figure:
    """Return the pairs of one factor as dots: score of the base run, and with that factor alone drawn anew.

    Parameters
    ----------
    importance
        Of a radial design: its table has shape (n, 2). Pairs that lack a run are counted, not drawn.
    metric
        What the scores are, for their unit and the axes.

    Notes
    -----
    The squared distance from the line of equal scores is the squared difference behind the contributed std (Jansen
    1999). Both axes span :func:`mlflow_l3d.report.style.typical_range`; dots outside stand at the edge, hollow.
    """
    unit = unit_of(metric)
    table = np.asarray(importance.table, dtype=np.float64) * unit.scale
    pairs = table[np.isfinite(table).all(axis=1)]
    title, score = (
        f"{shorten(importance.factor, 40)}: {len(pairs)} pairs of runs",
        f"{shorten(metric, 30)} ({unit.short})",
    )
    with panels(4.6, 1, 2, width_ratios=[2.0, 1.0]) as (figure, (axes, words)):
        dress(axes, x=f"base run, {score}", y=f"swap run, {score}", grid="both", title=title)
        low, high = typical_range(pairs)
        margin = 0.04 * (high - low)
        ends = (low - margin, high + margin)
        axes.plot(ends, ends, color=INK, linewidth=1)
        inside = ((pairs >= low) & (pairs <= high)).all(axis=1)
        axes.plot(*pairs[inside].T, "o", color=BLUE, markersize=4.5, alpha=0.75, markeredgewidth=0)
        edge = np.clip(pairs[~inside], low, high)
        axes.plot(*edge.T, "o", color="none", markeredgecolor=BLUE, markersize=5)
        axes.set(xlim=ends, ylim=ends, box_aspect=1)
        words.set_axis_off()
        lines = [
            "distance from the line:",
            f"contributed std {unit.text(importance.contributed_std)}",
            "spread along the line:",
            f"mitigated std {unit.text(importance.mitigated_std)}",
        ]
        if missing := len(table) - len(pairs):
            lines.append(f"pairs that lack a run: {missing}")
        if len(edge):
            lines.append(f"far outside (hollow): {len(edge)}")
        words.text(0, 0.98, "\n".join(lines), va="top", ha="left", fontsize=9, color=MUTED, linespacing=1.7)
    return figure
