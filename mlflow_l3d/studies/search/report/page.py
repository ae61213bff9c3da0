"""What a search found: as text, and as ``search.html``, one page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from markupsafe import Markup

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
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Drawn, Table
from mlflow_l3d.studies.search.numbers import SearchResult, range_text
from mlflow_l3d.studies.search.report.words import answers, headline, steps, verdict

MOST_TRIALS: Final = 300
"""Rows of the table of trials; the artifact of all trials has the others."""


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
        steps=[*steps(result, source)],
        lines=[f"{about} · {trials} in {duration(result.seconds)}", *lines],
        notes=notes,
        sections=[
            Section("The found setting", _found_setting(result)),
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
    rows = [("On the validation examples", "undecided", result.best_score - result.default_score, math.nan, math.nan)]
    if held is not None:
        new = f"On {counted(held.configurations, 'new configuration')}"
        low, high = sorted((scale * held.ci_low, scale * held.ci_high))
        rows.append((new, verdict(held, result.metric), held.difference, low, high))
    values = [scale * value for _, _, value, *_ in rows]
    if result.kept_default or not any(map(math.isfinite, values)):
        return None
    axis = Axis.over([0.0, *values, *(end for *_, low, high in rows for end in (low, high))])
    bars = [
        Markup('<div class="{}"><p class="note">{}</p>{}</div>').format(
            kind, words, difference_bar(value, low, high, axis, f"{words}: {unit.written(value, sign='+')}")
        )
        for (words, kind, _, low, high), value in zip(rows, values, strict=True)
    ]
    points = f" in {unit.noun}" if unit.behind else ""
    interval = f", with its {percent(held.level)} interval" if held is not None and math.isfinite(held.ci_low) else ""
    caption = f"Gain over the default{points}{interval}."
    return Drawing(Markup("").join([*bars, svg(22, "axis", axis.drawn(0))]), caption)
