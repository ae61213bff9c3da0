"""The documents of a seeds study, and of several over tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
from markupsafe import Markup

from mlflow_l3d.report.draw import WIDTH, sheet, short, text
from mlflow_l3d.report.html import MOST_EXAMPLES, Snippet, fragile_examples, prose, shares_bar
from mlflow_l3d.report.numbers import between, counted, plain, probability, shorten
from mlflow_l3d.report.page import Document, Drawing, Item, Section
from mlflow_l3d.report.plots import score_strip
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.seeds.numbers.better_seed import BetterSeed, normalised
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.report import cite, over_words, tables, words

_SOURCES: Final = (
    "Zhou, Savova, Wang 2025: Assessing the Macro and Micro Effects of Random Seeds on Fine-Tuning Large Language "
    "Models."
)
_HEAT: Final = (
    "Colours: distance from the task's mean in its own standard deviations (z), blue better. Numbers: the same in "
    "percentage points."
)
_LEFT: Final = 12.0
"""Room for the names of seeds, in per cent."""
_CELL: Final = Markup(
    '<rect x="{}%" y="{}" width="{}%" height="{}" fill="{}" fill-opacity="{:.3f}"><title>{}</title></rect>'
)
_TURNED: Final = Markup('<text transform="translate({} {}) rotate(-35)" text-anchor="end">{}</text>')


def seeds_document(
    study: SeedsStudy,
    *,
    title: str,
    source: Source | None = None,
    runs: Sequence[str] = (),
    failed: int = 0,
    lines: Sequence[str] = (),
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return one study as people read it.

    Parameters
    ----------
    study
        The numbers.
    source, runs
        Where it comes from, and the MLflow run of each seed, if they are known.
    failed
        Seeds that failed, which are not in the study.
    title, lines, notes, settings
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    source, unit = source or Source(), study.unit
    short = [*words.short_notes(study, failed)]
    worst = None if study.examples is None else study.examples.most_fragile(MOST_EXAMPLES)
    fragile = fragile_examples(worst, classes=source.classes, runs=f"{unit}s", are_rows=source.are_numbered)
    first_notes = [shorten(note, 200) for note in notes[:3]]
    first_notes += [f"{counted(len(notes) - 3, 'more note')} in the report."] if len(notes) > 3 else []
    named = replace(source, task=source.task or study.task, model=study.model)
    behind = [run for run, score in zip(runs, study.scores[study.metric.name], strict=False) if math.isfinite(score)]
    return Document(
        title=title,
        headline=words.headline(study),
        about=named.about(study.metric),
        place=source.place(counted(len(study.seeds), unit)),
        answers=words.study_answers(study, is_typed=source.is_typed),
        drawing=_strip(study),
        table=tables.metric_table(study, most=5),
        steps=[*words.steps(study, source, failed)][:2],
        lines=lines,
        remarks=[*short, *first_notes],
        notes=short,
        in_full=notes,
        sections=[
            Section(f"Each {unit}", [tables.seed_table(study)]),
            Section("All metrics", [tables.metric_table(study)]),
            Section("Single predictions", [tables.passes_table(study), tables.pair_table(study), fragile]),
            Section("Cite this", [Snippet("cite.html", {"parts": cite.parts(study, source)})], name="cite"),
        ],
        settings=settings,
        sources=_SOURCES,
        data={"golden": behind, "address": source.address},
    )


def _strip(study: SeedsStudy) -> Drawing | None:
    scores = words.scored(study)
    if len(scores) < 2:
        return None
    drawn = score_strip(
        scores.to_numpy(),
        study.metric,
        std=study.own.std,
        run=study.unit,
        names=[f"{study.unit} {seed}" for seed in scores.index],
        dot_labels=[str(seed) for seed in scores.index] if len(scores) <= 20 else (),
        collapsed=[at for at, seed in enumerate(scores.index) if seed in study.collapsed_seeds],
    )
    parts = [drawn.html, Markup('<p class="note">{}</p>').format(prose(drawn.caption))]
    if examples := tables.shares(study):
        parts += [Markup("<h3>Test examples</h3>"), shares_bar(examples)]
    return Drawing(Markup("").join(parts))


def over_tasks_document(
    models: Sequence[ModelOverTasks],
    *,
    title: str,
    source: Source | None = None,
    sources: Mapping[tuple[str, str], Source] = MappingProxyType({}),
    lines: Sequence[str] = (),
) -> Document:
    """Return several studies as people read them, model by model: the papers' tables, heat map and test, training size.

    Parameters
    ----------
    models
        The numbers.
    source, sources
        The origin of the comparison; (model, task) -> that of its study.
    title, lines
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    rows = pd.concat([model.rows for model in models], ignore_index=True)
    sections = [
        Section("All tasks", [tables.tasks_table(models)]),
        Section("All metrics (Tables 7 and 8)", tables.published_tables(rows)),
    ]
    files = []
    for number, model in enumerate(models):
        name, ending = f" ({model.model})" if model.model else "", f"-{number}" if models[1:] else ""
        heat = Drawing(seed_heatmap(model.matrix, model.better_seed, title=model.model), _HEAT, f"seed_by_task{ending}")
        tested = (heat, tables.rank_table(model.better_seed)) if model.better_seed else ()
        files += [] if tested else [heat]
        notes = [Item(note) for note in model.notes]
        sections += [
            Section(f"Is there a better seed{name}?", [*over_words.better_sentences(model), *tested]),
            Section(f"Does training size help{name}?", [tables.correlation_table(model.correlations), notes or None]),
        ]
    return Document(
        title=title,
        headline=over_words.over_headline(models),
        about=" · ".join(filter(None, (model.model for model in models))),
        place=(source or Source()).place(counted(len(rows), "task")),
        answers=over_words.over_answers(models),
        table=tables.tasks_table(models, most=8),
        steps=over_words.over_steps(models, sources),
        lines=lines,
        sections=sections,
        sources=_SOURCES,
        files=files,
    )


def seed_heatmap(matrix: pd.DataFrame, better: BetterSeed | None = None, *, title: str = "") -> Markup:
    """Return Figure 3 of Zhou et al. 2025: normalised scores of each seed (rows) on each task (columns).

    Parameters
    ----------
    matrix
        One row per task, one column per seed: fractions, nan where a run has no score (grey).
    better
        The test, for the line above the map.
    title
        The model.

    Notes
    -----
    Colours are z within a task: blue better than its mean, orange worse. Numbers are the distance from the task's mean
    in percentage points, if there are at most 14 tasks and 40 seeds. Seed 42 is in bold.
    """
    scaled = normalised(matrix).to_numpy().T
    distance = 100 * matrix.sub(matrix.mean(axis=1), axis=0).to_numpy(dtype=np.float64).T
    seeds, tasks = scaled.shape
    has_numbers = tasks <= 14 and seeds <= 40
    lines = [shorten(title, 60)] if title else []
    if better is not None:
        limits = between(better.kendall_w_ci_low, better.kendall_w_ci_high, plain)
        lines.append(f"Friedman p {probability(better.p)}, Kendall's W {plain(better.kendall_w)} ({limits})")
    parts = [text(0, 16 + 18 * at, line, kind="strong", anchor="start") for at, line in enumerate(lines)]
    top, row, width = 12 + 18 * len(lines), 22 if has_numbers else 10, (100 - _LEFT) / max(1, tasks)
    names = [shorten(str(name), 20) for name in matrix.index]
    for (at, task), z in np.ndenumerate(scaled):
        x, y = _LEFT + width * task, top + row * at
        where = f"{names[task]}, seed {matrix.columns[at]}"
        colour, depth, said = "#9aa3b0", 1.0, f"{where}: no score"
        if np.isfinite(z):  # of ten seeds none can be further than 3 from the mean
            colour, depth = "#0072b2" if z > 0 else "#d55e00", 0.75 * min(abs(z) / 2.5, 1.0)
            said = f"{where}: z {z:+.2f}"
        parts.append(_CELL.format(short(x), y, short(width), row, colour, depth, said))
        if has_numbers and np.isfinite(moved := distance[at, task]):
            digits = 1 if abs(moved) < 99.95 else 0
            number = f"{round(float(moved), digits) + 0.0:+.{digits}f}"
            parts.append(text(x + width / 2, y + 15, number, kind="strong", anchor="middle"))
    for at in range(0, seeds, 1 if has_numbers else max(1, seeds // 30)):
        kind = "strong" if int(matrix.columns[at]) == 42 else ""  # the seed that people choose
        parts.append(text(_LEFT - 1, top + row * at + row / 2 + 4, str(matrix.columns[at]), kind=kind, anchor="end"))
    bottom = top + row * seeds + 14
    for task, name in enumerate(names):
        parts.append(_TURNED.format(short(WIDTH * (_LEFT + width * (task + 0.5)) / 100 + 4), bottom, name))
    return sheet(bottom + 80, "Normalised scores of seeds on tasks", *parts)
