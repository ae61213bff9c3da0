"""The plain table at the end of a run: ASCII, no colours, at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from mlflow_l3d.analysis.results import Analysis, Importance
from mlflow_l3d.report.words import (
    MISSING,
    Answer,
    answers,
    by_importance,
    interval,
    points,
    shorten,
    signed,
    verdict,
)

WIDTH = 100
"""Columns of the terminal that are used at most."""

_FACTOR_WIDTH = 20
_GROUPS = (("", 1), ("", 1), ("corrected score", 1), ("std (pp)", 3), ("score (pp)", 2), ("agree (%)", 2), ("", 1))
_COLUMNS = ("factor", "importance", "[95 % interval]", "contr", "mitig", "gold", "mean", "std", "CON", "CCON", "miss")
_LEGEND = (
    "importance = (contr - mitig) / gold, important if above 0. pp: percentage points of {metric}. std within a row "
    "(contr: the factor alone), of the row means (mitig: all other factors), of the golden runs (gold: every factor). "
    "CON, CCON: pairs of runs that agree on an example, that agree and are right. miss: cells without a score."
)


def summary(analysis: Analysis, *, title: str, lines: Sequence[str] = ()) -> str:
    """Return the result of an investigation as text.

    Parameters
    ----------
    analysis
        The records; scores and standard deviations in fractions (0..1), shown in percentage points.
    title
        First line.
    lines
        Printed below the title: the task, where to find the runs.

    Returns
    -------
    str
        Lines of at most 100 characters (a word of `lines` that is longer stays whole, so that paths and addresses can
        be copied): title, `lines`, one line a factor (most important first), a verdict per factor, the stability of
        predictions, and the checks.
    """
    blocks = [shorten(title, WIDTH), "=" * len(shorten(title, WIDTH))]
    for line in lines:
        blocks += _wrap(shorten(line, 10_000), split_words=False)
    blocks += ["", *_table(analysis), ""]
    blocks += _wrap(_LEGEND.format(metric=shorten(analysis.metric, 40)))
    blocks += ["", *_verdicts(analysis)]
    if analysis.cells_failed:
        blocks += _wrap(f"{analysis.cells_failed} cells of the plan have no score.")
    if analysis.checks:
        blocks += ["", "Checks"]
        for check in analysis.checks:
            about = f" [{shorten(check.factor, 40)}]" if check.factor else ""
            text = f"{check.code}{about} {check.severity}, {check.title}: {check.message}"
            blocks += _wrap(shorten(text, 10_000), indent="    ")
    return "\n".join(blocks) + "\n"


def _table(analysis: Analysis) -> list[str]:
    rows = [_cells(analysis, record) for record in by_importance(analysis)]
    widths = [max(len(row[column]) for row in (_COLUMNS, *rows)) for column in range(len(_COLUMNS))]
    widths[2] = max(widths[2], len(_GROUPS[2][0]))
    # Two spaces between columns where they fit, as with short names; one where not.
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
    head, at = [], 0
    for text, span in _GROUPS:
        width = sum(widths[at : at + span]) + len(gap) * (span - 1)
        head.append(text.center(width) if span > 1 else text.rjust(width))
        at += span
    body = [_line(row, widths, gap) for row in (_COLUMNS, *rows)]
    return [gap.join(head).rstrip(), body[0], "-" * len(body[0]), *body[1:]]


def _line(row: Sequence[str], widths: Sequence[int], gap: str) -> str:
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    return gap.join([row[0].ljust(widths[0]), *cells[1:]])


def _cells(analysis: Analysis, record: Importance) -> tuple[str, ...]:
    agreement = analysis.consistencies.get(record.factor)
    yes_or_no = verdict(record).yes_or_no
    score = MISSING if yes_or_no == MISSING else f"{signed(record.importance)} {yes_or_no:>3}"
    return (
        shorten(record.factor, _FACTOR_WIDTH),
        score,
        interval(record),
        points(record.contributed_std),
        points(record.mitigated_std),
        points(record.golden_std),
        points(record.score_mean),
        points(record.score_std),
        points(agreement.consistency, 1) if agreement else MISSING,
        points(agreement.correct_consistency, 1) if agreement else MISSING,
        str(record.cells_missing),
    )


def _verdicts(analysis: Analysis) -> list[str]:
    found: list[str] = []
    for record in by_importance(analysis):
        found += _wrap(f"{shorten(record.factor, 60)}: {verdict(record).sentence}", indent="    ")
    luck, _, stable = answers(analysis)
    return found + _answer("luck", luck) + _answer("predictions", stable)


def _answer(name: str, answer: Answer) -> list[str]:
    short = "" if answer.short == MISSING else f"{answer.short}. "
    return _wrap(f"{name}: {short}{' '.join(answer.sentences)}".replace("±", "+-"), indent="    ")


def _wrap(text: str, *, indent: str = "", split_words: bool = True) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=split_words, break_on_hyphens=False
    ) or [""]
