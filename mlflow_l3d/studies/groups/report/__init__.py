"""The report of groups of existing runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.intervals import with_interval
from mlflow_l3d.report.draw import Axis, dot, drawn_line, svg, text, whisker
from mlflow_l3d.report.html import fragile_examples
from mlflow_l3d.report.numbers import UNITS, cell_of, counted, metric_text, plain, points, probability, shorten, unit_of
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.groups.numbers import GroupsStudy
from mlflow_l3d.studies.groups.report import words

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
        As in :class:`mlflow_l3d.report.source.About`.
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
    runs = study.runs[study.runs["group"].isin(groups["group"])].assign(at=unit.scale * study.runs["score"])
    means = unit.scale * groups.set_index("group")[["mean", "mean_ci_low", "mean_ci_high"]]
    axis = Axis.over(np.concatenate([runs["at"], means["mean_ci_low"], means["mean_ci_high"]]))
    for name, mean, low, high in means.itertuples():
        parts.append(text(0, y + 12, shorten(str(name), 60), kind="strong", anchor="start"))
        parts += [
            dot(axis.at(one["at"]), y + 23, f"{one['seeds'] or one['run_id']}: {unit.text(one['score'])}")
            for one in runs[runs["group"].eq(name)].head(300).to_dict("records")
        ]
        if math.isfinite(low):
            parts += whisker(axis.at(low), axis.at(high), y + 34)
        parts.append(drawn_line("mean", axis.at(mean), axis.at(mean), y + 28, y + 40))
        y += 48
    label = f"{metric_text(study.metric)} of {counted(len(groups), 'group')}, best mean first"
    more = f" The best {len(groups)} of {len(study.groups)} groups." if len(groups) < len(study.groups) else ""
    direction = f"{'Higher' if study.metric.greater_is_better else 'Lower'} is better."
    caption = f"A dot: one run. Lines: mean and its 95 % interval ({metric_text(study.metric)}). {direction}{more}"
    return Drawing(svg(y + 24, label, *parts, axis.drawn(y)), caption)


def groups_frame(study: GroupsStudy, *, full: bool = False) -> pd.DataFrame:
    """Return one row per group in the units of the report; `full` returns all, in the unit of the metric."""
    if full:
        return study.groups
    scores = {name: name for name in (*with_interval("mean"), "lowest", "highest")}
    spreads = {name: name for name in (*with_interval("std"), "luck")}
    return unit_of(study.metric).heads(study.groups.assign(verdict=verdicts(study)), scores, spreads)


def verdicts(study: GroupsStudy) -> list[str]:
    """Return the verdict on each group in words, in their order."""
    against = {"better": "worse than the best", "undecided": "may be as good", "": "not tested", "best": "best mean"}
    tied = study.tied
    said = zip(study.groups["group"], study.groups["verdict"], strict=True)
    return ["equal mean" if name in tied else against[verdict] for name, verdict in said]


def _groups_table(study: GroupsStudy, most: int) -> Table:
    shown, rows = unit_of(study.metric).text, []
    left_out = {"lowest", "highest", "[[luck up to|luck]]"} if most == _FIRST else set()
    left_out |= {"seeds"} if (study.groups["independent"] == study.groups["runs"]).all() else set()
    for row in study.groups.assign(verdict=verdicts(study)).head(most).to_dict("records"):
        cells = {
            "group": shorten(row["group"], 120),
            "verdict": row["verdict"],
            "runs": str(row["runs"]),
            "seeds": str(row["independent"]),
            "mean": cell_of(row, "mean", shown),
            "[[typically ±|std]]": shown(row["std"]) if most == _FIRST else cell_of(row, "std", shown),
            "[[luck up to|luck]]": shown(row["luck"]),
            "runs needed": plain(row["runs_needed"], 0),
            "lowest": shown(row["lowest"]),
            "highest": shown(row["highest"]),
            "[[two runs agree|agree]] (%)": cell_of(row, "consistency", points),
            "fragile (%)": points(row["fragile_share"]),
            "predictions differ by": cell_of(row, "absolute_difference", UNITS.text),
        }
        rows.append({head: text for head, text in cells.items() if head not in left_out})
    hidden = f" The best {most} of {len(study.groups)} groups." if len(study.groups) > most else ""
    needed = " runs needed: to distinguish it and the best." if study.groups["runs_needed"].lt(math.inf).any() else ""
    note = f"{metric_text(study.metric)}. In brackets: 95 % intervals.{needed}{hidden}"
    return Table.of(rows, note, texts=frozenset({1})).without_empty([*rows[0]][4:])


def _pairs_table(study: GroupsStudy) -> Table | None:
    rows = [
        {
            "pair": f"{shorten(row['first'], 40)} - {shorten(row['second'], 40)}",
            "runs": f"{row['runs_first']}, {row['runs_second']}",
            "paired": str(row["shared"]),
            "difference": cell_of(row, "difference", unit_of(study.metric).change),
            "p": probability(row["p"]),
            "p Holm": probability(row["p_holm"]),
            "the first is": str(row["verdict"]),
            "runs needed": plain(row["runs_needed"], 0),
        }
        for row in study.pairs.head(_MOST).to_dict("records")
    ]
    note = "Interval and p are of each pair alone; p Holm is for all pairs. paired: runs of both with the same seeds."
    return Table.of(rows, note) if rows else None


def _settings_table(study: GroupsStudy) -> Table | None:
    """Return what each recorded setting moves, largest first; None if there are none."""
    shown = unit_of(study.metric).text
    rows = [
        {
            "setting": shorten(row["setting"], 40),
            "levels": str(row["levels"]),
            "std": shown(row["std"]),
            "share (%)": points(row["share"], 0),
            "p": probability(row["p"]),
            "p Holm": probability(row["p_holm"]),
            "lowest mean": f"{shown(row['lowest_mean'])}\n{shorten(row['lowest'], 24)}",
            "highest mean": f"{shown(row['highest_mean'])}\n{shorten(row['highest'], 24)}",
        }
        for row in study.settings.frame.to_dict("records")
    ]
    rest = {"setting": "the rest", "std": shown(study.settings.residual_std)}
    note = (
        "A linear mixed model with a random effect for each setting. std: of that effect; share: of all variance. p: "
        "of no effect in addition to the other settings (F test), p Holm: adjusted for their number. A setting that "
        "alone forms the groups has the smallest p Holm of their pairs."
    )
    title = "Which setting moves the score"
    return Table.of([*rows, dict.fromkeys(rows[0], "") | rest], note, title=title) if rows else None
