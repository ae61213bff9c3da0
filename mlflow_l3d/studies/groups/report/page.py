"""The document of groups of existing runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from mlflow_l3d.report.draw import Axis, dot, drawn_line, svg, text, whisker
from mlflow_l3d.report.examples import fragile_examples
from mlflow_l3d.report.numbers import UNITS, cell_of, counted, metric_text, plain, points, probability, shorten, unit_of
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.groups.numbers.study import GroupsStudy
from mlflow_l3d.studies.groups.report import words

Row: TypeAlias = Mapping[Any, Any]
_FIRST: Final = 6
_MOST: Final = 200
"""Rows of a first table, and of any."""


def groups_document(
    study: GroupsStudy,
    counts: Mapping[str, int],
    examples: pd.DataFrame | None,
    *,
    title: str,
    source: Source,
    lines: Sequence[str] = (),
    notes: Sequence[str],
    settings: Mapping[str, str],
) -> Document:
    """Return groups of runs as people read them.

    Parameters
    ----------
    study, counts, examples
        As in :class:`mlflow_l3d.studies.groups.run.GroupsEvaluation`.
    title, source, notes, settings
        As in :class:`mlflow_l3d.studies.about.About`.
    lines
        As in :class:`mlflow_l3d.report.page.Document`; runs that were read from files have some.
    """
    said = [*words.notes(study, counts), *notes]
    return Document(
        title=title,
        headline=words.headline(study),
        about=source.about(study.metric),
        place=source.place(counted(counts["used"], "run"), counted(len(study.groups), "group")),
        answers=words.answers(study),
        drawing=_strips(study),
        table=_groups_table(study, _FIRST),
        steps=[words.step(study, source, can_tag=not lines)],
        lines=lines or source.lines,
        notes=said[:3],
        remarks=said,
        in_full=said[3:],
        sections=[
            Section("Groups", [_groups_table(study, _MOST)]),
            Section("Pairs of groups", [_pairs_table(study)]),
            Section("Settings of the runs", [_settings_table(study)]),
            Section("Single predictions", [fragile_examples(examples, classes=source.classes)]),
        ],
        settings=settings,
    )


def _strips(study: GroupsStudy) -> Drawing:
    """Return one line per group: a dot per run, the mean and its interval."""
    unit, parts, y = unit_of(study.metric), [], 0
    groups = study.groups.head(12)
    runs = study.runs[study.runs["group"].isin(groups["group"])]
    axis = Axis.over(unit.scale * np.concatenate([runs["score"], groups["mean_ci_low"], groups["mean_ci_high"]]))

    def at(value: float) -> float:
        return axis.at(unit.scale * value)

    for row in groups.to_dict("records"):
        parts.append(text(0, y + 12, shorten(row["group"], 60), kind="strong", anchor="start"))
        parts += [
            dot(at(one["score"]), y + 23, f"{one['seeds'] or one['run_id']}: {unit.text(one['score'])}")
            for one in runs[runs["group"].eq(row["group"])].head(300).to_dict("records")
        ]
        if math.isfinite(row["mean_ci_low"]):
            parts += whisker(at(row["mean_ci_low"]), at(row["mean_ci_high"]), y + 34)
        parts.append(drawn_line("mean", at(row["mean"]), at(row["mean"]), y + 28, y + 40))
        y += 48
    label = f"{metric_text(study.metric)} of {counted(len(groups), 'group')}, best mean first"
    more = f" The best {len(groups)} of {len(study.groups)} groups." if len(groups) < len(study.groups) else ""
    direction = f"{'Higher' if study.metric.greater_is_better else 'Lower'} is better."
    caption = f"A dot: one run. Lines: mean and its 95 % interval ({metric_text(study.metric)}). {direction}{more}"
    return Drawing(svg(y + 24, label, *parts, axis.drawn(y)), caption)


def _table(frame: pd.DataFrame, cells: Mapping[str, Callable[[Row], str]], note: str = "", **more: Any) -> Table | None:
    """Return a table by head -> text of a cell of a row; None without rows."""
    rows = [{head: cell(row) for head, cell in cells.items()} for row in frame.to_dict("records")]
    return Table.of(rows, note, **more) if rows else None


def _number(name: str, shown: Callable[[float], str]) -> Callable[[Row], str]:
    """Return what writes a number of a row, with its interval if it has one."""
    return lambda row: cell_of(row, name, shown)


def _groups_table(study: GroupsStudy, most: int) -> Table | None:
    shown = unit_of(study.metric).text
    against = {"better": "worse than the best", "undecided": "may be as good", "": "not tested", "best": "best mean"}
    cells: dict[str, Callable[[Row], str]] = {
        "group": lambda row: shorten(row["group"], 120),
        "verdict": lambda row: "equal mean" if row["group"] in study.tied else against[row["verdict"]],
        "runs": lambda row: str(row["runs"]),
        "seeds": lambda row: str(row["independent"]),
        "mean": _number("mean", shown),
        "[[typically ±|std]]": _number("std", shown),
        "[[luck up to|luck]]": _number("luck", shown),
        "runs needed": lambda row: plain(row["runs_needed"], 0),
        "lowest": _number("lowest", shown),
        "highest": _number("highest", shown),
        "[[two runs agree|agree]] (%)": _number("consistency", points),
        "fragile (%)": _number("fragile_share", points),
        "predictions differ by": _number("absolute_difference", UNITS.text),
    }
    if most == _FIRST:
        cells["[[typically ±|std]]"] = lambda row: shown(row["std"])
        del cells["lowest"], cells["highest"], cells["[[luck up to|luck]]"]
    if (study.groups["independent"] == study.groups["runs"]).all():
        del cells["seeds"]
    hidden = f" The best {most} of {len(study.groups)} groups." if len(study.groups) > most else ""
    needed = " runs needed: to distinguish it and the best." if study.groups["runs_needed"].lt(math.inf).any() else ""
    note = f"{metric_text(study.metric)}. In brackets: 95 % intervals.{needed}"
    table = _table(study.groups.head(most), cells, note + hidden, texts=frozenset({1}))
    return table and table.without_empty([*cells][4:])


def _pairs_table(study: GroupsStudy) -> Table | None:
    cells: dict[str, Callable[[Row], str]] = {
        "pair": lambda row: f"{shorten(row['first'], 40)} - {shorten(row['second'], 40)}",
        "runs": lambda row: f"{row['runs_first']}, {row['runs_second']}",
        "paired": lambda row: str(row["shared"]),
        "difference": _number("difference", unit_of(study.metric).change),
        "p": lambda row: probability(row["p"]),
        "p Holm": lambda row: probability(row["p_holm"]),
        "the first is": lambda row: str(row["verdict"]),
        "runs needed": lambda row: plain(row["runs_needed"], 0),
    }
    note = "Interval and p are of each pair alone; p Holm is for all pairs. paired: runs of both with the same seeds."
    return _table(study.pairs.head(_MOST), cells, note)


def _settings_table(study: GroupsStudy) -> Table | None:
    """Return what each recorded setting moves, largest first; None if there are none."""
    shown = unit_of(study.metric).text
    cells: dict[str, Callable[[Row], str]] = {
        "setting": lambda row: shorten(row["setting"], 40),
        "levels": lambda row: str(row["levels"]),
        "std": _number("std", shown),
        "share (%)": lambda row: points(row["share"], 0),
        "p": lambda row: probability(row["p"]),
        "p Holm": lambda row: probability(row["p_holm"]),
        "lowest mean": lambda row: f"{shown(row['lowest_mean'])}\n{shorten(row['lowest'], 24)}",
        "highest mean": lambda row: f"{shown(row['highest_mean'])}\n{shorten(row['highest'], 24)}",
    }
    note = (
        "A linear mixed model with a random effect for each setting. std: of that effect; share: of all variance. p: "
        "of no effect in addition to the other settings (F test), p Holm: adjusted for their number. A setting that "
        "alone forms the groups has the smallest p Holm of their pairs."
    )
    table = _table(study.settings.frame, cells, note, title="Which setting moves the score")
    rest = ("the rest", "", shown(study.settings.residual_std), "", "", "", "", "")
    return table and replace(table, rows=(*table.rows, rest))
