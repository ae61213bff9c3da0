"""Seeds studies in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mlflow_l3d.analysis.seeds.over_tasks import ModelOverTasks
from mlflow_l3d.analysis.seeds.study import SeedsStudy
from mlflow_l3d.report.seeds import tables
from mlflow_l3d.report.seeds.words import better_sentences, study_answers
from mlflow_l3d.report.table import Part, document
from mlflow_l3d.report.text import heading


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
