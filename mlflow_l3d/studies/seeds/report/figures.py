"""The figure of several seeds studies: the seed x task heat map."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.report.draw import WIDTH, sheet, short, text
from mlflow_l3d.report.numbers import plain, probability, shorten
from mlflow_l3d.studies.seeds.numbers.better_seed import NAMED_SEED, BetterSeed, normalised

LARGEST_Z: Final = 2.5
"""Colours end here: of ten seeds none can be further than 3 from the mean."""
MOST_TASKS, MOST_SEEDS = 14, 40
_LEFT: Final = 12.0
"""Room for the names of seeds, in per cent."""
_CELL: Final = Markup(
    '<rect x="{}%" y="{}" width="{}%" height="{}" fill="{}" fill-opacity="{:.3f}"><title>{}</title></rect>'
)
_TURNED: Final = Markup('<text transform="translate({} {}) rotate(-35)" text-anchor="end">{}</text>')
_BETTER, _WORSE, _ABSENT = "#0072b2", "#d55e00", "#9aa3b0"


def seed_heatmap(matrix: pd.DataFrame, better: BetterSeed | None = None, *, title: str = "") -> Markup:
    """Return Figure 3 of Zhou et al. 2025: normalised scores of each seed (rows) on each task (columns).

    Parameters
    ----------
    matrix
        One row per task, one column per seed: fractions, nan where a run has no score (grey).
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
    has_numbers = tasks <= MOST_TASKS and seeds <= MOST_SEEDS
    lines = [shorten(title, 60)] if title else []
    if better is not None:
        limits = f"{plain(better.kendall_w_ci_low)} to {plain(better.kendall_w_ci_high)}"
        lines.append(f"Friedman p {probability(better.p)}, Kendall's W {plain(better.kendall_w)} ({limits})")
    parts = [text(0, 16 + 18 * at, line, kind="strong", anchor="start") for at, line in enumerate(lines)]
    top, row, width = 12 + 18 * len(lines), 22 if has_numbers else 10, (100 - _LEFT) / max(1, tasks)
    names = [shorten(str(name), 20) for name in matrix.index]
    for (at, task), z in np.ndenumerate(scaled):
        x, y = _LEFT + width * task, top + row * at
        where = f"{names[task]}, seed {matrix.columns[at]}"
        colour, depth, told = _ABSENT, 1.0, f"{where}: no score"
        if np.isfinite(z):
            colour, depth, told = (
                _BETTER if z > 0 else _WORSE,
                0.75 * min(abs(z) / LARGEST_Z, 1.0),
                f"{where}: z {z:+.2f}",
            )
        parts.append(_CELL.format(short(x), y, short(width), row, colour, depth, told))
        if has_numbers and np.isfinite(distance[at, task]):
            words = _distance_text(float(distance[at, task]))
            parts.append(text(x + width / 2, y + 15, words, kind="strong", anchor="middle"))
    for at in range(0, seeds, 1 if has_numbers else max(1, seeds // 30)):
        kind = "strong" if int(matrix.columns[at]) == NAMED_SEED else ""
        parts.append(text(_LEFT - 1, top + row * at + row / 2 + 4, str(matrix.columns[at]), kind=kind, anchor="end"))
    bottom, is_turned = top + row * seeds + 18, tasks > 6 or max(map(len, names), default=0) > 10
    for task, name in enumerate(names):
        x = _LEFT + width * (task + 0.5)
        parts.append(
            _TURNED.format(short(WIDTH * x / 100 + 4), bottom - 4, name)
            if is_turned
            else text(x, bottom, name, anchor="middle")
        )
    return sheet(bottom + (76 if is_turned else 8), "Normalised scores of seeds on tasks", *parts)


def _distance_text(value: float) -> str:
    digits = 1 if abs(value) < 99.95 else 0
    return f"{round(value, digits) + 0.0:+.{digits}f}"
