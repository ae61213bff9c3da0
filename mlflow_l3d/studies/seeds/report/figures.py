"""The figure of several seeds studies: the seed x task heat map."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import plain, probability, shorten
from mlflow_l3d.report.style import Axes, Figure
from mlflow_l3d.studies.seeds.numbers.better_seed import NAMED_SEED, BetterSeed, normalised

LARGEST_Z: Final = 2.5
"""Colours end here: of ten seeds none can be further than 3 from the mean."""
MOST_TASKS, MOST_SEEDS = 14, 40


def seed_heatmap(matrix: pd.DataFrame, better: BetterSeed | None = None, *, title: str = "") -> Figure:
    """Return Figure 3 of Zhou et al. 2025: normalised scores of each seed (rows) on each task (columns).

    Parameters
    ----------
    matrix
        One row per task, one column per seed: fractions, nan where a run has no score (hatched).
    better
        The test, for the line above the map.
    title
        The model.

    Notes
    -----
    Colours are z within a task: blue better than its mean, orange worse. Numbers are the distance from the task's mean
    in percentage points, if there are at most 14 tasks and 40 seeds. Seed 42 is in bold.
    """
    scaled = normalised(matrix).to_numpy().T
    distance = 100 * matrix.sub(matrix.mean(axis=1), axis=0).to_numpy(dtype=np.float64).T
    seeds, tasks = scaled.shape
    numbers = tasks <= MOST_TASKS and seeds <= MOST_SEEDS
    height = min(2.3 + seeds * (0.26 if numbers else 0.12), 12.0)
    with style.panels(height) as (figure, every):
        image = style.draw_matrix(every[0], scaled, (style.ORANGE, style.BLUE), -LARGEST_Z, LARGEST_Z)
        _axis(every[0], matrix, numbers)
        if numbers:
            style.write_cells(every[0], distance, _distance_text, scaled > 2, 8 if tasks <= 8 else 6.8)
        lines = [shorten(title, 60)] if title else []
        if better is not None:
            limits = f"{plain(better.kendall_w_ci_low)} to {plain(better.kendall_w_ci_high)}"
            lines.append(f"Friedman p {probability(better.p)}, Kendall's W {plain(better.kendall_w)} ({limits})")
        every[0].set_title("\n".join(lines), **{**style.TITLE, "fontsize": 9.5})
        style.colour_bar(figure, image, every, "z within the task", aspect=28)
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
