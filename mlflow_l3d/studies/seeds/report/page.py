"""The documents of a seeds study, and of several over tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

import pandas as pd

from mlflow_l3d.report.page import Document, Item, Picture, Section
from mlflow_l3d.report.table import Part, Table, heading
from mlflow_l3d.studies.investigation.report.prediction_tables import fragile_table
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.report import figures as draw
from mlflow_l3d.studies.seeds.report import tables
from mlflow_l3d.studies.seeds.report.words import better_sentences, in_unit, over_answers, study_answers

_SOURCES: Final = (
    "Zhou, Savova, Wang 2025: Assessing the Macro and Micro Effects of Random Seeds on Fine-Tuning Large Language "
    "Models."
)
_HEAT: Final = (
    "Colours: distance from the task's mean in its own standard deviations (z), blue better. Numbers: the same in "
    "percentage points."
)
_SIZE: Final = "Line: least squares on the log of the size. With so few tasks the intervals say more than the line."


def seeds_document(
    study: SeedsStudy,
    *,
    title: str,
    lines: Sequence[str] = (),
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return one study as people read it; the parameters are those of :class:`mlflow_l3d.report.page.Document`."""
    answers = study_answers(study)
    metrics, pairs, recorded = tables.metric_table(study), tables.pair_table(study), tables.settings_table(study)
    fragile = fragile_table(study.examples, f"{study.unit}s")
    caption = in_unit(study, "Each dot is a seed; the band is mean ± VAR. Hollow: a collapsed seed.")
    picture = Picture(partial(draw.seed_figure, study), "seeds", f"Score and agreement of each {study.unit}", caption)
    return Document(
        title=title,
        answers=answers,
        lines=lines,
        text=[metrics, pairs, recorded, [""], *[answer.text for answer in answers]],
        notes=notes,
        sections=[
            Section(f"Scores over {study.unit}s", [metrics, recorded]),
            Section("Single predictions", [pairs, fragile]),
            Section(f"Each {study.unit}", [picture, tables.seed_table(study)]),
        ],
        settings=settings,
        sources=_SOURCES,
    )


def over_tasks_document(models: Sequence[ModelOverTasks], *, title: str) -> Document:
    """Return several studies as people read them, model by model.

    The papers' tables, heat map with test, and luck against training size.
    """
    several = len(models) > 1
    rows = pd.concat([model.rows for model in models], ignore_index=True)
    first, seventh = tables.published_table_1(rows), tables.published_table_7(rows)
    intervals = [tables.interval_table(model.rows, model.model if several else "") for model in models]
    sections = [
        Section("Scores and predictions (Table 1)", first),
        Section("With intervals", intervals),
        Section("All metrics (Tables 7 and 8)", seventh),
    ]
    text: list[Part] = [*first, *seventh, [""]]
    files = []
    for number, (model, interval) in enumerate(zip(models, intervals, strict=True)):
        name, ending = f" ({model.model})" if model.model else "", f"-{number}" if several else ""
        heat = Picture(
            partial(draw.seed_heatmap, model.matrix, model.better_seed, title=model.model),
            f"seed_by_task{ending}",
            "Normalised scores of seeds on tasks",
            _HEAT,
        )
        size = Picture(
            partial(draw.size_figure, model.rows, model.correlations, title=model.model),
            f"training_size{ending}",
            "Training size against VAR, CON and CCON",
            _SIZE,
        )
        better, correlations = better_sentences(model), tables.correlation_table(model.correlations)
        tested: list[Table | None] = []
        if model.better_seed is not None:
            tested = [tables.rank_table(model.better_seed), tables.difference_table(model.better_seed)]
        pictures = [heat] if tested else []
        files += [] if tested else [heat]
        notes = [Item(note) for note in model.notes]
        sections += [
            Section(f"Is there a better seed{name}?", [*better, *pictures, *tested]),
            Section(f"Does training size help{name}?", [size, correlations, notes]),
        ]
        text += [["", *heading(model.model or "All tasks", "-"), *replace(interval, title="").lines(), ""]]
        text += [*better, *tested, correlations, *([[""]] if notes else []), *model.notes]
    return Document(
        title=title,
        answers=over_answers(models),
        text=text,
        sections=sections,
        sources=_SOURCES,
        files=files,
    )
