"""Seeds studies in the terminal: ASCII, at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pandas as pd

from mlflow_l3d.analysis.seeds.over_tasks import ModelOverTasks
from mlflow_l3d.analysis.seeds.study import SeedsStudy
from mlflow_l3d.report.investigation.sections import Table
from mlflow_l3d.report.investigation.terminal import WIDTH
from mlflow_l3d.report.investigation.verdicts import shorten
from mlflow_l3d.report.seeds.tables import (
    TABLE_1_NOTE,
    TABLE_7_NOTE,
    correlation_table,
    difference_table,
    interval_table,
    metric_table,
    pair_table,
    published_table_1,
    published_table_7,
    rank_table,
)
from mlflow_l3d.report.seeds.words import better_sentences, study_answers


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
    blocks = [*_title(name), *[part for line in lines for part in _wrap(line)], "", *table_lines(metric_table(study))]
    pairs = pair_table(study)
    if pairs is not None:
        blocks += ["", *table_lines(pairs)]
    blocks.append("")
    for answer in study_answers(study):
        blocks += _wrap(f"{answer.question} {answer.short}. {' '.join(answer.sentences)}", indent="    ")
    return _ascii(blocks)


def over_tasks_text(found: Sequence[ModelOverTasks], *, title: str = "Seeds over tasks") -> str:
    """Return several studies as text: the papers' tables, better seeds, and training size, model by model."""
    rows = pd.concat([one.rows for one in found], ignore_index=True)
    blocks = [*_title(title), ""]
    for name, table in published_table_1(rows):
        blocks += [name, *table_lines(table), ""]
    blocks += [*_wrap(TABLE_1_NOTE), ""]
    for name, table in published_table_7(rows):
        blocks += [name, *table_lines(table), ""]
    blocks += [*_wrap(TABLE_7_NOTE), ""]
    for one in found:
        blocks += ["", *_title(one.model or "All tasks", "-")]
        blocks += [*table_lines(interval_table(one.rows)), ""]
        for sentence in better_sentences(one):
            blocks += _wrap(sentence, indent="    ")
        if one.better_seed is not None:
            blocks += ["", *table_lines(rank_table(one.better_seed))]
            differences = difference_table(one.better_seed)
            if differences is not None:
                blocks += ["", *table_lines(differences)]
        blocks += ["", *table_lines(correlation_table(one.correlations))]
        blocks += [""] if one.notes else []
        for note in one.notes:
            blocks += _wrap(note, indent="    ")
    return _ascii(blocks)


def table_lines(table: Table, width: int = WIDTH) -> list[str]:
    """Return a table as lines of at most `width` characters; columns that do not fit go below, under the same names."""
    rows = [[_one_line(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(table.head))]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= width else " "
    lines: list[str] = []
    for columns in _blocks(widths, width, len(gap)):
        body = [
            gap.join([row[0].ljust(widths[0]), *[row[at].rjust(widths[at]) for at in columns]]).rstrip() for row in rows
        ]
        lines += ([""] if lines else []) + [body[0], "-" * max(map(len, body)), *body[1:]]
    return [*lines, *(_wrap(table.note) if table.note else [])]


def _blocks(widths: Sequence[int], width: int, gap: int) -> list[list[int]]:
    blocks: list[list[int]] = [[]]
    used = widths[0]
    for at in range(1, len(widths)):
        if blocks[-1] and used + gap + widths[at] > width:
            blocks.append([])
            used = widths[0]
        blocks[-1].append(at)
        used += gap + widths[at]
    return blocks


def _one_line(cell: str) -> str:
    return shorten(cell.replace("\n", " ").replace("(±", "("), 40)


def _title(text: str, line: str = "=") -> list[str]:
    short = shorten(text, WIDTH)
    return [short, line * len(short)]


def _wrap(text: str, *, indent: str = "") -> list[str]:
    return textwrap.wrap(shorten(text, 10_000), WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _ascii(blocks: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in blocks).replace("±", "+-") + "\n"
