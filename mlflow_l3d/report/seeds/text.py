"""Seeds studies in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mlflow_l3d.analysis.seeds.over_tasks import ModelOverTasks
from mlflow_l3d.analysis.seeds.study import SeedsStudy
from mlflow_l3d.report.seeds import tables
from mlflow_l3d.report.seeds.words import better_sentences, study_answers
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import document, heading, wrap


def study_text(study: SeedsStudy, *, title: str = "", lines: Sequence[str] = ()) -> str:
    """Return one study as text.

    Parameters
    ----------
    study
        The record.
    title
        First line; task and model by default.
    lines
        Printed below the title.
    """
    name = title or f"{len(study.seeds)} seeds, {study.task or 'one task'}{f', {study.model}' if study.model else ''}"
    blocks = [*heading(name), *_paragraphs(lines, ""), *_tables([tables.metric_table(study), tables.pair_table(study)])]
    answers = [f"{answer.question} {answer.short}. {' '.join(answer.sentences)}" for answer in study_answers(study)]
    return document([*blocks, "", *_paragraphs(answers)])


def over_tasks_text(found: Sequence[ModelOverTasks], *, title: str = "Seeds over tasks") -> str:
    """Return several studies as text: the papers' tables, better seeds, and training size, model by model."""
    rows = pd.concat([one.rows for one in found], ignore_index=True)
    blocks = [*heading(title), *_tables([*tables.published_table_1(rows), *tables.published_table_7(rows)]), ""]
    for one in found:
        blocks += ["", *heading(one.model or "All tasks", "-"), *tables.interval_table(one.rows).lines(), ""]
        blocks += _paragraphs(better_sentences(one))
        if one.better_seed is not None:
            blocks += _tables([tables.rank_table(one.better_seed), tables.difference_table(one.better_seed)])
        blocks += _tables([tables.correlation_table(one.correlations)])
        blocks += ["", *_paragraphs(one.notes)] if one.notes else []
    return document(blocks)


def _paragraphs(texts: Sequence[str], indent: str = "    ") -> list[str]:
    return [line for text in texts for line in wrap(text, indent)]


def _tables(tables: Sequence[Table | None]) -> list[str]:
    return [line for table in tables if table is not None for line in ("", *table.lines())]
