"""The text at the end of a search: ASCII, no colours, at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from mlflow_l3d.report.investigation.terminal import WIDTH
from mlflow_l3d.report.investigation.verdicts import shorten
from mlflow_l3d.studies.search.found import SearchResult
from mlflow_l3d.studies.search.report.tables import level_rows, setting_rows
from mlflow_l3d.studies.search.report.words import (
    bias_sentence,
    counted,
    duration,
    held_out_sentence,
    share_text,
    validation_sentence,
)

_LEVEL_HEAD = ("level", "sampler", "trials", "complete", "pruned", "failed", "best score")


def summary(result: SearchResult, *, lines: Sequence[str] = ()) -> str:
    """Return what a search found as text.

    Parameters
    ----------
    result
        Scores in fractions (0..1), shown in percentage points.
    lines
        Printed below the title: the task, where to find the runs.

    Returns
    -------
    str
        Lines of at most 100 characters (a word of `lines` that is longer stays whole, so that paths and addresses can
        be copied): title, `lines`, one row a level, one row a searched hyperparameter, the gain, the importances, the
        notes, and how to use what was found.
    """
    title = shorten(result.title, WIDTH)
    blocks = [title, "=" * len(title)]
    for line in lines:
        blocks += _wrap(shorten(line, 10_000), split_words=False)
    took = f"{counted(result.trials_run, 'trial')} in {duration(result.seconds)}, scored by {result.metric} (points)."
    blocks += [*_wrap(took), ""]
    blocks += [*_table(_LEVEL_HEAD, level_rows(result), left=2), ""]
    ranges = tuple(f"range at level {at}" for at in range(1, len(result.levels) + 1))
    blocks += [*_table(("hyperparameter", "default", "found", *ranges), setting_rows(result), left=1), ""]
    if result.importances:
        shares = ", ".join(f"{name} {share_text(share)}" for name, share in result.importances.items())
        blocks += _wrap(f"Share of the variance of the score at level 1: {shares}.", indent="    ")
    blocks += _wrap(f"validation: {validation_sentence(result)} {bias_sentence(result)}", indent="    ")
    blocks += _wrap(f"held out: {held_out_sentence(result)}", indent="    ")
    for note in result.notes:
        blocks += _wrap(f"note: {shorten(note, 10_000)}", indent="    ")
    if result.run_id:
        blocks += ["", *_wrap(f"Use it: -P hyperparameters={result.run_id}", split_words=False)]
    return "\n".join(blocks) + "\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, left: int) -> list[str]:
    """Return a plain table; `left` columns begin at the left. One that is too wide has a line for each cell instead."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    if sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        return _list(head, rows)
    lines = [
        "  ".join(
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _list(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = []
    for row in rows:
        parts = (f"{name} {cell}" for name, cell in zip(head[1:], row[1:], strict=True))
        lines += _wrap(f"{row[0]}: {'; '.join(parts)}", indent="    ")
    return lines


def _wrap(text: str, *, indent: str = "", split_words: bool = True) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=split_words, break_on_hyphens=False
    ) or [""]
