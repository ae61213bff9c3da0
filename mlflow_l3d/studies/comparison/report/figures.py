"""The figures of a comparison: the scores of all runs, and the differences with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.families import OverTasks
from mlflow_l3d.analysis.comparison.results import BETTER, WORSE, Comparison, Difference
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import Unit, between, counted, percent, shorten, shorten_all, unit_of
from mlflow_l3d.report.page import minus
from mlflow_l3d.report.style import Figure

_MOST_LINES = 200
"""Shared configurations beyond which single ones cannot be seen."""


def difference_figure(comparison: Comparison) -> Figure:
    """Return every difference with its interval, coloured where the better one is known; over tasks below."""
    unit = unit_of(comparison.metric)
    several, nothing = len(comparison.tasks) > 1, (math.nan, math.nan)
    rows: list[tuple[tuple[str, str, str], Difference | OverTasks, tuple[float, float], str]] = [
        ((each.first, each.second, each.task * several), each, (each.joint_low, each.joint_high), each.verdict)
        for each in comparison.differences
    ]
    rows += [
        ((pair.first, pair.second, "over tasks"), pair.found, nothing, pair.verdict) for pair in comparison.over_tasks
    ]
    with style.panels(1.3 + 0.5 * len(rows)) as (figure, (axes,)):
        style.dress(axes, x=f"difference of {comparison.metric} ({unit.name})", grid="x")
        style.name_rows(axes, [""] * len(rows))
        short = shorten_all(comparison.systems, style.NAME)
        axes.set_yticklabels(["\n".join(_lines_of(short, *names)) for names, *_ in rows], fontsize=8.5)
        axes.axvline(0, color=style.MUTED, linewidth=1)
        if not math.isnan(comparison.smallest_effect):
            reach = unit.scale * comparison.smallest_effect
            axes.axvspan(-reach, reach, color=style.ABSENT, label="smallest effect")
        for at, (names, one, joint, verdict) in enumerate(rows):
            low, middle, high = (unit.scale * value for value in (one.low, one.difference, one.high))
            colour = style.BLUE if verdict in (BETTER, WORSE) else style.GREY
            name: dict[str, Any] = {"label": f"{percent(comparison.level)} interval"} if not at else {}
            tooltip = style.tooltip_url(
                " ".join(part for part in (f"{names[0]} - {names[1]}", names[2]) if part),
                minus(f"{unit.change(one.difference)} ({between(one.low, one.high, unit.change)})"),
            )
            axes.plot([unit.scale * value for value in joint], [at, at], color=colour, linewidth=1, url=tooltip)
            axes.plot([low, high], [at, at], color=colour, linewidth=3, solid_capstyle="butt", url=tooltip, **name)
            axes.plot(middle, at, "o", color=colour, markersize=6, markeredgecolor="white", url=tooltip)
        style.legend(figure, axes)
    return figure


def _lines_of(short: Mapping[str, str], first: str, second: str, task: str) -> tuple[str, str]:
    """Return two lines that name a pair."""
    return short[first], f"- {short[second]}" + (f", {shorten(task, 10)}" if task else "")


def score_figure(comparison: Comparison, scores: pd.DataFrame) -> Figure:
    """Return the score of every run of every system, lines joining runs that share configurations.

    Parameters
    ----------
    comparison
        The comparison.
    scores
        One row per run: task, system, score, and `pair`: equal for runs of two systems with shared configurations.
    """
    unit, tasks = unit_of(comparison.metric), comparison.tasks
    count = len(comparison.systems)
    with style.panels(0.7 + len(tasks) * (0.7 + 0.42 * count), len(tasks), 1) as (figure, every):
        for axes, task in zip(every, tasks, strict=True):
            last = axes is every[-1]
            style.dress(axes, x=f"{comparison.metric} ({unit.name})" if last else "", title=task, grid="x")
            style.name_rows(axes, comparison.systems)
            part = scores[scores["task"] == task]
            # Dots side by side, the same in every drawing.
            place = part["system"].map({system: at for at, system in enumerate(comparison.systems)})
            part = part.assign(height=place + np.random.default_rng(0).uniform(-0.16, 0.16, len(part)))
            if count == 2 and part["pair"].nunique() <= _MOST_LINES:
                for _, both in part.dropna(subset=["pair"]).groupby("pair"):
                    joined = unit.scale * both["score"], both["height"]
                    told_pair = style.tooltip_url(*_scores(both, unit), "shared configurations")
                    axes.plot(*joined, color=style.GREY, alpha=0.5, linewidth=0.5, url=told_pair)
            for at, system in enumerate(comparison.systems):
                runs = part[part["system"] == system]
                look: dict[str, Any] = {"s": 12, "linewidths": 0, "alpha": min(1.0, 60 / len(runs) + 0.15)}
                tooltips = [style.tooltip_url(text) for text in _scores(runs, unit)]
                axes.scatter(unit.scale * runs["score"], runs["height"], color=style.BLUE, urls=tooltips, **look)
                mean = runs["score"].mean()
                line = unit.scale * np.array([mean, mean]), [at - 0.3, at + 0.3]
                told_mean = style.tooltip_url(f"{system}: {unit.text(mean)}", f"mean of {counted(len(runs), 'run')}")
                axes.plot(*line, color=style.ORANGE, linewidth=2.5, url=told_mean)
    return figure


def _scores(runs: pd.DataFrame, unit: Unit) -> list[str]:
    return [f"{system}: {unit.text(score)}" for system, score in zip(runs["system"], runs["score"], strict=True)]
