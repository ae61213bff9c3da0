"""The figures of a search: from its result to a matplotlib ``Figure``, the stages together.

Only trials that are complete are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.search import Scale, SearchResult, StageSummary
from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import share_text, shorten, unit_of, value_text
from mlflow_l3d.report.search.tables import stage_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curves = Mapping[str, Mapping[int, Mapping[int, float]]]
"""Stage -> number of a trial -> step -> score on the validation examples, a fraction."""

_PANELS: Final = 4
"""Hyperparameters side by side."""


class Ticks(NamedTuple):
    """The values of a hyperparameter along an axis.

    Attributes
    ----------
    places
        Where each value stands, shape (n,); nan where there is none.
    at, labels
        Where its ticks stand, and what they say.
    """

    places: FloatArray
    at: Sequence[float]
    labels: Sequence[str]


def history(result: SearchResult) -> Figure:
    """Return the scores in the order of the trials, and the best so far."""
    from matplotlib.ticker import MaxNLocator

    shown = complete(result)
    sign = named(result.metric).sign
    with style.panels(3.0, 1, len(shown), sharey=True) as (figure, every):
        for axes, (stage, trials) in zip(every, shown, strict=True):
            style.dress(axes, x="trial", title=stage_title(stage), grid="y")
            best = sign * np.maximum.accumulate(sign * trials["score"].to_numpy())
            axes.plot(
                trials["number"], best, color=style.ORANGE, linewidth=1.8, drawstyle="steps-post", label="best so far"
            )
            axes.plot(trials["number"], trials["score"], "o", color=style.BLUE, markersize=5, label="one trial")
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _score_axis(every[0], result)
        style.legend(figure, every[0])
    return figure


def importance_bars(result: SearchResult) -> Figure:
    """Return the share of the variance of the score that each hyperparameter accounts for."""
    shares = 100 * np.array(list(result.importances.values()))
    with style.panels(0.9 + 0.34 * len(shares)) as (figure, (axes,)):
        style.dress(axes, x="share of the variance, %", title=stage_title(result.stages[0]), grid="x")
        bars = axes.barh(range(len(shares)), shares, height=0.6, color=style.BLUE)
        axes.bar_label(bars, [share_text(share / 100) for share in shares], padding=4, color=style.INK, fontsize=8.5)
        style.name_rows(axes, list(result.importances))
        axes.set_xlim(0, max(10.0, 1.12 * shares.max()))
    return figure


def slices(result: SearchResult) -> Figure:
    """Return the score against each hyperparameter that was varied; later trials are stronger."""
    shown = varied(result)
    rows = [math.ceil(len(names) / _PANELS) for _, _, names in shown]
    with style.settings():
        figure = style.new_figure(0.3 * len(shown) + 2.3 * sum(rows))
        parts = figure.subfigures(len(shown), 1, height_ratios=rows, squeeze=False)[:, 0]
        for part, (stage, trials, names), high in zip(parts, shown, rows, strict=True):
            part.suptitle(stage_title(stage), **style.HEADING)
            grid = part.subplots(high, min(len(names), _PANELS), sharey=True, squeeze=False)
            strength = np.linspace(0.3, 1, len(trials))
            for axes, name in zip(grid.flat, names, strict=False):
                style.dress(axes, x=two_lines(name), grid="y")
                ticks = ticks_of(trials[name], stage.scales.get(name, "linear"))
                # Many dots are a picture in the picture, which keeps the page small.
                many = len(trials) * len(names) > 1500
                axes.scatter(
                    ticks.places, trials["score"], s=24, color=style.BLUE, alpha=strength, lw=0, rasterized=many
                )
                axes.set_xticks(ticks.at, ticks.labels, parse_math=False)
                axes.margins(x=0.1)
            for axes in grid.flat[len(names) :]:
                axes.set_axis_off()
            for axes in grid[:, 0]:
                _score_axis(axes, result)
    return figure


def parallel(result: SearchResult) -> Figure:
    """Return a line a trial through its score and its hyperparameters; the best one is thick and lies on top."""
    shown = varied(result)
    sign = named(result.metric).sign
    with style.panels(3.1 * len(shown), len(shown)) as (figure, every):
        for axes, (stage, trials, names) in zip(every, shown, strict=True):
            ordered = trials.sort_values(["score", "number"], ascending=[sign > 0, False], kind="stable")
            columns = [ticks_of(ordered["score"], "linear")]
            columns += [ticks_of(ordered[name], stage.scales.get(name, "linear")) for name in names]
            style.dress(axes, title=stage_title(stage))
            heights = np.array([_along(axes, at, ticks) for at, ticks in enumerate(columns)])
            strength = np.linspace(0.2, 0.8, len(ordered))
            many = len(ordered) > 300
            for line, alpha in zip(heights.T[:-1], strength[:-1], strict=True):
                axes.plot(line, color=style.BLUE, linewidth=1.2, alpha=alpha, rasterized=many)
            axes.plot(heights[:, -1], color=style.ORANGE, linewidth=3, label="best trial")
            labels = [f"{shorten(result.metric, 30)}\n({unit_of(result.metric).noun})", *map(two_lines, names)]
            axes.set_xticks(range(len(columns)), labels, parse_math=False)
            axes.set(yticks=[], xlim=(-0.25, len(columns) - 0.7))
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        style.legend(figure, every[0])
    return figure


def reported(result: SearchResult, curves: Curves) -> list[tuple[StageSummary, pd.DataFrame]]:
    """Return what of :func:`complete` has scores from the training."""
    return [(stage, trials) for stage, trials in complete(result) if any(curves.get(stage.name, {}).values())]


def learning_curves(result: SearchResult, curves: Curves) -> Figure:
    """Return the score after each epoch of every trial that reported it."""
    from matplotlib.ticker import MaxNLocator

    states = {(row.level, row.number): row.state for row in result.trials.itertuples()}
    shown = reported(result, curves)
    sign, scale = named(result.metric).sign, unit_of(result.metric).scale
    with style.panels(3.0, 1, len(shown), sharey=True) as (figure, every):
        for axes, (stage, trials) in zip(every, shown, strict=True):
            style.dress(axes, x="step (epoch)", title=stage_title(stage), grid="y")
            best = trials["number"].iloc[int(np.argmax(sign * trials["score"].to_numpy()))]
            for number, curve in curves[stage.name].items():
                pruned = states.get((stage.name, number)) == "pruned"
                look: dict[str, Any] = {"color": style.GREY if pruned else style.BLUE, "linewidth": 1.2, "alpha": 0.7}
                if number == best:
                    look = {"color": style.ORANGE, "linewidth": 3, "zorder": 3}
                marker = "o" if len(curve) == 1 else ""
                axes.plot(list(curve), [scale * score for score in curve.values()], marker=marker, markersize=4, **look)
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _score_axis(every[0], result)
    return figure


def complete(result: SearchResult) -> list[tuple[StageSummary, pd.DataFrame]]:
    """Return the stages that have complete trials, with these by number and their scores as they are shown."""
    table = result.trials[(result.trials["state"] == "complete") & result.trials["score"].notna()]
    table = table.assign(score=unit_of(result.metric).scale * table["score"].astype(float)).sort_values(
        "number", kind="stable"
    )
    parts = [(stage, table[table["level"] == stage.name]) for stage in result.stages]
    return [(stage, part) for stage, part in parts if len(part)]


def varied(result: SearchResult) -> list[tuple[StageSummary, pd.DataFrame, list[str]]]:
    """Return stage, complete trials and what has more than one value among them; stages without any are left out."""
    parts = [
        (stage, trials, sorted(name for name in stage.ranges if trials[name].dropna().nunique() > 1))
        for stage, trials in complete(result)
    ]
    return [part for part in parts if part[2]]


def _score_axis(axes: Axes, result: SearchResult) -> None:
    axes.set_ylabel(f"{shorten(result.metric, 30)}, {unit_of(result.metric).name}", **style.LABEL)


def _along(axes: Axes, at: int, ticks: Ticks) -> FloatArray:
    """Draw one upright axis of parallel coordinates; return the heights (0..1) of the values."""
    low, high = np.nanmin(ticks.places), np.nanmax(ticks.places)
    width = float(high - low) or 1.0
    axes.axvline(at, color=style.GRID, linewidth=1)
    for place, label in zip(ticks.at, ticks.labels, strict=True):
        x, side = (-0.02, "right") if at == 0 else (at + 0.02, "left")
        axes.text(
            x, (place - low) / width, label, ha=side, va="center", fontsize=8, color=style.MUTED, parse_math=False
        )
    return np.asarray((ticks.places - low) / width, dtype=np.float64)


def ticks_of(values: pd.Series, scale: Scale) -> Ticks:
    """Return where the values of a hyperparameter stand on an axis of their own, and its ticks."""
    from matplotlib.ticker import MaxNLocator

    if scale == "choices":
        known = sorted(values.dropna().unique(), key=lambda value: (isinstance(value, str), value))
        places = values.map({value: float(at) for at, value in enumerate(known)}).to_numpy(dtype=np.float64)
        return Ticks(places, range(len(known)), [shorten(value_text(value), 12) for value in known])
    numbers: FloatArray = values.to_numpy(dtype=np.float64, na_value=np.nan)
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if scale == "log":
        ticks = log_ticks(low, high)
        at = [math.log10(tick) for tick in ticks]
        return Ticks(np.log10(numbers), at, [f"{tick:.2g}".replace("e-0", "e-") for tick in ticks])
    whole = bool(np.all(numbers[np.isfinite(numbers)] % 1 == 0))
    within = [float(tick) for tick in MaxNLocator(4, integer=whole).tick_values(low, high) if low <= tick <= high]
    return Ticks(numbers, within or [low], [f"{tick:g}" for tick in within or [low]])


def log_ticks(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis: every decade, or where there are not three, both ends and the middle."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    decades = [10.0**power for power in range(first, last + 1)]
    if len(decades) >= 3:
        return decades[:: math.ceil(len(decades) / 4)]
    return [low, math.sqrt(low * high), high] if high > low else [low]


def two_lines(name: str) -> str:
    """Break a long name at the underscore nearest to its middle."""
    places = [at for at, letter in enumerate(name) if letter == "_"]
    if len(name) <= 14 or not places:
        return shorten(name, 24)
    place = min(places, key=lambda at: abs(at - len(name) // 2))
    return f"{shorten(name[: place + 1], 24)}\n{shorten(name[place + 1 :], 24)}"
