"""The document of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow_l3d.report.html import Snippet
from mlflow_l3d.report.numbers import counted, percent, shorten
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.sweep.numbers.results import Sweep
from mlflow_l3d.studies.sweep.report.point_tables import all_points, first_table, heat_table, short_table
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.studies.sweep.report.tables import interaction_table, trend_table
from mlflow_l3d.studies.sweep.report.words import answers, headline, short_notes, steps, watch

_HEAT: Final = (
    "[[Share of the variance|share]] in %. Orange: the factor dominates; blue: it is minor; "
    "hatched: [[undecided|verdict]]."
)


def sweep_document(
    sweep: Sweep,
    *,
    title: str,
    source: Source | None = None,
    links: Mapping[str, str] | None = None,
) -> Document:
    """Return a sweep as people read it.

    Parameters
    ----------
    sweep
        The records.
    title
        As in :class:`mlflow_l3d.report.page.Document`.
    source
        Where it comes from.
    links
        Run id -> address of the run; run ids without one are shown alone.
    """
    shown, source, links = ShownSweep(sweep), source or Source(), links or {}
    table = first_table(shown, links)
    every = first_table(shown, links, (len(sweep.points), len(sweep.factors)))
    sections = [
        Section("Luck and shares at every point", [every if table and every and every.note != table.note else None]),
        Section("Heat map of shares", [_HEAT, heat_table(shown)] if sweep.factors else []),
        Section("What to watch", [[Item(note, kind="warning") for note in watch(shown)]], name="watch"),
        Section("What choices move", [interaction_table(shown)]),
        Section("Trends", [trend_table(shown)]),
        Section("All points in numbers", [all_points(shown, links)], name="points"),
        Section("How to read this", [Snippet("sweep_reading.html", {"level": percent(sweep.level)})]),
    ]
    return Document(
        title=title,
        headline=headline(shown),
        about=_about(shown, source),
        place=source.place(counted(len(sweep.points), "point"), counted(shown.runs, "run")),
        answers=answers(shown),
        table=table,
        steps=steps(shown, source),
        short_table=short_table(shown),
        notes=short_notes(shown),
        sections=sections,
    )


def _about(shown: ShownSweep, source: Source) -> str:
    task = ", ".join(dict.fromkeys(point.task for point in shown.sweep.points))
    metrics = [f"{', '.join(shown.metrics)}{' in %' * bool(shown.unit.behind)}"] if shown.metrics else []
    return " · ".join(shorten(part, 60) for part in (task, source.approach, source.model, *metrics) if part)
