"""The figures of a search as matplotlib figures, which show complete trials only; the stages stand together."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.approaches.hyperparameters import SearchChoices
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import share_text, shorten, unit_of, value_text
from mlflow_l3d.report.style import Axes, Figure
from mlflow_l3d.studies.search.numbers import SearchResult, StageSummary

_PANELS: Final = 4
"""Hyperparameters next to each other."""


def history(result: SearchResult) -> Figure:
    """Draw the scores in the order of the trials, and the best so far."""
    from matplotlib.ticker import MaxNLocator

    stages = complete_trials(result)
    sign = result.metric.sign
    with style.panels(3.0, 1, len(stages), sharey=True) as (figure, every_axes):
        for axes, (stage, trials) in zip(every_axes, stages, strict=True):
            style.dress(axes, x="trial", title=stage.title, grid="y")
            best = sign * np.maximum.accumulate(sign * trials["score"].to_numpy())
            line: Any = {"color": style.ORANGE, "linewidth": 1.8, "drawstyle": "steps-post", "label": "best so far"}
            axes.plot(trials["number"], best, **line)
            axes.plot(trials["number"], trials["score"], "o", color=style.BLUE, markersize=5, label="one trial")
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _label_scores(every_axes[0], result)
        style.legend(figure, every_axes[0])
    return figure


def importance_bars(result: SearchResult) -> Figure:
    """Draw the share of the variance of the score that each hyperparameter accounts for."""
    shares = 100 * np.array(list(result.importances.values()))
    with style.panels(0.9 + 0.34 * len(shares)) as (figure, (axes,)):
        style.dress(axes, x="share of the variance, %", title=result.stages[0].title, grid="x")
        bars = axes.barh(range(len(shares)), shares, height=0.6, color=style.BLUE)
        axes.bar_label(bars, [share_text(share / 100) for share in shares], padding=4, color=style.INK, fontsize=8.5)
        style.name_rows(axes, list(result.importances))
        axes.set_xlim(0, max(10.0, 1.12 * shares.max()))
    return figure


def slices(result: SearchResult) -> Figure:
    """Draw the score against each hyperparameter that was varied; later trials are stronger."""
    stages = varied_hyperparameters(result)
    rows = [math.ceil(len(names) / _PANELS) for _, _, names in stages]
    with style.settings():
        figure = style.new_figure(0.3 * len(stages) + 2.3 * sum(rows))
        parts = figure.subfigures(len(stages), 1, height_ratios=rows, squeeze=False)[:, 0]
        for part, (stage, trials, names), row_count in zip(parts, stages, rows, strict=True):
            part.suptitle(stage.title, **style.HEADING)
            grid = part.subplots(row_count, min(len(names), _PANELS), sharey=True, squeeze=False)
            # Many dots become a picture in the picture, which keeps the page small.
            has_many_dots = len(trials) * len(names) > 1500
            strength = np.linspace(0.3, 1, len(trials))
            look: Any = {"s": 24, "color": style.BLUE, "alpha": strength, "lw": 0, "rasterized": has_many_dots}
            for axes, name in zip(grid.flat, names, strict=False):
                style.dress(axes, x=two_lines(name), grid="y")
                axes.scatter(_place_values(axes, trials[name], stage, name).astype(float), trials["score"], **look)
                axes.margins(x=0.1)
            for axes in grid.flat[len(names) :]:
                axes.set_axis_off()
            for axes in grid[:, 0]:
                _label_scores(axes, result)
    return figure


def complete_trials(result: SearchResult) -> list[tuple[StageSummary, pd.DataFrame]]:
    """Return the stages that have complete trials, with these by number and their scores as they are shown."""
    table = result.trials[(result.trials["state"] == "complete") & result.trials["score"].notna()]
    table = table.assign(score=unit_of(result.metric).scale * table["score"].astype(float))
    table = table.sort_values("number", kind="stable")
    parts = [(stage, table[table["level"] == stage.name]) for stage in result.stages]
    return [(stage, part) for stage, part in parts if len(part)]


def varied_hyperparameters(result: SearchResult) -> list[tuple[StageSummary, pd.DataFrame, list[str]]]:
    """Return stage, complete trials and what has more than one value among them; stages without any are left out."""
    parts = [
        (stage, trials, sorted(name for name in stage.ranges if trials[name].dropna().nunique() > 1))
        for stage, trials in complete_trials(result)
    ]
    return [part for part in parts if part[2]]


def _label_scores(axes: Axes, result: SearchResult) -> None:
    axes.set_ylabel(f"{shorten(result.metric.name, 30)}, {unit_of(result.metric).name}", **style.LABEL)


def _place_values(axes: Axes, values: pd.Series, stage: StageSummary, name: str) -> pd.Series:
    """Scale an axis for the values of a hyperparameter; return where they stand along it."""
    from matplotlib.ticker import MaxNLocator

    searched = stage.ranges[name]
    if isinstance(searched, SearchChoices):
        return place_choices(axes, values)
    if searched.log:
        axes.set_xscale("log")
        ticks = log_ticks(float(values.min()), float(values.max()))
        axes.set_xticks(ticks, [f"{tick:.2g}".replace("e-0", "e-") for tick in ticks])
        axes.set_xticks([], minor=True)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return values


def place_choices(axes: Axes, values: pd.Series) -> pd.Series:
    """Name choices along an axis; return the place of each value, nan if there is none."""
    choices = sorted(values.dropna().unique(), key=lambda value: (isinstance(value, str), value))
    labels = [shorten(value_text(value), 12) for value in choices]
    axes.set_xticks(range(len(choices)), labels, parse_math=False)
    return values.map({value: place for place, value in enumerate(choices)})


def log_ticks(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis: every decade, or if there are not three, both ends and the middle."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    decades = [10.0**power for power in range(first, last + 1)]
    return decades[:: math.ceil(len(decades) / 4)] if len(decades) >= 3 else [low, math.sqrt(low * high), high]


def two_lines(name: str) -> str:
    """Break a long name at the underscore nearest to its middle."""
    places = [place for place, letter in enumerate(name) if letter == "_"]
    if len(name) <= 14 or not places:
        return shorten(name, 24)
    end = min(places, key=lambda place: abs(place - len(name) // 2)) + 1
    return f"{shorten(name[:end], 24)}\n{shorten(name[end:], 24)}"
