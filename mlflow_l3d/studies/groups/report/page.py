"""The document of groups of existing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd

from mlflow_l3d.report.draw import Axis, dot, drawn_line, svg, text, whisker
from mlflow_l3d.report.numbers import (
    between,
    counted,
    interval_of,
    metric_text,
    plain,
    points,
    probability,
    shorten,
    unit_of,
    with_limits,
)
from mlflow_l3d.report.page import Document, Drawing, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.studies.groups.numbers.study import GroupsStudy
from mlflow_l3d.studies.groups.report import words
from mlflow_l3d.studies.seeds.report.tables import settings_table

_FIRST: Final = 6
_MOST: Final = 200
"""Rows of a first table, and of any."""
_DRAWN: Final = 12
_DOTS: Final = 300
"""Groups that are drawn, and runs of each."""


def groups_document(
    study: GroupsStudy,
    counts: Mapping[str, int],
    agreement: pd.DataFrame | None,
    examples: pd.DataFrame | None,
    *,
    title: str,
    source: Source,
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return groups of runs as people read them.

    Parameters
    ----------
    study, counts, agreement, examples
        As in :class:`mlflow_l3d.studies.groups.results.GroupsEvaluation`.
    title, source, notes, settings
        As in :class:`mlflow_l3d.studies.about.About`.
    """
    said = [*words.notes(study, counts)]
    run = f"MLflow run {source.run_id}; report.html is among its artifacts" if source.run_id else ""
    return Document(
        title=title,
        headline=words.headline(study),
        about=source.about(metric_text(study.metric)),
        place=source.place(counted(counts["used"], "run"), counted(len(study.groups), "group")),
        answers=words.answers(study),
        drawing=_strips(study),
        table=_groups_table(study, _FIRST),
        steps=[*words.steps(study, source)],
        lines=[run] if run else [],
        notes=[*said[:2], *notes[:1]],
        remarks=[*said, *notes],
        in_full=[*said[2:], *notes[1:]],
        sections=[
            Section("Groups", [_groups_table(study)]),
            Section("Pairs of groups", [_pairs_table(study)]),
            Section("Settings of the runs", [settings_table(study.settings, study.metric)]),
            Section("Single predictions", [_agreement_table(agreement), _examples_table(examples)]),
        ],
        settings=settings,
    )


def _strips(study: GroupsStudy) -> Drawing:
    """Return one line per group: a dot per run, the mean and its interval."""
    unit, groups, parts, y = unit_of(study.metric), study.groups.head(_DRAWN), [], 0
    runs = study.runs[study.runs["group"].isin(groups["group"]) & ~study.runs["repeated"]]
    limits = groups[["mean_ci_low", "mean_ci_high"]].to_numpy().ravel()
    axis = Axis.over(unit.scale * np.concatenate([runs["score"], limits]))
    for row in groups.to_dict("records"):
        own = runs[runs["group"].eq(row["group"])].head(_DOTS)
        parts.append(text(0, y + 12, shorten(row["group"], 60), kind="strong", anchor="start"))
        for one in own.to_dict("records"):
            said = f"{one['seeds'] or one['run_id']}: {unit.text(one['score'])}"
            parts.append(dot(axis.at(unit.scale * one["score"]), y + 26, said, hollow=one["far"]))
        if np.isfinite(row["mean_ci_low"]):
            ends = (axis.at(unit.scale * row[f"mean_ci_{end}"]) for end in ("low", "high"))
            parts += whisker(*ends, y + 26)
        mean = axis.at(unit.scale * row["mean"])
        parts.append(drawn_line("mean", mean, mean, y + 18, y + 34))
        y += 40
    label = f"{metric_text(study.metric)} of {counted(len(groups), 'group')}, best mean first"
    more = f" The best {len(groups)} of {len(study.groups)} groups." if len(groups) < len(study.groups) else ""
    direction = "" if study.metric.greater_is_better else " Smaller is better."
    caption = f"A dot: one run. Lines: mean and its 95 % interval ({metric_text(study.metric)}).{direction}{more}"
    return Drawing(svg(y + 24, label, *parts, axis.drawn(y)), caption)


def _groups_table(study: GroupsStudy, most: int = _MOST) -> Table:
    unit, rows = unit_of(study.metric), []
    for row in study.groups.head(most).to_dict("records"):
        cells = {"group": shorten(row["group"], 60), "runs": str(row["runs"])}
        for head, name in (("mean", "mean"), ("[[typically ±|std]]", "std")):
            cells[head] = with_limits(unit.text(row[name]), interval_of(row, name, unit.text), "({})")
        cells["[[luck up to|luck]]"] = unit.text(row["luck"])
        cells["worst to best"] = between(
            *sorted((row["lowest"], row["highest"]), key=lambda at: at * study.metric.sign), unit.text
        )
        cells["the best is"] = {"undecided": "not distinguished", "": "not tested"}.get(row["verdict"], row["verdict"])
        cells["runs needed"] = plain(row["runs_needed"], 0)
        rows.append(cells)
    hidden = f" The best {most} of {len(study.groups)} groups." if len(study.groups) > most else ""
    note = f"{metric_text(study.metric)}. In brackets: 95 % intervals. runs needed: of each, to distinguish it from the best.{hidden}"
    table = Table.of(rows, note).without_empty(["runs needed", "[[luck up to|luck]]", "[[typically ±|std]]"])
    return table


def _pairs_table(study: GroupsStudy) -> Table | None:
    shown, rows = partial(unit_of(study.metric).change), []
    for row in study.pairs.head(_MOST).to_dict("records"):
        limits = between(row["difference_ci_low"], row["difference_ci_high"], shown)
        cells = {
            "pair": f"{shorten(row['first'], 40)} - {shorten(row['second'], 40)}",
            "runs": f"{row['runs_first']}, {row['runs_second']}",
        }
        cells |= {"paired": str(row["shared"]), "difference": f"{shown(row['difference'])}\n({limits})"}
        cells |= {"p": probability(row["p"]), "p Holm": probability(row["p_holm"]), "verdict": row["verdict"]}
        rows.append({**cells, "runs needed": plain(row["runs_needed"], 0)})
    note = "Interval and p are of each pair alone; p Holm is for all pairs. paired: runs of both with the same seeds."
    return Table.of(rows, note) if rows else None


def _agreement_table(agreement: pd.DataFrame | None) -> Table | None:
    if agreement is None:
        return None
    heads = {"robust_share": "right in all (%)", "fragile_share": "in some (%)", "never_right_share": "in none (%)"}
    rows = [
        {
            "group": shorten(row["group"], 60),
            "runs": str(row["compared"]),
            "examples": str(row["examples"]),
            "two runs agree (%)": with_limits(
                points(row["consistency"]), interval_of(row, "consistency", points), "({})"
            ),
            **{head: points(row[name]) for name, head in heads.items()},
        }
        for row in agreement.to_dict("records")
    ]
    return Table.of(rows)


def _examples_table(examples: pd.DataFrame | None) -> Table | None:
    if examples is None or examples.empty:
        return None
    rows = [
        {
            "example": str(row["example_id"]),
            "group": shorten(row["group"], 60),
            "right in (%)": points(row["share_right"], 0),
        }
        for row in examples.to_dict("records")
    ]
    return Table.of(rows, title="Examples on which runs differ most", texts=frozenset({1}))
