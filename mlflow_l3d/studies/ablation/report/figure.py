"""The picture of an ablation: the importance of each factor against the number of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import pandas as pd
from markupsafe import Markup

from mlflow_l3d.analysis.importance.verdicts import GOLDEN_ROW
from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.report.draw import WIDTH, Axis, drawn_line, sheet, short, text
from mlflow_l3d.report.numbers import shorten

_BLUE, _GREY, _ORANGE = "#0072b2", "#9aa3b0", "#d55e00"
_LEFT: Final = 8.0
"""Room for the numbers of the upright axis, in per cent."""
_HEIGHT: Final = 150
"""Height of a panel, in pixels."""
_BAND: Final = Markup('<polygon points="{}" fill="{}" fill-opacity="0.15"/>')
_LINE: Final = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="1.5"/>')
_POINT: Final = Markup('<circle cx="{}%" cy="{}" r="3" fill="{}"/>')
_SQUARE: Final = Markup('<rect x="{}" y="{}" width="{size}" height="{size}" fill="{}"/>')
_WHISKER: Final = Markup('<line x1="{0}%" x2="{0}%" y1="{1}" y2="{2}" stroke="{3}" stroke-width="1.6"/>')


def ablation_figure(means: pd.DataFrame) -> Markup:
    """Return importance and corrected interval of every factor against the number of runs, one panel a factor.

    Parameters
    ----------
    means
        As :func:`mlflow_l3d.studies.ablation.report.page.spread` returns it.
    """
    is_radial = bool(means["investigation_runs"].isna().all())
    means = means.assign(investigation_runs=means["investigation_runs"].fillna(1).astype(int))
    means = means.assign(runs=(means["mitigation_runs"] * means["investigation_runs"]).astype(float))
    means = means[means["test_examples"].isna()]
    fewer = "base runs" if is_radial else "rows"
    legend = [(_BLUE, f"importance, fewer {fewer}"), (_ORANGE, f"corrected, fewer {fewer}, 95 % interval")]
    legend += [] if is_radial else [(_GREY, "importance, fewer columns")]
    parts = []
    for number, (colour, words) in enumerate(legend):
        parts.append(_SQUARE.format(280 * number, 2, colour, size=10))
        parts.append(text(100 * (280 * number + 16) / WIDTH, 12, words, anchor="start"))
    top = 34
    for factor in (name for name in means["factor"].unique() if name != GOLDEN_ROW):
        parts += _panel(str(factor), means[means["factor"] == factor], top, is_radial=is_radial)
        top += _HEIGHT + 74
    unit = "base runs" if is_radial else "runs (rows x columns)"
    parts.append(text(50, top - 18, unit, anchor="middle"))
    return sheet(top, f"Importance of each factor against the number of {unit}", *parts)


def _panel(factor: str, part: pd.DataFrame, top: int, *, is_radial: bool) -> list[Markup]:
    base = part.sort_values("setting", kind="stable").iloc[0]
    by_rows = part[part["investigation_runs"] == base["investigation_runs"]]
    by_columns = part[part["mitigation_runs"] == base["mitigation_runs"]]
    wide = by_rows.pivot(index="runs", columns="number", values="mean")
    corrected = wide[[*with_interval("importance_corrected")]].dropna()
    shown = part.loc[part["number"] == "importance", ["mean", "low", "high"]]
    axis = Axis.over([0.0, *shown.to_numpy().ravel(), *corrected.to_numpy().ravel()], ticks=4)
    low, high = math.log(part["runs"].min()), math.log(part["runs"].max())

    def across(runs: float) -> float:
        return 98 - (98 - _LEFT) * (high - math.log(runs)) / ((high - low) or 1.0)

    def down(value: float) -> float:
        return top + 14 + _HEIGHT * (1 - axis.at(value) / 100)

    parts = [text(0, top, shorten(factor, 60), kind="strong", anchor="start")]
    for tick in axis.ticks:
        parts.append(drawn_line("axis", _LEFT - 2, 100, down(tick), down(tick)))
        parts.append(text(_LEFT - 3, down(tick) + 4, axis.tick_text(tick), anchor="end"))
    parts.append(drawn_line("mean", _LEFT - 2, 100, down(0.0), down(0.0)))
    parts += [text(across(runs), top + _HEIGHT + 32, str(runs), anchor="middle") for runs in _ticks(part["runs"])]
    parts += [] if is_radial else _line(by_columns, _GREY, across, down)
    parts += _line(by_rows, _BLUE, across, down)
    for runs, value, start, end in corrected.itertuples():
        x = across(runs)
        parts.append(_WHISKER.format(short(x), short(down(start)), short(down(end)), _ORANGE))
        parts.append(_SQUARE.format(short(x * WIDTH / 100 - 3), short(down(value) - 3), _ORANGE, size=6))
    return parts


def _line(
    part: pd.DataFrame, colour: str, across: Callable[[float], float], down: Callable[[float], float]
) -> list[Markup]:
    """Return the means of the importance as a line of dots, and their ranges as a band."""
    line = part[part["number"] == "importance"].dropna(subset=["mean", "low", "high"]).sort_values("runs")
    places = [across(runs) for runs in line["runs"]]
    means, lows, highs = ([down(value) for value in line[name]] for name in ("mean", "low", "high"))
    outline = [*zip(places, highs, strict=True), *reversed([*zip(places, lows, strict=True)])]
    dots = [_POINT.format(short(x), short(y), colour) for x, y in zip(places, means, strict=True)]
    return [
        _BAND.format(_points(outline), colour),
        _LINE.format(_points(zip(places, means, strict=True)), colour),
        *dots,
    ]


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{short(x * WIDTH / 100)},{short(y)}" for x, y in places)


def _ticks(runs: pd.Series) -> list[int]:
    """Return the numbers of runs, largest first, without those that are too close to a larger one for a label."""
    labelled: list[int] = []
    for number in sorted({int(each) for each in runs}, reverse=True):
        if not labelled or labelled[-1] / number > 1.15:
            labelled.append(number)
    return labelled
