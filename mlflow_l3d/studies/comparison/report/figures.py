"""The figure of a comparison: the scores of all runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.results import Comparison
from mlflow_l3d.report import style
from mlflow_l3d.report.numbers import Unit, counted, unit_of
from mlflow_l3d.report.style import Figure

_MOST_LINES = 200
"""Shared configurations beyond which single ones cannot be seen."""


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
