"""Seeds studies in the terminal, and as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d.report.page import Picture, Section, page
from mlflow_l3d.report.table import Part, Table, document
from mlflow_l3d.report.text import heading
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.report import tables
from mlflow_l3d.studies.seeds.report.figures import seed_heatmap, size_figure
from mlflow_l3d.studies.seeds.report.words import better_sentences, in_unit, over_answers, study_answers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def study_page(
    study: SeedsStudy, figure: Figure, *, title: str, notes: Sequence[str] = (), settings: Mapping[str, str]
) -> str:
    """Return one study and its `figure` as an HTML page; see :func:`mlflow_l3d.report.page.page` for the rest."""
    caption = "Each dot is a seed; the band is mean ± VAR. Hollow: a collapsed seed."
    picture = Picture.of(figure, "seeds", f"Score and agreement of each {study.unit}", in_unit(study, caption))
    fragile = None if study.examples is None else tables.fragile_examples(study.examples)
    sections = [
        Section(f"Scores over {study.unit}s", [tables.metric_table(study), tables.settings_table(study)]),
        Section("Single predictions", [tables.pair_table(study), fragile]),
        Section(f"Each {study.unit}", [picture, tables.seed_table(study)]),
    ]
    answers = study_answers(study)
    return page(title, notes=notes, answers=answers, sections=sections, settings=settings, template="seeds.html")


def over_tasks_page(found: Sequence[ModelOverTasks], *, title: str) -> str:
    """Return several studies as an HTML page: the papers' tables, heat map with test, luck against training size."""
    rows = pd.concat([one.rows for one in found], ignore_index=True)
    intervals = [tables.interval_table(one.rows, one.model if len(found) > 1 else "") for one in found]
    sections = [
        Section("Scores and predictions (Table 1)", tables.published_table_1(rows)),
        Section("With intervals", intervals),
        Section("All metrics (Tables 7 and 8)", tables.published_table_7(rows)),
    ]
    for at, one in enumerate(found):
        name = f" ({one.model})" if one.model else ""
        caption = "Line: least squares on the log of the size. With so few tasks the intervals say more than the line."
        figure = size_figure(one.rows, one.correlations)
        picture = Picture.of(figure, f"size-{at}", "Training size against VAR, CON and CCON", caption)
        parts: list[Table | Picture] = [picture, tables.correlation_table(one.correlations)]
        sections += [_better(one, name, at), Section(f"Does training size help{name}?", parts, one.notes)]
    return page(title, answers=over_answers(found), sections=sections, template="seeds.html")


def _better(one: ModelOverTasks, name: str, at: int) -> Section:
    parts: list[str | Table | Picture | None] = [*better_sentences(one)]
    if one.better_seed is not None:
        caption = (
            "Colours: distance from the task's mean in its own standard deviations (z), blue better. Numbers: the same "
            "in percentage points."
        )
        figure = seed_heatmap(one.matrix, one.better_seed)
        parts.append(Picture.of(figure, f"heat-{at}", "Normalised scores of seeds on tasks", caption))
        differences = tables.difference_table(one.better_seed)
        parts += [tables.rank_table(one.better_seed), differences and replace(differences, title="Seeds that differ")]
    return Section(f"Is there a better seed{name}?", parts)


def study_text(study: SeedsStudy, *, title: str, lines: Sequence[str] = ()) -> str:
    """Return one study as text.

    Parameters
    ----------
    study
        The record.
    title
        First line.
    lines
        Printed below the title.
    """
    answers = [f"{answer.question} {answer.short}. {' '.join(answer.sentences)}" for answer in study_answers(study)]
    return document(
        title,
        lines,
        [tables.metric_table(study), tables.pair_table(study), tables.settings_table(study), [""], *answers],
    )


def over_tasks_text(found: Sequence[ModelOverTasks], *, title: str) -> str:
    """Return several studies as text: the papers' tables, better seeds, and training size, model by model."""
    rows = pd.concat([one.rows for one in found], ignore_index=True)
    parts: list[Part] = [*tables.published_table_1(rows), *tables.published_table_7(rows), [""]]
    for one in found:
        parts += [["", *heading(one.model or "All tasks", "-"), *tables.interval_table(one.rows).lines(), ""]]
        parts += better_sentences(one)
        if one.better_seed is not None:
            parts += [tables.rank_table(one.better_seed), tables.difference_table(one.better_seed)]
        parts += [tables.correlation_table(one.correlations), *([[""]] if one.notes else []), *one.notes]
    return document(title, (), parts)
