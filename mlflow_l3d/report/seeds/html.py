"""Seeds studies as one HTML file without scripts, fonts or pictures from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.seeds.over_tasks import ModelOverTasks
from mlflow_l3d.analysis.seeds.study import SeedsStudy
from mlflow_l3d.report.investigation.html import page_environment, picture
from mlflow_l3d.report.investigation.sections import Table
from mlflow_l3d.report.investigation.words import Answer
from mlflow_l3d.report.seeds.figures import seed_figure, seed_heatmap, size_figure
from mlflow_l3d.report.seeds.tables import (
    TABLE_1_NOTE,
    TABLE_7_NOTE,
    correlation_table,
    difference_table,
    fragile_examples,
    interval_table,
    metric_table,
    pair_table,
    published_table_1,
    published_table_7,
    rank_table,
    seed_table,
)
from mlflow_l3d.report.seeds.words import better_sentences, over_answers, study_answers


@dataclass(frozen=True, slots=True)
class _Part:
    title: str = ""
    table: Table | None = None
    picture: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    parts: tuple[_Part, ...]
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def study_page(
    study: SeedsStudy,
    *,
    title: str = "",
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return one study as an HTML page.

    Parameters
    ----------
    study
        The record.
    title
        Heading; task and model by default.
    notes
        Sentences below the heading.
    settings
        Name -> value, shown as they are: leave out what must not be seen (tokens, private paths).

    Returns
    -------
    str
        A page that works offline, follows the reader's light or dark setting, and prints. Texts are escaped.
    """
    name = title or ", ".join(part for part in ("Random seeds", study.task, study.model) if part)
    caption = "Each dot is a seed; the band is mean ± VAR. Hollow: the seed gives every example one prediction."
    sections = [
        _Section("Scores over seeds", (_Part(table=metric_table(study)),)),
        _Section(
            "Each seed",
            (
                _Part(picture=picture(seed_figure(study), "seeds", "Score and agreement of each seed", caption)),
                _Part(table=seed_table(study)),
            ),
        ),
    ]
    pairs = pair_table(study)
    if pairs is not None:
        parts = [_Part(table=pairs)]
        fragile = None if study.examples is None else fragile_examples(study.examples)
        parts += [] if fragile is None else [_Part("The most fragile examples", table=fragile)]
        sections.insert(1, _Section("Single predictions", tuple(parts)))
    return _render(name, notes, study_answers(study), sections, settings)


def over_tasks_page(
    found: Sequence[ModelOverTasks],
    *,
    title: str = "Random seeds over tasks",
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return several studies as an HTML page: the papers' tables, heat map with test, luck against training size.

    Parameters
    ----------
    found
        One record a model.
    title, notes, settings
        As in :func:`study_page`.
    """
    rows = pd.concat([one.rows for one in found], ignore_index=True)
    sections = [
        _Section("Scores and predictions (Table 1)", _with_note(published_table_1(rows), TABLE_1_NOTE)),
        _Section("All metrics (Tables 7 and 8)", _with_note(published_table_7(rows), TABLE_7_NOTE)),
    ]
    intervals = [(one.model if len(found) > 1 else "", interval_table(one.rows)) for one in found]
    sections.insert(1, _Section("With intervals", tuple(_Part(name, table) for name, table in intervals)))
    for at, one in enumerate(found):
        name = f" ({one.model})" if one.model else ""
        sections.append(_better(one, name, at))
        correlated = _Part(table=correlation_table(one.correlations))
        caption = "Line: least squares on the log of the size. With so few tasks the intervals say more than the line."
        figure = size_figure(one.rows, one.correlations)
        shown = _Part(picture=picture(figure, f"size-{at}", "Training size against VAR, CON and CCON", caption))
        sections.append(_Section(f"Does training size help{name}?", (shown, correlated), notes=one.notes))
    return _render(title, notes, over_answers(found), sections, settings)


def _better(one: ModelOverTasks, name: str, at: int) -> _Section:
    parts = []
    if one.better_seed is not None:
        caption = (
            "Colours: distance from the task's mean in its own standard deviations (z), blue better. Numbers: the same "
            "in percentage points."
        )
        figure = seed_heatmap(one.matrix, one.better_seed)
        parts.append(_Part(picture=picture(figure, f"heat-{at}", "Normalised scores of seeds on tasks", caption)))
        parts.append(_Part(table=rank_table(one.better_seed)))
        differences = difference_table(one.better_seed)
        parts += [] if differences is None else [_Part("Seeds that differ", table=differences)]
    return _Section(f"Is there a better seed{name}?", tuple(parts), sentences=better_sentences(one))


def _with_note(tables: Sequence[tuple[str, Table]], note: str) -> tuple[_Part, ...]:
    last = len(tables) - 1
    return tuple(
        _Part(title, replace(table, note=note) if at == last else table) for at, (title, table) in enumerate(tables)
    )


def _render(
    title: str,
    notes: Sequence[str],
    answers: Sequence[Answer],
    sections: Sequence[_Section],
    settings: Mapping[str, str],
) -> str:
    return (
        page_environment()
        .get_template("seeds.html")
        .render(title=title, notes=list(notes), answers=list(answers), sections=sections, settings=dict(settings))
    )
