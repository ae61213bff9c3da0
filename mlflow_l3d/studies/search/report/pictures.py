"""The pictures of a search, which show complete trials only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.approaches.hyperparameters import SearchChoices
from mlflow_l3d.report.draw import Axis, difference_bar, svg
from mlflow_l3d.report.numbers import counted, percent, shorten, unit_of, value_text
from mlflow_l3d.report.page import Drawing
from mlflow_l3d.report.scatter import scatter
from mlflow_l3d.studies.search.numbers import SearchResult, StageSummary
from mlflow_l3d.studies.search.report.words import verdict

_PANEL: Final = Markup("<div><h3>{}</h3>{}</div>")


def gains(result: SearchResult) -> Drawing | None:
    """Return the gain over the default on the examples that chose the found setting, and on new configurations."""
    held, unit = result.held_out, unit_of(result.metric)
    scale = unit.scale * result.metric.sign
    rows = [("On the validation examples", "undecided", result.best_score - result.default_score)]
    ends = {0: (math.nan, math.nan)}
    if held is not None:
        new = f"On {counted(held.configurations, 'new configuration')}"
        rows.append((new, verdict(held, result.metric), held.difference))
        ends[1] = (min(scale * held.ci_low, scale * held.ci_high), max(scale * held.ci_low, scale * held.ci_high))
    values = [scale * value for *_, value in rows]
    if result.kept_default or not any(map(math.isfinite, values)):
        return None
    axis = Axis.over([0.0, *values, *(end for pair in ends.values() for end in pair)])
    bars = [
        Markup('<div class="{}"><p class="note">{}</p>{}</div>').format(
            kind, words, difference_bar(value, *ends[at], axis, f"{words}: {unit.written(value, sign='+')}")
        )
        for at, ((words, kind, _), value) in enumerate(zip(rows, values, strict=True))
    ]
    points = f" in {unit.noun}" if unit.behind else ""
    interval = f", with its {percent(held.level)} interval" if held is not None and math.isfinite(held.ci_low) else ""
    caption = f"Gain over the default{points}{interval}."
    return Drawing(Markup("").join([*bars, svg(22, "axis", axis.drawn(0))]), caption)


def history(result: SearchResult) -> Drawing | None:
    """Return the scores in the order of the trials, and the best so far."""
    sign, axis = result.metric.sign, _axis(result)
    panels = []
    for stage, trials in complete_trials(result):
        numbers, scores = (trials[name].to_numpy(dtype=float) for name in ("number", "score"))
        last = max(1.0, float(numbers.max()))
        best = sign * np.maximum.accumulate(sign * scores)
        ticks = [(0.0, "0"), (1.0, f"{last:.0f}")]
        drawn = scatter(
            numbers / last, scores, axis, ticks, f"{stage.title}, by trial", names=_names(result, trials), line=best
        )
        panels.append((stage.title, drawn))
    return _panels(panels, "A dot: one complete trial, in the order of the trials. Line: best so far.")


def slices(result: SearchResult) -> Drawing | None:
    """Return the scores by each hyperparameter that was varied."""
    axis, panels = _axis(result), []
    for stage, trials, names in varied_hyperparameters(result):
        for name in names:
            tried = trials[trials[name].notna()]
            places, ticks = _places(tried[name], stage, name)
            scores = tried["score"].to_numpy(dtype=float)
            drawn = scatter(places, scores, axis, ticks, f"{stage.title}, by {name}", names=_names(result, tried, name))
            panels.append((f"{name}, {stage.name}", drawn))
    return _panels(panels, "A dot: one complete trial. Point at it for its number and value.")


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


def _axis(result: SearchResult) -> Axis:
    return Axis.over([score for _, trials in complete_trials(result) for score in trials["score"]])


def _names(result: SearchResult, trials: pd.DataFrame, name: str = "") -> list[str]:
    written = unit_of(result.metric).written
    values = [f", {value_text(value)}" for value in trials[name]] if name else [""] * len(trials)
    return [
        f"trial {number}{value}: {written(score)}"
        for number, score, value in zip(trials["number"], trials["score"], values, strict=True)
    ]


def _places(values: pd.Series, stage: StageSummary, name: str) -> tuple[FloatArray, list[tuple[float, str]]]:
    """Return the places of values along an axis (0..1), and its ticks."""
    searched = stage.ranges[name]
    if isinstance(searched, SearchChoices):
        choices = sorted(values.unique(), key=lambda value: (isinstance(value, str), value))
        step = 1 / max(1, len(choices) - 1)
        places = values.map({value: step * at for at, value in enumerate(choices)}).to_numpy(dtype=float)
        return places, [(step * at, shorten(value_text(choice), 12)) for at, choice in enumerate(choices)]
    numbers = values.to_numpy(dtype=float)
    low, high = float(numbers.min()), float(numbers.max())
    scaled = np.log([low, high, *numbers]) if searched.log else np.array([low, high, *numbers])
    return (scaled[2:] - scaled[0]) / (scaled[1] - scaled[0]), [(0.0, value_text(low)), (1.0, value_text(high))]


def _panels(panels: Iterable[tuple[str, Markup]], caption: str) -> Drawing | None:
    drawn = Markup("").join(_PANEL.format(*panel) for panel in panels)
    return Drawing(Markup('<div class="paths">{}</div>').format(drawn), caption) if drawn else None
