"""The figures of a sweep: heat maps, trends over numbers, golden standard deviations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import between, probability, shorten, signed
from mlflow_l3d.report.page import minus
from mlflow_l3d.report.style import Axes, Figure
from mlflow_l3d.studies.sweep.numbers.measured import GOLDEN_STD
from mlflow_l3d.studies.sweep.numbers.point import FACTOR, TASK, blocks_of, groups, value_of, value_text
from mlflow_l3d.studies.sweep.numbers.trends import Trend, scaled
from mlflow_l3d.studies.sweep.report.shown import Panel, ShownSweep, per, short

MOST_ROWS: Final = 60
"""A picture of more rows cannot be read; the page's own heat map has all of them."""
_ACROSS: Final = 3
_WIDE: Final = 4.6
"""Inches of a figure that names of rows and the key leave to its panels."""
_FULL: Final = 0.42
_LEAST: Final = 0.22
"""Inches that a number takes with all that belongs to it, and at least."""
_TALL: Final = 4.0
"""Inches from which on the key has room for all its words; the caption has them, too."""


def heatmap(shown: ShownSweep, columns: str = FACTOR, panel: str = "") -> Figure:
    """Return the corrected importance of every point and factor; what is undecided is pale, hatched and in italics.

    Parameters
    ----------
    shown
        The sweep.
    columns, panel
        As in :meth:`mlflow_l3d.studies.sweep.report.shown.ShownSweep.panels`.
    """
    panels = shown.panels(columns, panel)
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    rows = min(MOST_ROWS, max(len(each.rows) for each in panels))
    height = max(2.4, 0.9 + down * (0.75 + 0.24 * rows))
    with style.panels(min(height, 40.0), down, across) as (figure, every):
        image = None
        for axes, each in zip(every, panels, strict=False):
            image = _draw(axes, each, _WIDE / across, first=axes in every[::across] or len(panels) == 1)
            if axes in every[::across]:
                axes.set_ylabel(", ".join(name for name in shown.values if name not in (columns, panel)), **style.LABEL)
            if columns != FACTOR:
                axes.set_xlabel(columns, **style.LABEL)
        for axes in every[len(panels) :]:
            axes.set_visible(False)
        if image is not None:
            label = "corrected importance" + "   pale, hatched: undecided" * (height > _TALL)
            style.colour_bar(figure, image, every, label, aspect=max(8.0, 4.0 * figure.get_figheight()))
    return figure


def _draw(axes: Axes, panel: Panel, width: float, *, first: bool) -> Any:
    """Draw one panel, `width` inches wide; numbers are written as far as they fit into a cell."""
    values, unsure = panel.values[:MOST_ROWS], panel.uncertain[:MOST_ROWS]
    image = style.draw_matrix(axes, values, (style.BLUE, style.ORANGE), -1.0, 1.0)
    room = width / max(1, values.shape[1])
    size = 8.0 if room > 0.55 else 6.5
    for (row, column), value in np.ndenumerate(values):
        if not math.isfinite(value):
            continue
        look: Any = {"ha": "center", "va": "center", "fontsize": size, "color": "#10141c"}
        if unsure[row, column]:
            from matplotlib.patches import Rectangle

            box = (column - 0.5, row - 0.5), 1.0, 1.0
            axes.add_patch(Rectangle(*box, facecolor="#ffffff", alpha=0.55, linewidth=0))
            axes.add_patch(Rectangle(*box, fill=False, hatch="///", edgecolor=style.GREY, alpha=0.35, linewidth=0))
            look |= {"style": "italic", "color": style.MUTED}
        elif abs(value) > 0.75:
            look["color"] = "#ffffff"
        text = minus(signed(value))
        if room > _LEAST:
            axes.text(column, row, text if room > _FULL else text.replace("0.", "."), **look)
    names = [shorten(name, 20) for name in panel.columns]
    turned = max(map(len, names), default=0) * len(names) > 42 or not first
    turn: Any = {"rotation": 30, "ha": "right"} if turned and max(map(len, names), default=0) > 4 else {}
    axes.set_xticks(range(len(names)), names, parse_math=False, **turn)
    rows = [", ".join(map(short, name.split(", "))) for name in panel.rows[:MOST_ROWS]]
    labels = [shorten(name, 40) for name in rows] if first else [""] * len(values)
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.tick_params(length=0)
    if panel.title:
        axes.set_title(shorten(panel.title, 28), **{**style.TITLE, "fontsize": 9})
    if len(panel.rows) > MOST_ROWS:
        axes.set_xlabel(f"{len(panel.rows) - MOST_ROWS} more points are not drawn", **style.LABEL)
    return image


def trends(shown: ShownSweep, choice: str) -> Figure:
    """Return importance of each factor, and the golden standard deviation, over the values of a numeric choice.

    Points that are alike in all other choices are joined; the colour is that of their task. The line is the slope
    through the mean of all points.
    """
    slopes = [one for one in shown.sweep.trends if one.choice == choice]
    across = min(_ACROSS, len(slopes))
    down = -(-len(slopes) // across)
    with style.panels(0.7 + 2.3 * down, down, across) as (figure, every):
        for axes, one in zip(every, slopes, strict=False):
            _trend(axes, shown, one)
        for axes in every[len(slopes) :]:
            axes.set_visible(False)
        if len(shown.values.get(TASK, [])) > 1:
            style.legend(figure, every[0])
    return figure


def trend_points(shown: ShownSweep, one: Trend) -> pd.DataFrame:
    """Return what a trend is drawn from: ``x``, ``y``, ``low``, ``high``, ``task``, ``line`` (joined), ``told``."""
    sweep = shown.sweep
    golden = one.of == GOLDEN_STD
    rows = sweep.rows.drop_duplicates("point") if golden else sweep.rows[sweep.rows["factor"] == one.of]
    names = _GOLDEN if golden else _CORRECTED
    scale = shown.unit.scale if golden else 1
    blocks = blocks_of(sweep.points, sweep.choices, one.choice)
    points = []
    for row in rows.to_dict("records"):
        value = value_of(sweep.points[row["point"]], one.choice)
        if value is not None and math.isfinite(row[names[0]]):
            y, low, high = (scale * row[name] for name in names)
            line = str((row["task"], blocks[row["point"]]))
            told = _told(shown, row, names, shown.unit.text if golden else signed)
            points.append(
                {"x": float(value), "y": y, "low": low, "high": high, "task": row["task"], "line": line, "told": told}
            )
    return pd.DataFrame(points, columns=["x", "y", "low", "high", "task", "line", "told"])


def _told(shown: ShownSweep, row: Mapping[Any, Any], names: Sequence[str], text: Callable[[float], str]) -> str:
    """Return what is told of a point: its name, and a number with its interval."""
    value, low, high = (row[name] for name in names)
    return style.tooltip_url(shown.names[row["point"]], minus(f"{text(value)} ({between(low, high, text)})"))


_CORRECTED: Final = with_interval("importance_corrected")
_GOLDEN: Final = with_interval("golden_std")
_PALETTE: Final = (style.BLUE, style.ORANGE, "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", style.GREY)


def _trend(axes: Axes, shown: ShownSweep, one: Trend) -> None:
    frame, golden = trend_points(shown, one), one.of == GOLDEN_STD
    label = f"golden std ({shown.unit.short})" if golden else "corrected importance"
    style.dress(axes, x=one.choice, y=label, grid="y")
    interval = between(one.low, one.high, lambda end: shown.change(one.of, end))
    title = f"{shorten('golden std' if golden else one.of, 26)}\n"
    title += f"{shown.change(one.of, one.slope)} each {per(one)}\n({interval}), p {probability(one.p_holm)}"
    axes.set_title(minus(title), **{**style.LABEL, "fontsize": 8.5, "color": style.INK}, loc="left")
    if one.scale == "log2":
        axes.set_xscale("log", base=2)
    tasks = list(dict.fromkeys(frame["task"]))
    if not golden:
        axes.axhline(0, color=style.INK, linewidth=0.8)
    for line in groups(frame["line"].tolist()):
        part = frame.iloc[line].sort_values("x")
        colour = _PALETTE[tasks.index(part["task"].iloc[0]) % len(_PALETTE)]
        axes.plot(part["x"], part["y"], color=colour, linewidth=0.9, alpha=0.75)
        axes.vlines(part["x"], part["low"], part["high"], color=colour, linewidth=0.9, alpha=0.35)
        axes.scatter(part["x"], part["y"], s=14, linewidths=0, color=colour, alpha=0.75, urls=part["told"])
    for at, task in enumerate(tasks):
        axes.plot([], [], "o", color=_PALETTE[at % len(_PALETTE)], markersize=4, label=shorten(task, 16))
    along = np.linspace(frame["x"].min(), frame["x"].max(), 60)
    middle = float(scaled(frame["x"].to_numpy(dtype=np.float64), one.scale, one.step).mean())
    height = np.log(frame["y"]).mean() if golden else frame["y"].mean()
    line_y = height + one.slope * (scaled(along, one.scale, one.step) - middle)
    certain = shown.claimed(one.p_holm)
    look: Any = {"color": style.INK, "linewidth": 1.8, "linestyle": "-" if certain else "--"}
    axes.plot(along, np.exp(line_y) if golden else line_y, **look)
    values = sorted(set(frame["x"]))
    if len(values) <= 8:
        axes.set_xticks(values, [value_text(value) for value in values])
        axes.set_xticks([], minor=True)


def golden_stds(shown: ShownSweep) -> Figure:
    """Return the golden standard deviation of every point with its interval."""
    rows = shown.sweep.rows.drop_duplicates("point").dropna(subset=["golden_std"]).head(MOST_ROWS)
    at, scale = np.arange(len(rows)), shown.unit.scale
    value, low, high = (scale * rows[name].to_numpy(dtype=np.float64) for name in _GOLDEN)
    told = [_told(shown, row, _GOLDEN, shown.unit.text) for row in rows.to_dict("records")]
    with style.panels(0.9 + 0.24 * max(2, len(rows))) as (figure, (axes,)):
        style.dress(axes, x=f"golden standard deviation ({shown.unit.name})", grid="x")
        axes.hlines(at, low, high, color=style.BLUE, linewidth=1.6, alpha=0.5)
        axes.scatter(value, at, s=25, linewidths=0, color=style.BLUE, urls=told)
        axes.set_yticks(at, [shorten(shown.names[point], 48) for point in rows["point"]], parse_math=False)
        axes.set_title(shorten(shown.names_head, 60), **{**style.LABEL, "fontsize": 8.5}, loc="left")
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    return figure
