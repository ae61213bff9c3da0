"""The M x N table of scores as a picture, with what the importance score is made of beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.investigation.pairs import pair_scatter
from mlflow_l3d.report.numbers import points, shorten
from mlflow_l3d.report.style import (
    BLUE,
    GRID,
    MUTED,
    ORANGE,
    TITLE,
    colour_bar,
    draw_matrix,
    dress,
    new_figure,
    settings,
    typical_range,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ROWS_WITH_NUMBERS = 30
MAX_COLUMNS_WITH_NUMBERS = 14
_DARK, _LIGHT = "#10141c", "#ffffff"


def heatmap(importance: Importance, *, metric: str = "score") -> Figure:
    """Return the scores of one factor, with the mean and the standard deviation of every row beside them.

    Parameters
    ----------
    importance
        Its table, shape (M, N), holds fractions (0..1); percentage points are shown. Missing cells are grey and
        hatched; a row with one has no mean and no standard deviation, for the score does not use it.
    metric
        What the scores are, for the legend.

    Notes
    -----
    The spread along a row is what the factor contributes, the spread down the column of means is what all other
    factors do (Pecher et al. 2024, section 3). Small tables show numbers, large ones colours, dots and bars. Colours
    span :func:`mlflow_l3d.report.style.typical_range`; numbers are always the true ones. Pairs of a radial design are
    drawn as dots, base against swap, by :func:`mlflow_l3d.report.investigation.pairs.pair_scatter`.
    """
    if design_named(importance.design).pairs:
        return pair_scatter(importance, metric=metric)
    table = np.atleast_2d(np.asarray(importance.table, dtype=np.float64)) * 100
    rows, columns = table.shape
    numbers = rows <= MAX_ROWS_WITH_NUMBERS and columns <= MAX_COLUMNS_WITH_NUMBERS
    height = 1.6 + rows * 0.235 if numbers else min(1.6 + rows * 0.06, 8.0)
    with settings():
        figure = new_figure(max(height, 2.6))
        ratios = [max(columns, 5), 1.25, 1.25] if numbers else [8, 1.8, 1.8]
        scores, means, stds = figure.subplots(1, 3, width_ratios=ratios)
        complete = np.asarray(np.isfinite(table).all(axis=1), dtype=np.bool_)
        row_mean = np.where(complete, np.where(complete[:, None], table, 0).mean(axis=1), np.nan)
        row_std = np.where(complete, np.where(complete[:, None], table, 0).std(axis=1), np.nan)
        low, high = typical_range(table)
        image = draw_matrix(scores, table, "Blues", low, high)
        _ticks(scores, rows, columns, shorten(importance.factor, 40))
        if design_named(importance.design).baseline:
            scores.set_xlabel(f"run of the {importance.design} strategy", color=MUTED, fontsize=9)
            scores.set_ylabel("")
        _titles(importance, scores, means, stds)
        if numbers:
            _write(scores, table, low, high, 1)
            draw_matrix(means, row_mean[:, None], "Blues", low, high)
            _write(means, row_mean[:, None], low, high, 2)
            top = 1.6 * typical_range(row_std)[1]
            draw_matrix(stds, row_std[:, None], "Oranges", 0.0, top)
            _write(stds, row_std[:, None], 0.0, top, 2)
            for axes in (means, stds):
                axes.set_xticks([])
                axes.set_yticks([])
        else:
            _profile(means, row_mean, "dots")
            _profile(stds, row_std, "bars")
        finite = table[np.isfinite(table)]
        below, above = bool((finite < low).any()), bool((finite > high).any())
        extend = "both" if below and above else "min" if below else "max" if above else "neither"
        aspect = max(8.0, 4.6 * (figure.get_figheight() - 1))
        label = f"{shorten(metric, 40)} (percentage points)"
        colour_bar(figure, image, [scores, means, stds], label, extend=extend, aspect=aspect)
    return figure


def _write(axes: Axes, values: FloatArray, low: float, high: float, digits: int) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark_cell = (value - low) / (high - low) > 0.6
            colour = _LIGHT if dark_cell else _DARK
            axes.text(column, row, f"{value:.{digits}f}", ha="center", va="center", fontsize=8, color=colour)
    for edge in range(1, values.shape[0]):
        axes.axhline(edge - 0.5, color="white", linewidth=0.6)
    for edge in range(1, values.shape[1]):
        axes.axvline(edge - 0.5, color="white", linewidth=0.6)


def _ticks(axes: Axes, rows: int, columns: int, factor: str) -> None:
    axes.set_xlabel(f"column: configuration of {factor}", color=MUTED, fontsize=9, parse_math=False)
    axes.set_ylabel("row: configuration of all other factors", color=MUTED, fontsize=9)
    axes.set_xticks(_every(columns, 20))
    axes.set_yticks(_every(rows, MAX_ROWS_WITH_NUMBERS))
    axes.tick_params(length=0)


def _every(count: int, most: int) -> list[int]:
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, count) if count / size <= most or size == count)
    return list(range(0, count, step))


def _titles(importance: Importance, scores: Axes, means: Axes, stds: Axes) -> None:
    rows, columns = np.atleast_2d(importance.table).shape
    title = f"{shorten(importance.factor, 30)}: {rows} x {columns} scores"
    scores.set_title(title, **TITLE)
    if design_named(importance.design).baseline:
        means.set_title("mean", color=BLUE, fontsize=8.5)
        stds.set_title("std", color=ORANGE, fontsize=8.5)
        return
    means.set_title(f"row mean\nstd {points(importance.mitigated_std)}", color=BLUE, fontsize=8.5)
    stds.set_title(f"row std\nmean {points(importance.contributed_std)}", color=ORANGE, fontsize=8.5)


def _profile(axes: Axes, values: FloatArray, kind: str) -> None:
    dress(axes, grid="x")
    rows = np.arange(len(values))
    if kind == "dots":
        axes.plot(values, rows, "o", color=BLUE, markersize=2.6, markeredgewidth=0)
    else:
        axes.barh(rows, np.nan_to_num(values), color=ORANGE, height=0.8)
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_color(GRID)
    axes.locator_params(axis="x", nbins=3)
    axes.tick_params(labelsize=8)
