"""What a search found: as text, and as ``search.html``, one page with its pictures of complete trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.approaches.hyperparameters import SearchChoices
from mlflow_l3d.report.draw import Axis, amount_bar, difference_bar, svg
from mlflow_l3d.report.html import chip
from mlflow_l3d.report.numbers import (
    MISSING,
    counted,
    duration,
    metric_text,
    percent,
    plain,
    share_text,
    shorten,
    unit_of,
    value_text,
)
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.scatter import scatter
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.studies.search.numbers import SearchResult, StageSummary, range_text
from mlflow_l3d.studies.search.report.words import answers, headline, steps, verdict

MOST_TRIALS: Final = 300
"""Rows of the table of trials; the artifact of all trials has the others."""
_PANEL: Final = Markup("<div><h3>{}</h3>{}</div>")


def search_report(
    result: SearchResult,
    *,
    source: Source | None = None,
    lines: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return a search as people read it.

    Parameters
    ----------
    result, source
        The result, and its origin.
    lines
        For the terminal, below the headline: the run and its files.
    settings
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    source, trials = source or Source(), counted(result.trials_run, "trial")
    about = source.about(metric_text(result.metric))
    lost = [f"{counted(stage.failed, f'{stage.name} trial')} failed." for stage in result.stages if stage.failed]
    notes = [*lost, *result.notes]
    return Document(
        title=result.title,
        headline=headline(result),
        about=about,
        place=source.place(trials),
        answers=answers(result),
        drawing=gains(result),
        table=setting_table(result),
        steps=steps(result, source),
        lines=[f"{about} · {trials} in {duration(result.seconds)}", *lines],
        notes=notes,
        sections=[
            Section("The found setting", _found_setting(result)),
            Section("The levels", [stage_table(result)]),
            Section("How the score rose", [history(result)]),
            Section("Score by hyperparameter", [slices(result)]),
            Section("Trials, best first", [trial_table(result, MOST_TRIALS)]),
        ],
        settings=settings,
    )


def _found_setting(result: SearchResult) -> list[str | None]:
    """Return what was not searched, and how to use the found setting."""
    others = ", ".join(
        f"{name} = {shorten(value_text(value), 200)}"
        for name, value in result.best.items()
        if name not in result.searched
    )
    command = Markup("Use it in an investigation: <code>--hyperparameters {}</code>").format(result.run_id)
    return [f"Not searched: {others}." if others else None, command if result.run_id else None]


def setting_table(result: SearchResult) -> Table:
    """Return one row per searched hyperparameter: default, found, its share of the variance, and its ranges."""
    rows, shares = [], result.importances
    for name in result.searched:
        values = [_cell(setting.get(name), 60, MISSING) for setting in (result.default, result.best)]
        said = share_text(shares[name]) if name in shares else MISSING
        drawn = [Drawn(amount_bar(shares.get(name, 0.0), math.nan, math.nan, said), said)] if shares else []
        ranges = [range_text(stage.ranges[name]) if name in stage.ranges else "fixed" for stage in result.stages]
        rows.append((name, *values, *drawn, *[shorten(text, 60) for text in ranges]))
    heads = [f"level {number} ({stage.name})" for number, stage in enumerate(result.stages, 1)]
    head = ("hyperparameter", "default", "found", *(["[[share of variance|fanova]]"] if shares else []), *heads)
    return Table(head, tuple(rows), texts=frozenset(range(3, len(head))), kind="found")


def stage_table(result: SearchResult) -> Table:
    """Return one row per stage: how many trials there were, how they ended, and the best score."""
    rows = [
        {
            "level": stage.title,
            "sampler": stage.sampler,
            **{name: str(getattr(stage, name)) for name in ("trials", "complete", "pruned", "failed")},
            "best score": unit_of(result.metric).text(stage.best_score),
        }
        for stage in result.stages
    ]
    return Table.of(rows, texts=frozenset({1}))


def trial_table(result: SearchResult, most: int) -> Table:
    """Return at most `most` trials for a page, the best first, those without a score last."""
    unit = unit_of(result.metric)
    ranks = result.trials["state"].map({"complete": 0, "pruned": 1}).fillna(2)
    order = np.lexsort((-result.metric.sign * result.trials["score"].astype(float), ranks))
    rows = []
    for place, row in enumerate(result.trials.iloc[order[:most]].to_dict("records")):
        name, state, spread = f"{row['level']} {row['number']}", str(row["state"]), float(row["score_std"])
        mark = "best" if place == 0 and state == "complete" else "default" if row["is_default"] else ""
        kind = "important" if mark == "best" else "not-important"
        run = Markup('<code title="{}">{}</code>').format(row["run_id"], str(row["run_id"])[:8])
        rows.append(
            (
                Markup("{} {}").format(name, chip(kind, mark)) if mark else name,
                unit.text(float(row["score"])),
                unit.text(spread) if math.isfinite(spread) else "",
                state if row["origin"] == "trained" else f"{state}, {row['origin']}",
                *[_cell(row.get(each)) for each in result.searched],
                plain(float(row["duration_seconds"]), 1),
                run if row["run_id"] else "",
            )
        )
    head = ("trial", "score", "std", "state", *result.searched, "seconds", "run")
    left_out = len(result.trials) - len(rows)
    note = f"{left_out} more trials are in trials.json." if left_out > 0 else ""
    texts = frozenset({3, len(head) - 1})
    return Table(head, tuple(rows), note, texts, kind="trials").without_empty(("std", "run"), empty="")


def _cell(value: Any, width: int = 40, absent: str = "-") -> str:
    # pandas puts nan in a gap.
    return absent if value is None or value != value else shorten(value_text(value), width)


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
