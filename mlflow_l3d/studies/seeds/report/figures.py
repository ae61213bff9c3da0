"""The figures of a seeds study: seed x task heat map, scores and agreement of each seed, luck against training size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import interval_of, plain, probability, shorten, size_text, unit_of
from mlflow_l3d.report.style import Axes, Figure
from mlflow_l3d.studies.seeds.numbers.better_seed import NAMED_SEED, BetterSeed, normalised
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy

LARGEST_Z: Final = 2.5
"""Colours end here: of ten seeds none can be further than 3 from the mean."""
MOST_TASKS, MOST_SEEDS = 14, 40
_PANELS: Final = (("var", "VAR (pp)", style.ORANGE), ("con", "CON (%)", style.BLUE), ("ccon", "CCON (%)", style.GREY))


def seed_heatmap(matrix: pd.DataFrame, better: BetterSeed | None = None, *, title: str = "") -> Figure:
    """Return Figure 3 of Zhou et al. 2025: normalised scores of each seed (rows) on each task (columns).

    Parameters
    ----------
    matrix
        One row per task, one column per seed: fractions, nan where a run has no score (hatched).
    better
        The test, for the mean ranks beside the map and the line above it.
    title
        The model.

    Notes
    -----
    Colours are z within a task: blue better than its mean, orange worse. Numbers are the distance from the task's mean
    in percentage points, where there are at most 14 tasks and 40 seeds. Seed 42 stands in bold.
    """
    scaled = normalised(matrix).to_numpy().T
    distance = 100 * matrix.sub(matrix.mean(axis=1), axis=0).to_numpy(dtype=np.float64).T
    seeds, tasks = scaled.shape
    numbers = tasks <= MOST_TASKS and seeds <= MOST_SEEDS
    ratios = [tasks + 1.0, 1.5] if better is not None else [1.0]
    height = min(2.3 + seeds * (0.26 if numbers else 0.12), 12.0)
    with style.panels(height, 1, len(ratios), width_ratios=ratios) as (figure, every):
        image = style.draw_matrix(every[0], scaled, (style.ORANGE, style.BLUE), -LARGEST_Z, LARGEST_Z)
        _axis(every[0], matrix, numbers)
        if numbers:
            style.write_cells(every[0], distance, _distance_text, scaled > 2, 8 if tasks <= 8 else 6.8)
        lines = [shorten(title, 60)] if title else []
        if better is not None:
            limits = f"{plain(better.kendall_w_ci_low)} to {plain(better.kendall_w_ci_high)}"
            lines.append(f"Friedman p {probability(better.p)}, Kendall's W {plain(better.kendall_w)} ({limits})")
            _ranks(every[1], matrix, better)
        every[0].set_title("\n".join(lines), **{**style.TITLE, "fontsize": 9.5})
        style.colour_bar(figure, image, every, "z within the task", aspect=28)
    return figure


def size_figure(rows: pd.DataFrame, correlations: pd.DataFrame, *, title: str = "") -> Figure:
    """Return Figure 2 of Zhou et al. 2025: VAR, CON and CCON of each task against its training size, on a log axis.

    Parameters
    ----------
    rows
        As :func:`mlflow_l3d.studies.seeds.numbers.over_tasks.study_rows` gives; fractions.
    correlations
        Rows of :func:`mlflow_l3d.studies.seeds.numbers.spread.size_correlations`; those on the log scale are
        shown.
    title
        The model.
    """
    logs = correlations[correlations["scale"] == "log"]
    measures = {str(row["measure"]): row for row in logs.to_dict("records")}
    with style.panels(3.4, 1, 3) as (figure, every):
        if title:
            figure.suptitle(shorten(title, 80), **style.HEADING)
        named = []
        for axes, (measure, label, colour) in zip(every, _PANELS, strict=True):
            part = rows[rows["training_size"].notna() & rows[measure].notna()]
            row = measures[measure]
            interval = interval_of(row, "pearson", plain)
            style.dress(axes, x="training examples", y=label, grid="y")
            axes.set_title(
                f"Pearson {plain(row['pearson'])}\n{interval}", **{**style.LABEL, "fontsize": 8.5}, loc="left"
            )
            if not len(part):
                continue
            axes.set_xscale("log")
            sizes = part["training_size"].to_numpy(dtype=np.float64)
            values = 100 * part[measure].to_numpy(dtype=np.float64)
            axes.plot(sizes, values, "o", color=colour, markersize=5, markeredgewidth=0)
            _line(axes, sizes, values)
            axes.margins(x=0.12, y=0.12)
            ticks = size_ticks(sizes.min(), sizes.max())
            axes.set_xticks(ticks, [size_text(tick) for tick in ticks])
            axes.set_xticks([], minor=True)
            named.append((axes, part["task"].tolist(), sizes, values))
        figure.draw_without_rendering()
        for each in named:
            name_points(*each)
    return figure


def seed_figure(study: SeedsStudy) -> Figure:
    """Return each seed of one study as a dot: its score, and its mean agreement with the other seeds.

    The band is mean +- VAR; hollow dots are seeds that predict one thing only.
    """
    frame = study.to_frame()
    agreement = next((name for name in ("consistency", "consistency_pearson") if name in frame), None)
    scale, seeds = unit_of(study.metric).scale, len(frame)
    hollow = frame.get("collapsed", pd.Series(False, index=frame.index)).to_numpy(dtype=bool)
    with style.panels(min(1.2 + 0.24 * seeds, 10.0), 1, 1 if agreement is None else 2, sharey=True) as (figure, every):
        score, unit, spread = every[0], " (%)" if scale > 1 else "", study.own
        _dots(score, scale * frame[study.metric.name].to_numpy(dtype=np.float64), hollow, style.BLUE)
        score.axvspan(
            scale * (spread.mean - spread.var), scale * (spread.mean + spread.var), color=style.GRID, alpha=0.6
        )
        style.dress(
            score, x=f"{shorten(study.metric.name, 30)}{unit}", y=study.unit, grid="x", title=shorten(study.task, 40)
        )
        score.set_yticks(range(seeds), [str(seed) for seed in frame["seed"]])
        score.set_ylim(seeds - 0.5, -0.5)
        if agreement is not None:
            graded = agreement == "consistency_pearson"
            _dots(every[1], (1 if graded else 100) * frame[agreement].to_numpy(dtype=np.float64), hollow, style.ORANGE)
            what, percent = ("correlation", "") if graded else ("agreement", " (%)")
            label = f"mean {what} with other {study.unit}s{percent}"
            style.dress(every[1], x=label, grid="x")
    return figure


def _axis(axes: Axes, matrix: pd.DataFrame, numbers: bool) -> None:
    axes.set_xlabel("task", **style.LABEL)
    axes.set_ylabel("seed", **style.LABEL)
    names = [shorten(str(name), 22) for name in matrix.index]
    turned = len(names) > 6 or max(map(len, names), default=0) > 10
    look: Any = {"rotation": 35, "ha": "right"} if turned else {}
    axes.set_xticks(range(len(names)), names, parse_math=False, **look)
    step = 1 if numbers else max(1, matrix.shape[1] // 30)
    places = list(range(0, matrix.shape[1], step))
    labels = axes.set_yticks(places, [str(matrix.columns[at]) for at in places])
    for tick, at in zip(labels, places, strict=True):
        tick.label1.set_fontweight("bold" if int(matrix.columns[at]) == NAMED_SEED else "normal")
    axes.tick_params(length=0)


def _distance_text(value: float) -> str:
    digits = 1 if abs(value) < 99.95 else 0
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def _ranks(axes: Axes, matrix: pd.DataFrame, better: BetterSeed) -> None:
    ranks = better.of_seeds.set_index("seed")["mean_rank"].reindex(list(matrix.columns)).to_numpy(dtype=np.float64)
    style.dress(axes, grid="x")
    rows = np.arange(len(ranks))
    axes.axvline((len(ranks) + 1) / 2, color=style.MUTED, linewidth=0.8)
    axes.plot(ranks, rows, "o", color=style.BLUE, markersize=4.5, markeredgewidth=0)
    axes.set(xlim=(0.5, len(ranks) + 0.5), ylim=(len(ranks) - 0.5, -0.5), yticks=[])
    axes.set_title("mean rank\n1 is best", color=style.BLUE, fontsize=8.5)


def _line(axes: Axes, sizes: FloatArray, values: FloatArray) -> None:
    logs = np.log10(sizes)
    if len(sizes) < 3 or np.ptp(logs) == 0:
        return
    ends = np.array([logs.min(), logs.max()])
    axes.plot(10**ends, np.polyval(np.polyfit(logs, values, 1), ends), color=style.INK, linewidth=1)


def _dots(axes: Axes, values: FloatArray, hollow: npt.NDArray[np.bool_], colour: str) -> None:
    rows = np.arange(len(values))
    axes.plot(values[~hollow], rows[~hollow], "o", color=colour, markersize=5.5, markeredgewidth=0)
    axes.plot(values[hollow], rows[hollow], "o", color="none", markeredgecolor=colour, markersize=5.5)


_SIZE: Final = 6.8
"""Points, of a name."""
_LONGEST: Final = 14
_PLACES: Final = ((5, 2), (5, -8), (-5, 2), (-5, -8), (0, 7), (0, -13), (5, 9), (-5, 9))
"""Where a name may begin or, to the left, end, in points from its dot; the first that is clear is taken."""


def size_ticks(smallest: float, largest: float) -> list[float]:
    """Return ticks for a logarithmic axis of counts: 1, 2, 5, 10, ..., or fewer, so that there are four at most."""
    low, high = smallest / 1.25, largest * 1.25
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 4:
            break
    return ticks[:: -(-len(ticks) // 4)] if ticks else [smallest]


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
        look: Any = {"textcoords": "offset points", "fontsize": _SIZE, "color": style.MUTED, "parse_math": False}
        axes.annotate(text, at, xytext=_PLACES[best], ha=side, **look)
