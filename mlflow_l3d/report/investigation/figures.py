"""The figures of a report: pure functions from records to a matplotlib ``Figure``, without pyplot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.strategies import IMPORTANT_SHARE
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.investigation.verdicts import by_importance, golden_runs, golden_share, golden_word, level_of
from mlflow_l3d.report.numbers import percent, points, shorten, signed
from mlflow_l3d.report.style import (
    BLUE,
    GREY,
    INK,
    LIGHT_BLUE,
    MUTED,
    NAME,
    ORANGE,
    TITLE,
    dress,
    legend,
    name_rows,
    new_figure,
    settings,
    typical_range,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def importance_bars(analysis: Analysis) -> Figure:
    """Return the factors, most important first: published score as bar, corrected score and interval as whisker.

    Of a baseline strategy: the std of the runs as a share of the golden std, and the half from which on it counts.
    """
    records = by_importance(analysis)
    at = np.arange(len(records))
    with settings():
        figure = new_figure(1.35 + 0.42 * max(len(records), 1))
        axes = figure.subplots()
        draw = _shares if design_named(analysis.design).baseline else _importances
        values = draw(axes, at, records)
        for row in at[np.isnan(values)]:
            axes.text(0, row, "  n/a", va="center", color=MUTED, fontsize=9)
        name_rows(axes, [record.factor for record in records])
        legend(figure, axes)
    return figure


def _importances(axes: Axes, at: npt.NDArray[np.int64], records: Sequence[Importance]) -> FloatArray:
    published = _finite([record.importance for record in records])
    corrected = _finite([record.importance_corrected for record in records])
    ends = _finite([(record.importance_ci_low, record.importance_ci_high) for record in records]).reshape(-1, 2)
    dress(axes, x="importance (no unit): above 0 the factor moves the score more than all others", grid="x")
    axes.barh(at, published, height=0.56, color=LIGHT_BLUE, label="published score")
    axes.hlines(at, ends[:, 0], ends[:, 1], color=ORANGE, linewidth=2.2)
    axes.plot(corrected, at, "o", color=ORANGE, markersize=6)
    label = f"corrected score, {percent(level_of(records))} interval"
    axes.plot([], [], "-o", color=ORANGE, linewidth=2.2, markersize=6, label=label)
    axes.axvline(0, color=INK, linewidth=1)
    reach = np.nanmax(np.abs(np.concatenate([published, corrected, ends.ravel(), [0.25]])))
    axes.set_xlim(-1.12 * reach, 1.12 * reach)
    return published


def _shares(axes: Axes, at: npt.NDArray[np.int64], records: Sequence[Importance]) -> FloatArray:
    shares = _finite([golden_share(record) for record in records])
    word = golden_word(next(iter(records), None))
    dress(axes, x=f"std of the runs / {word} std", grid="x")
    axes.barh(at, shares, height=0.56, color=LIGHT_BLUE, label="std of the runs, as a share")
    label = f"important by the {records[0].design if records else 'baseline'} strategy from here on"
    axes.axvline(IMPORTANT_SHARE, color=ORANGE, linewidth=1.6, label=label)
    axes.set_xlim(0, 1.08 * np.nanmax(np.concatenate([shares, [1.0]])))
    return shares


def convergence(path: pd.DataFrame, factor: str, *, level: float = 0.95) -> Figure:
    """Return how the importance of a factor settled while rows were added.

    Parameters
    ----------
    path
        One line a number of rows: columns ``rows``, ``importance``, ``importance_corrected``, ``importance_ci_low`` and
        ``importance_ci_high``; nan where there is none yet.
    factor
        Its name, for the title.
    level
        Confidence level of the interval, for the legend.
    """
    from matplotlib.ticker import MaxNLocator

    ordered = path.sort_values("rows")
    rows = _finite(ordered["rows"])
    published, corrected = _finite(ordered["importance"]), _finite(ordered["importance_corrected"])
    low, high = _finite(ordered["importance_ci_low"]), _finite(ordered["importance_ci_high"])
    with settings():
        figure = new_figure(2.7)
        axes = figure.subplots()
        title = f"{shorten(factor, 40)}: the score as rows were added"
        dress(axes, x="mitigation runs (rows) done", y="importance (no unit)", title=title, grid="y")
        # A line through one point is not drawn.
        mark = "o" if len(rows) < 4 else ""
        axes.fill_between(rows, low, high, color=ORANGE, alpha=0.16, linewidth=0, label=f"{percent(level)} interval")
        look: Any = {"linewidth": 1.8, "marker": mark, "markersize": 4}
        axes.plot(rows, corrected, color=ORANGE, linestyle="--", label="corrected", **look)
        axes.plot(rows, published, color=BLUE, label="published", **look)
        axes.axhline(0, color=INK, linewidth=1)
        if np.isfinite(published).any():
            last = int(np.flatnonzero(np.isfinite(published))[-1])
            axes.plot(rows[last], published[last], "o", color=BLUE, markersize=5)
            axes.annotate(
                signed(published[last]).replace("-", "\N{MINUS SIGN}"),
                (rows[last], published[last]),
                xytext=(6, 7),
                textcoords="offset points",
                va="center",
                color=BLUE,
                fontweight="bold",
                annotation_clip=False,
            )
        else:
            axes.text(0.5, 0.6, "no score yet", transform=axes.transAxes, ha="center", color=MUTED)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.02)
        legend(figure, axes)
    return figure


def golden_distribution(importances: Mapping[str, Importance], *, metric: str = "score") -> Figure:
    """Return histograms of the golden scores and of every factor's table on one axis of percentage points.

    Golden runs vary every factor, a table varies its factor (within a row) and all others (between rows). Each
    histogram shows the share of its own runs, so that their widths compare whatever the number of runs. Scores outside
    :func:`mlflow_l3d.report.style.typical_range` are counted at the edge of the picture.
    """
    golden = max((record.golden for record in importances.values()), key=_count, default=np.empty(0))
    first = next(iter(importances.values()), None)
    groups = [(golden_runs(first), golden, BLUE)]
    groups += [(name, record.table.ravel(), GREY) for name, record in importances.items()]
    every = np.concatenate([_present(values) for _, values, _ in groups])
    with settings():
        figure = new_figure(1.1 + 0.72 * len(groups))
        panels = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
        edges = _edges(every)
        for panel, (name, values, colour) in zip(panels, groups, strict=True):
            _histogram(panel, shorten(name, NAME), _present(values), edges, colour)
        panels[0].set_title("Scores of single runs", **TITLE)
        panels[-1].set_xlabel(f"{shorten(metric, 40)} (percentage points)", color=MUTED, fontsize=9, parse_math=False)
    return figure


def _histogram(axes: Axes, name: str, scores: FloatArray, edges: FloatArray, colour: str) -> None:
    dress(axes)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    label = f"{name}\nno scores"
    if len(scores):
        label = f"{name}\n{points(scores.mean() / 100)} ± {points(scores.std() / 100)}"
        share = np.full(len(scores), 1 / len(scores))
        axes.hist(scores, bins=list(edges), weights=share, color=colour, rwidth=0.92)
        top = axes.get_ylim()[1]
        within = (scores >= edges[0]) & (scores <= edges[-1])
        inside = _distinct(scores[within], edges)
        axes.plot(inside, np.full(len(inside), -0.1 * top), "|", color=colour, markersize=6, markeredgewidth=0.7)
        if edges[0] <= scores.mean() <= edges[-1]:
            axes.axvline(scores.mean(), color=INK, linewidth=1.2)
        # Room for the words about scores that lie outside.
        room = 1.0 if within.all() else 1.45
        axes.set_ylim(-0.2 * top, room * top)
        _outside(axes, scores, edges)
    axes.set_ylabel(
        label, rotation=0, ha="left", va="center", multialignment="left", color=INK, fontsize=9, parse_math=False
    )
    axes.yaxis.set_label_coords(-0.26, 0.45)


def _outside(axes: Axes, scores: FloatArray, edges: FloatArray) -> None:
    below, above = scores[scores < edges[0]], scores[scores > edges[-1]]
    look: Any = {"transform": axes.transAxes, "va": "top", "fontsize": 8, "color": ORANGE}
    if len(below):
        axes.text(0.0, 1.0, f"← {len(below)} below, lowest {below.min():.1f}", **look)
    if len(above):
        axes.text(1.0, 1.0, f"{len(above)} above, highest {above.max():.1f} →", ha="right", **look)


def _distinct(scores: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the scores without those that would be drawn on top of each other; keeps a page of many runs small."""
    place = np.round((scores - edges[0]) / (edges[-1] - edges[0]) * 600)
    return scores[np.unique(place, return_index=True)[1]]


def _edges(scores: FloatArray) -> FloatArray:
    bins = int(np.clip(round(4 * len(scores) ** (1 / 3)), 8, 40))
    return np.linspace(*typical_range(scores), bins + 1)


def _finite(values: object) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    array[~np.isfinite(array)] = np.nan
    return array


def _present(values: FloatArray) -> FloatArray:
    return np.asarray(values[np.isfinite(values)] * 100, dtype=np.float64)


def _count(values: FloatArray) -> int:
    return int(np.isfinite(values).sum())
