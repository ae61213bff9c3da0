"""Figures 1 to 5 of Pecher et al. (2024), from the table of a sweep, next to the printed numbers.

A bar is the corrected importance with its interval: of ours that of the report, of the paper's what its importance
tends to with many runs (``precision.py``). A diamond is the importance as the paper defines it, the bar of its own
figures. Bars whose interval contains 0 are pale and hatched.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import style
from figure_data import FIGURES, OURS, PUBLISHED, Layout, figure_data
from published import CLASSES, FACTORS

from mlflow_l3d.report.numbers import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "draw", "figure_data"]

_NOTE: Final = (
    "Bar: corrected importance (of the paper: with many runs) and interval. Diamond: as published. Pale: undecided."
)
_NOTE_LINES: Final = "Corrected importance and interval. Hollow: undecided."
_DRAWN_ONLY: Final = "The paper has these values in a picture only, so here are ours alone."
_MARKERS: Final = "osD^vPX"
_LIMITS: Final = (-1.08, 1.4)


def draw(
    what: str, frame: pd.DataFrame | None, folder: str | Path, *, approach: str = "", model: str = ""
) -> list[Path]:
    """Draw a figure and return the paths of its PNG files; none if there is nothing to draw.

    Parameters are the same as of :func:`figure_data`, and the folder, which is made if it is not there.
    """
    data = figure_data(what, frame, approach=approach, model=model)
    if data.empty:
        return []
    path = Path(folder) / f"{what}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    style.save_png(drawn(what, data), path)
    return [path]


def drawn(what: str, data: pd.DataFrame) -> Figure:
    """Return a figure of the data that :func:`figure_data` returns, which are not empty."""
    layout = FIGURES[what]
    places = _places(data, layout)
    down, across = max(row for row, _ in places) + 1, max(column for _, column in places) + 1
    lines = layout.x == "shots"
    with style.panels(1.1 + (2.1 if lines else 1.75) * down, down, across, sharey=True) as (figure, every):
        colours = _colours(data, layout)
        for at, axes in enumerate(every):
            row, column = place = divmod(at, across)
            if place not in places:
                axes.set_visible(False)
                continue
            title, rows = places[place]
            if lines:
                _lines(axes, rows, colours)
            else:
                _bars(axes, rows, layout, colours)
            last = (row + 1, column) not in places
            style.dress(axes, grid="y", x="examples a class" if lines and last else "")
            axes.set_title(shorten(title, 46), **{**style.TITLE, "fontsize": 8.5})
            axes.axhline(0, color=style.INK, linewidth=0.8, zorder=1)
            if column == 0:
                axes.set_ylabel("importance", **style.LABEL)
        heading = f"Figure {what.removeprefix('figure')} of Pecher et al. 2024: {layout.title}"
        words = [heading, _NOTE_LINES if lines else _NOTE, *([] if layout.printed else [_DRAWN_ONLY])]
        figure.suptitle("\n".join(words), **_HEADING)
        figure.legend(handles=_key(layout, colours), **_KEY)
    return figure


_HEADING: Final[Any] = {"color": style.INK, "fontsize": 8.5, "x": 0.01, "ha": "left"}
_KEY: Final[Any] = {"loc": "outside lower left", "ncols": 7, "frameon": False, "fontsize": 8, "labelcolor": style.INK}


def _places(data: pd.DataFrame, layout: Layout) -> dict[tuple[int, int], tuple[str, pd.DataFrame]]:
    """Return (row, column) -> title and rows of each panel."""
    panels: dict[tuple[int, int], tuple[str, pd.DataFrame]] = {}
    if layout.printed:
        down = 0
        for approach in dict.fromkeys(data["approach"]):
            sides = [
                list(data[(data["approach"] == approach) & (data["source"] == source)].groupby("name", sort=False))
                for source in (PUBLISHED, OURS)
            ]
            if not sides[1]:  # nothing of ours beside them
                for at, (name, rows) in enumerate(sides[0]):
                    panels[down + at // 2, at % 2] = f"{name}: {PUBLISHED}", rows
                down += -(-len(sides[0]) // 2)
                continue
            own = {name for name, _ in sides[0]}
            taken = 0
            for name, rows in sides[1]:
                at = [each for each, _ in sides[0]].index(name) if name in own else taken
                panels[down + at, 1] = f"{name}: {OURS}", rows
                taken = at + 1
            panels |= {(down + at, 0): (f"{name}: {PUBLISHED}", rows) for at, (name, rows) in enumerate(sides[0])}
            down += max(len(sides[0]), taken)
        return panels
    split = ["name", "factor"] if layout.x == "shots" else ["name", "task"]
    for row, (name, mine) in enumerate(data.groupby(split[0], sort=False)):
        for at, (part, rows) in enumerate(mine.groupby(split[1], sort=False)):
            across = 2 if layout.x == "shots" else min(3, data["task"].nunique())
            per_name = -(-data[split[1]].nunique() // across)
            panels[row * per_name + at // across, at % across] = f"{name}: {part}", rows
    return panels


def _colours(data: pd.DataFrame, layout: Layout) -> dict[Any, Any]:
    """Return a colour for each task or format: dark to light, by number of classes, which no one mixes up."""
    from matplotlib import colormaps

    names = list(dict.fromkeys(data[layout.series]))
    order = {task: at for at, task in enumerate(CLASSES)}
    names.sort(key=lambda name: (order.get(name, len(order)), name))
    scale = colormaps["viridis"](np.linspace(0.0, 0.93, max(2, len(names))))
    return dict(zip(names, scale[:, :3], strict=False))


def _bars(axes: Axes, rows: pd.DataFrame, layout: Layout, colours: dict[Any, Any]) -> None:
    factors = [factor for factor in FACTORS if factor in set(rows["factor"])]
    series = [name for name in colours if name in set(rows[layout.series])]
    width = 0.82 / max(1, len(series))
    for row in rows.to_dict("records"):
        x = factors.index(row["factor"]) + (series.index(row[layout.series]) - (len(series) - 1) / 2) * width
        look: Any = {"facecolor": colours[row[layout.series]], "edgecolor": colours[row[layout.series]]}
        if not row["certain"]:
            look["facecolor"] = (*colours[row[layout.series]], 0.22)
            look["hatch"] = "/////"
        axes.bar(x, row["value"], 0.88 * width, linewidth=0.5, zorder=2, **look)
        _whisker(axes, x, row)
        axes.plot(
            x,
            row["published_definition"],
            "D",
            color="white",
            markeredgecolor=style.INK,
            markersize=2.6,
            mew=0.7,
            zorder=4,
        )
    axes.set_xticks(range(len(factors)), [factor.replace("_", "\n") for factor in factors], parse_math=False)
    axes.set_ylim(*_LIMITS)


def _lines(axes: Axes, rows: pd.DataFrame, colours: dict[Any, Any]) -> None:
    ticks = sorted(set(rows["shots"]))
    shift = 0.03 * (ticks[-1] - ticks[0] or 1.0)
    tasks = list(colours)
    for at, task in enumerate(tasks):
        mine = rows[rows["task"] == task].sort_values("shots")
        x = mine["shots"] + (at - (len(tasks) - 1) / 2) * shift
        axes.plot(x, mine["value"], color=colours[task], linewidth=1.4, zorder=2)
        for place, row in zip(x, mine.to_dict("records"), strict=True):
            _whisker(axes, place, row, colours[task])
            face = colours[task] if row["certain"] else "white"
            axes.plot(
                place, row["value"], _MARKERS[at % 7], color=face, markeredgecolor=colours[task], markersize=5, zorder=4
            )
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylim(*_LIMITS)


def _whisker(axes: Axes, x: float, row: dict[Any, Any], colour: Any = style.INK) -> None:
    if not math.isnan(row["low"] + row["high"]):
        axes.plot([x, x], [row["low"], row["high"]], color=colour, linewidth=0.7, alpha=0.75, zorder=3)


def _key(layout: Layout, colours: dict[Any, Any]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for at, (name, colour) in enumerate(colours.items()):
        label = (
            f"{name} ({CLASSES[name]})" if name in CLASSES else f"format {name}" if layout.series != "task" else name
        )
        line = {"color": colour, "marker": _MARKERS[at % 7], "label": label}
        handles.append(Line2D([], [], **line) if layout.x == "shots" else Patch(facecolor=colour, label=label))
    return handles
