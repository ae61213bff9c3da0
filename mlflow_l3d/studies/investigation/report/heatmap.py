"""The M x N table of scores as a picture, with what the score is made of; of a radial design base against swap runs."""

from __future__ import annotations

import numpy as np

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import Unit, shorten, unit_of
from mlflow_l3d.report.style import Axes, AxesImage, Figure

SCORE = Metric("score")
"""Stands for the metric of a table that comes without one."""
MAX_ROWS_WITH_NUMBERS = 30
MAX_COLUMNS_WITH_NUMBERS = 14


def heatmap(importance: Importance, *, metric: Metric = SCORE) -> Figure:
    """Return the scores of one factor, with the mean and the standard deviation of every row beside them.

    Parameters
    ----------
    importance
        Its table has shape (M, N). Missing cells are grey and hatched; mean and standard deviation of a row are those
        of the scores that it has, as in the published score.
    metric
        What the scores are, for their unit and the legend.

    Notes
    -----
    The spread along a row is what the factor contributes, the spread down the column of means is what all other
    factors do (Pecher et al. 2024, section 3). Small tables show numbers, large ones colours, dots and bars. Colours
    span :func:`mlflow_l3d.report.style.typical_range`; numbers are always the true ones. Pairs of a radial design are
    drawn as dots, base against swap, by :func:`mlflow_l3d.studies.investigation.report.heatmap.pair_scatter`.
    """
    if design_named(importance.design).words.draws_pairs:
        return pair_scatter(importance, metric=metric)
    unit = unit_of(metric)
    table = np.atleast_2d(np.asarray(importance.table, dtype=np.float64)) * unit.scale
    rows, columns = table.shape
    numbers = rows <= MAX_ROWS_WITH_NUMBERS and columns <= MAX_COLUMNS_WITH_NUMBERS
    height = 1.6 + rows * 0.235 if numbers else min(1.6 + rows * 0.06, 8.0)
    ratios = [max(columns, 5), 1.25, 1.25] if numbers else [8, 1.8, 1.8]
    with style.panels(max(height, 2.6), 1, 3, width_ratios=ratios) as (figure, (scores, means, stds)):
        scored = np.ma.masked_invalid(table)
        row_mean, row_std = (np.ma.filled(each, np.nan) for each in (scored.mean(axis=1), scored.std(axis=1)))
        low, high = style.typical_range(table)
        image = style.draw_matrix(scores, table, "Blues", low, high)
        _label(importance, scores, means, stds, unit)
        if numbers:
            _write(image, 1, unit)
            _write(style.draw_matrix(means, row_mean[:, None], "Blues", low, high), 2, unit)
            top = 1.6 * style.typical_range(row_std)[1]
            _write(style.draw_matrix(stds, row_std[:, None], "Oranges", 0.0, top), 2, unit)
            for axes in (means, stds):
                axes.set(xticks=[], yticks=[])
        else:
            for axes in (means, stds):
                _profile(axes, rows)
            means.plot(row_mean, np.arange(rows), "o", color=style.BLUE, markersize=2.6, markeredgewidth=0)
            stds.barh(np.arange(rows), np.nan_to_num(row_std), color=style.ORANGE, height=0.8)
        below, above = bool((table < low).any()), bool((table > high).any())
        extend = "both" if below and above else "min" if below else "max" if above else "neither"
        aspect = max(8.0, 4.6 * (figure.get_figheight() - 1))
        label = f"{shorten(metric.name, 40)} ({unit.name})"
        style.colour_bar(figure, image, [scores, means, stds], label, extend=extend, aspect=aspect)
    return figure


def _write(image: AxesImage, digits: int, unit: Unit) -> None:
    values, (low, high) = np.ma.masked_array(image.get_array()).filled(np.nan), image.get_clim()
    digits = digits if unit.scale > 1 else 3
    style.write_cells(image.axes, values, lambda value: f"{value:.{digits}f}", (values - low) / (high - low) > 0.6)
    for edge in range(1, values.shape[0]):
        image.axes.axhline(edge - 0.5, color="white", linewidth=0.6)
    for edge in range(1, values.shape[1]):
        image.axes.axvline(edge - 0.5, color="white", linewidth=0.6)


def _label(importance: Importance, scores: Axes, means: Axes, stds: Axes, unit: Unit) -> None:
    rows, columns = np.atleast_2d(importance.table).shape
    x = f"column: configuration of {shorten(importance.factor, 40)}"
    y, mean, std = "row: configuration of all other factors", "mean", "std"
    if design_named(importance.design).baseline:
        x, y = f"run of the {importance.design} strategy", ""
    else:
        mean = f"row mean\nstd {unit.text(importance.mitigated_std)}"
        std = f"row std\nmean {unit.text(importance.contributed_std)}"
    scores.set_xlabel(x, **style.LABEL)
    scores.set_ylabel(y, **style.LABEL)
    scores.set(xticks=_every(columns, 20), yticks=_every(rows, MAX_ROWS_WITH_NUMBERS))
    scores.tick_params(length=0)
    scores.set_title(f"{shorten(importance.factor, 30)}: {rows} x {columns} scores", **style.TITLE)
    means.set_title(mean, color=style.BLUE, fontsize=8.5)
    stds.set_title(std, color=style.ORANGE, fontsize=8.5)


def _every(count: int, most: int) -> list[int]:
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, count) if count / size <= most or size == count)
    return list(range(0, count, step))


def _profile(axes: Axes, rows: int) -> None:
    style.dress(axes, grid="x")
    axes.set(ylim=(rows - 0.5, -0.5), yticks=[])
    axes.spines["left"].set_color(style.GRID)
    axes.locator_params(axis="x", nbins=3)
    axes.tick_params(labelsize=8)


def pair_scatter(importance: Importance, *, metric: Metric = SCORE) -> Figure:
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
        f"{shorten(metric.name, 30)} ({unit.short})",
    )
    with style.panels(4.6, 1, 2, width_ratios=[2.0, 1.0]) as (figure, (axes, words)):
        style.dress(axes, x=f"base run, {score}", y=f"swap run, {score}", grid="both", title=title)
        low, high = style.typical_range(pairs)
        margin = 0.04 * (high - low)
        ends = (low - margin, high + margin)
        axes.plot(ends, ends, color=style.INK, linewidth=1)
        inside = ((pairs >= low) & (pairs <= high)).all(axis=1)
        axes.plot(*pairs[inside].T, "o", color=style.BLUE, markersize=4.5, alpha=0.75, markeredgewidth=0)
        edge = np.clip(pairs[~inside], low, high)
        axes.plot(*edge.T, "o", color="none", markeredgecolor=style.BLUE, markersize=5)
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
        words.text(0, 0.98, "\n".join(lines), va="top", ha="left", fontsize=9, color=style.MUTED, linespacing=1.7)
    return figure
