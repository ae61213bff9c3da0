"""The heat map of seeds and tasks (Figure 3 of Zhou et al. 2025)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.report.draw import WIDTH, sheet, short, text
from mlflow_l3d.report.numbers import POINTS, between, plain, probability, shorten
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed, normalised

HEAT_NOTE: Final = (
    "Colours: distance from the task's mean in its own standard deviations (z), blue better. Numbers: the same in "
    "percentage points, or in the unit of an error."
)
_LEFT: Final = 12.0
"""Room for the names of seeds, in per cent."""
_CELL: Final = Markup(
    '<rect x="{}%" y="{}" width="{}%" height="{}" fill="{}" fill-opacity="{:.3f}"><title>{}</title></rect>'
)
_TURNED: Final = Markup('<text transform="translate({} {}) rotate(-35)" text-anchor="end">{}</text>')


def seed_heatmap(matrix: pd.DataFrame, better: BetterSeed | None = None, *, title: str = "") -> Markup:
    """Return Figure 3 of Zhou et al. 2025: normalised scores of each seed (rows) on each task (columns).

    Parameters
    ----------
    matrix
        One row per task, one column per seed: fractions, hundredths if not in per cent, nan without a score (grey).
    better
        The test, for the line above the map.
    title
        The model.

    Notes
    -----
    Colours are z within a task: blue better than its mean, orange worse. Numbers are the distance from the task's mean
    in percentage points, or in the unit of an error, if there are at most 14 tasks and 40 seeds. Seed 42 is in bold.
    """
    scaled = normalised(matrix).to_numpy().T
    distance = 100 * matrix.sub(matrix.mean(axis=1), axis=0).to_numpy(dtype=np.float64).T
    seeds, tasks = scaled.shape
    has_numbers = tasks <= 14 and seeds <= 40
    decimals = [POINTS.digits(std) for std in matrix.std(axis=1)]
    lines = [shorten(title, 60)] if title else []
    if better is not None:
        limits = between(better.kendall_w_ci_low, better.kendall_w_ci_high, plain)
        lines.append(f"Friedman p {probability(better.p)}, Kendall's W {plain(better.kendall_w)} ({limits})")
    parts = [text(0, 16 + 18 * at, line, kind="strong", anchor="start") for at, line in enumerate(lines)]
    top = 12 + 18 * len(lines)
    row = 22 if has_numbers else 10
    width = (100 - _LEFT) / max(1, tasks)
    names = [shorten(str(name), 20) for name in matrix.index]
    for (at, task), z in np.ndenumerate(scaled):
        x, y = _LEFT + width * task, top + row * at
        where = f"{names[task]}, seed {matrix.columns[at]}"
        colour, depth, said = "#9aa3b0", 1.0, f"{where}: no score"
        if np.isfinite(z):  # of ten seeds none can be further than 3 from the mean
            colour, depth = "#0072b2" if z > 0 else "#d55e00", 0.75 * min(abs(z) / 2.5, 1.0)
            said = f"{where}: z {z:+.2f}"
        parts.append(_CELL.format(short(x), y, short(width), row, colour, depth, said))
        if has_numbers and np.isfinite(moved := distance[at, task]):
            digits = decimals[task] if abs(moved) < 99.95 else 0
            number = f"{round(float(moved), digits) + 0.0:+.{digits}f}"
            parts.append(text(x + width / 2, y + 15, number, kind="strong", anchor="middle"))
    for at in range(0, seeds, 1 if has_numbers else max(1, seeds // 30)):
        kind = "strong" if int(matrix.columns[at]) == 42 else ""  # the seed that people choose
        parts.append(text(_LEFT - 1, top + row * at + row / 2 + 4, str(matrix.columns[at]), kind=kind, anchor="end"))
    bottom = top + row * seeds + 14
    for task, name in enumerate(names):
        parts.append(_TURNED.format(short(WIDTH * (_LEFT + width * (task + 0.5)) / 100 + 4), bottom, name))
    return sheet(bottom + 80, "Normalised scores of seeds on tasks", *parts)
