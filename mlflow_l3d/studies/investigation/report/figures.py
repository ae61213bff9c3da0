"""The figures of a report: pure functions from records to a matplotlib ``Figure``, without pyplot."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.importance.verdicts import IMPORTANT_SHARE
from mlflow_l3d.analysis.intervals import FloatArray, with_interval
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import Unit, percent, shorten, signed
from mlflow_l3d.report.style import Axes, Figure
from mlflow_l3d.studies.investigation.report.verdicts import Shown, golden_share


def importance_bars(shown: Shown) -> Figure:
    """Return the factors, largest corrected importance first: published importance as bar, corrected one as whisker.

    Of a baseline strategy: the std of the runs as a share of the golden std, and the half from which on it counts.
    """
    at = np.arange(len(shown.records))
    with style.panels(1.35 + 0.42 * max(len(at), 1)) as (figure, (axes,)):
        values = (_shares if shown.design.baseline else _importances)(axes, at, shown)
        for row in at[np.isnan(values)]:
            axes.text(0, row, "  n/a", va="center", color=style.MUTED, fontsize=9)
        style.name_rows(axes, [record.factor for record in shown.records])
        style.legend(figure, axes)
    return figure


def _importances(axes: Axes, at: npt.NDArray[np.int64], shown: Shown) -> FloatArray:
    published = _finite([record.importance for record in shown.records])
    corrected = _finite([record.importance_corrected for record in shown.records])
    low = _finite([record.importance_corrected_ci_low for record in shown.records])
    high = _finite([record.importance_corrected_ci_high for record in shown.records])
    style.dress(axes, x="corrected importance (no unit): above 0 the factor dominates", grid="x")
    axes.barh(at, published, height=0.56, color=style.LIGHT_BLUE, label="published importance")
    axes.hlines(at, low, high, color=style.ORANGE, linewidth=2.2)
    axes.plot(corrected, at, "o", color=style.ORANGE, markersize=6)
    label = f"corrected importance, {percent(shown.level)} interval"
    axes.plot([], [], "-o", color=style.ORANGE, linewidth=2.2, markersize=6, label=label)
    axes.axvline(0, color=style.INK, linewidth=1)
    reach = np.nanmax(np.abs(np.concatenate([published, corrected, low, high, [0.25]])))
    axes.set_xlim(-1.12 * reach, 1.12 * reach)
    return published


def _shares(axes: Axes, at: npt.NDArray[np.int64], shown: Shown) -> FloatArray:
    shares = _finite([golden_share(record) for record in shown.records])
    style.dress(axes, x=f"std of the runs / {shown.golden_word} std", grid="x")
    axes.barh(at, shares, height=0.56, color=style.LIGHT_BLUE, label="std of the runs, as a share")
    label = f"important by the {shown.analysis.design} strategy from here on"
    axes.axvline(IMPORTANT_SHARE, color=style.ORANGE, linewidth=1.6, label=label)
    axes.set_xlim(0, 1.08 * np.nanmax(np.concatenate([shares, [1.0]])))
    return shares


def convergence(path: pd.DataFrame, factor: str, *, level: float = 0.95) -> Figure:
    """Return how the importance of a factor settled while rows were added.

    Parameters
    ----------
    path
        One line a number of rows: columns ``rows``, ``importance``, ``importance_corrected``,
        ``importance_corrected_ci_low`` and ``importance_corrected_ci_high``; nan where there is none yet.
    factor
        Its name, for the title.
    level
        Confidence level of the interval, for the legend.
    """
    from matplotlib.ticker import MaxNLocator

    names = ["rows", "importance", *with_interval("importance_corrected")]
    rows, published, corrected, low, high = _finite(path.sort_values("rows")[names]).T
    with style.panels(2.7) as (figure, (axes,)):
        title = f"{shorten(factor, 40)}: importance as rows were added"
        style.dress(axes, x="mitigation runs (rows) done", y="importance (no unit)", title=title, grid="y")
        # A line through one point is not drawn.
        look: Any = {"linewidth": 1.8, "marker": "o" if len(rows) < 4 else "", "markersize": 4}
        axes.fill_between(
            rows, low, high, color=style.ORANGE, alpha=0.16, linewidth=0, label=f"{percent(level)} interval"
        )
        axes.plot(rows, corrected, color=style.ORANGE, linestyle="--", label="corrected", **look)
        axes.plot(rows, published, color=style.BLUE, label="published", **look)
        axes.axhline(0, color=style.INK, linewidth=1)
        if (finite := np.flatnonzero(np.isfinite(published))).size:
            last = rows[finite[-1]], published[finite[-1]]
            axes.plot(*last, "o", color=style.BLUE, markersize=5)
            text = signed(last[1]).replace("-", "\N{MINUS SIGN}")
            place: Any = {"xytext": (6, 7), "textcoords": "offset points", "va": "center", "annotation_clip": False}
            axes.annotate(text, last, color=style.BLUE, fontweight="bold", **place)
        else:
            axes.text(0.5, 0.6, "no score yet", transform=axes.transAxes, ha="center", color=style.MUTED)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.02)
        style.legend(figure, axes)
    return figure


def golden_distribution(shown: Shown) -> Figure:
    """Return histograms of the golden scores and of every factor's table on one axis.

    Golden runs vary every factor, a table varies its factor (within a row) and all others (between rows). Each
    histogram shows the share of its own runs, so that their widths compare whatever the number of runs. Scores outside
    :func:`mlflow_l3d.report.style.typical_range` are counted at the edge of the picture.
    """
    unit = shown.unit
    groups = {record.factor: record.table.ravel() for record in shown.records}
    groups = {shown.golden_runs: shown.golden.golden if shown.golden else np.empty(0), **groups}
    scores = {name: unit.scale * values[np.isfinite(values)] for name, values in groups.items()}
    every = np.concatenate(list(scores.values()))
    bins = int(np.clip(round(4 * len(every) ** (1 / 3)), 8, 40))
    edges = np.linspace(*style.typical_range(every), bins + 1)
    with style.panels(1.1 + 0.72 * len(groups), len(groups), sharex=True) as (figure, every_axes):
        for at, (axes, (name, own)) in enumerate(zip(every_axes, scores.items(), strict=True)):
            _histogram(axes, shorten(name, style.NAME), own, edges, style.GREY if at else style.BLUE, unit)
        every_axes[0].set_title("Scores of single runs", **style.TITLE)
        every_axes[-1].set_xlabel(f"{shorten(shown.analysis.metric.name, 40)} ({unit.name})", **style.LABEL)
    return figure


def _histogram(axes: Axes, name: str, scores: FloatArray, edges: FloatArray, colour: str, unit: Unit) -> None:
    style.dress(axes)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    label = f"{name}\nno scores"
    if len(scores):
        mean, std = unit.text(scores.mean() / unit.scale), unit.text(scores.std() / unit.scale)
        label = f"{name}\n{mean} ± {std}"
        share = np.full(len(scores), 1 / len(scores))
        axes.hist(scores, bins=list(edges), weights=share, color=colour, rwidth=0.92)
        top = axes.get_ylim()[1]
        within = (scores >= edges[0]) & (scores <= edges[-1])
        inside = _distinct(scores[within], edges)
        axes.plot(inside, np.full(len(inside), -0.1 * top), "|", color=colour, markersize=6, markeredgewidth=0.7)
        if edges[0] <= scores.mean() <= edges[-1]:
            axes.axvline(scores.mean(), color=style.INK, linewidth=1.2)
        # Room for the words about scores that lie outside.
        axes.set_ylim(-0.2 * top, (1.0 if within.all() else 1.45) * top)
        _outside(axes, scores, edges, unit)
    place: Any = {"rotation": 0, "ha": "left", "va": "center", "multialignment": "left"}
    axes.set_ylabel(label, **{**style.LABEL, "color": style.INK}, **place)
    axes.yaxis.set_label_coords(-0.26, 0.45)


def _outside(axes: Axes, scores: FloatArray, edges: FloatArray, unit: Unit) -> None:
    below, above = scores[scores < edges[0]] / unit.scale, scores[scores > edges[-1]] / unit.scale
    look: Any = {"transform": axes.transAxes, "va": "top", "fontsize": 8, "color": style.ORANGE}
    if len(below):
        axes.text(0.0, 1.0, f"← {len(below)} below, lowest {unit.text(below.min(), 1)}", **look)
    if len(above):
        axes.text(1.0, 1.0, f"{len(above)} above, highest {unit.text(above.max(), 1)} →", ha="right", **look)


def _distinct(scores: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the scores without those that would be drawn on top of each other; keeps a page of many runs small."""
    place = np.round((scores - edges[0]) / (edges[-1] - edges[0]) * 600)
    return scores[np.unique(place, return_index=True)[1]]


def _finite(values: object) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    array[~np.isfinite(array)] = np.nan
    return array
