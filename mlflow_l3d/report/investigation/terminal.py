"""The plain table at the end of a run: ASCII, no colours, at most 100 columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.investigation.sections import prediction_pair, ranking_letters
from mlflow_l3d.report.investigation.verdicts import (
    BASELINES,
    MISSING,
    by_importance,
    golden_record,
    golden_runs,
    golden_share,
    interval,
    is_graded,
    level_of,
    percent,
    plain,
    points,
    probability,
    shorten,
    signed,
    verdict,
)
from mlflow_l3d.report.investigation.words import Answer, answers, early_stops

WIDTH = 100
"""Columns of the terminal that are used at most."""

_FACTOR_WIDTH = 20
_GROUPS = (("", 1), ("", 1), ("corrected score", 1), ("std (pp)", 3), ("score (pp)", 2), ("agree (%)", 2), ("", 1))
_LEGEND = (
    "importance = (contr - mitig) / {gold}, important if above 0. pp: percentage points of {metric}. std within a row "
    "(contr: the factor alone), of the row means (mitig: all other factors), of the {runs} ({gold}: every factor). "
    "CON, CCON: {meaning}. miss: cells without a score."
)
_RADIAL_LEGEND = (
    "importance = (contr - mitig) / gold, important if above 0. pp: percentage points of {metric}. std (estimated "
    "without bias) of the factor alone (contr), of all other factors (mitig), of every factor (gold), from base and "
    "swap runs. CON, CCON: {meaning}. miss: cells without a score."
)
_BASELINE_COLUMNS = ("factor", "important", "std", "gold", "std/gold", "mean", "CON", "CCON", "miss")
_BASELINE_LEGEND = (
    "The {design} strategy has no importance score: important where the std of the runs is at least half that of the "
    "{runs} (gold). Std and mean in percentage points of {metric}. CON, CCON: % of {meaning}. miss: runs without a "
    "score."
)
_ALIKE = "pairs of runs that agree on an example, that agree and are right"
_GRADED = "{}, mean over pairs of runs and examples, between two runs, and against the truth"
_MORE_COLUMNS = ("factor", "apart", "p Holm", "IQR", "predictions (share)", "kappa", "Pearson", "CCC")
_MORE_LEGEND = {
    "apart": "apart: factors that share a letter cannot be told apart.",
    "p Holm": "p Holm: p-value of 'not important', adjusted for the number of factors.",
    "IQR": "IQR: distance of the quartiles of the cells, pp.",
    "predictions (share)": "predictions: importance for single predictions, and the share of their variance that the "
    "factor alone brings about, with its 95 % interval.",
    "kappa": "kappa: agreement beyond chance.",
    "Pearson": "Pearson: correlation of the numbers that two runs predict, blind to shift and scale.",
    "CCC": "CCC: Lin's concordance of these, 1 only for equal predictions.",
}


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
    for sentence in early_stops(analysis):
        blocks += _wrap(shorten(sentence, 10_000), indent="    ")
    blocks += ["", *(_strategy_table(analysis) if analysis.design in BASELINES else _table(analysis)), ""]
    blocks += _wrap(_legend(analysis))
    blocks += _more(analysis)
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


def _legend(analysis: Analysis) -> str:
    record = golden_record(analysis)
    runs = golden_runs(record) if record else "golden runs"
    kind = {"radial": _RADIAL_LEGEND, "random": _BASELINE_LEGEND, "fixed": _BASELINE_LEGEND}
    legend = kind.get(analysis.design, _LEGEND)
    meaning = _GRADED.format(shorten(str(analysis.agreement), 40)) if is_graded(analysis) else _ALIKE
    return legend.format(
        metric=shorten(analysis.metric, 40), runs=runs, design=analysis.design, gold=_gold(analysis), meaning=meaning
    )


def _gold(analysis: Analysis) -> str:
    record = golden_record(analysis)
    return "pool" if record is not None and record.golden_pooled else "gold"


def _table(analysis: Analysis) -> list[str]:
    records = by_importance(analysis)
    shown = f"[{percent(level_of(records))} interval]"
    columns = ("factor", "importance", shown, "contr", "mitig", _gold(analysis), "mean", "std", "CON", "CCON", "miss")
    rows = [_cells(analysis, record) for record in records]
    widths = [max(len(row[column]) for row in (columns, *rows)) for column in range(len(columns))]
    widths[2] = max(widths[2], len(_GROUPS[2][0]))
    # Two spaces between columns where they fit, as with short names; one where not.
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
    head, at = [], 0
    for text, span in _GROUPS:
        width = sum(widths[at : at + span]) + len(gap) * (span - 1)
        head.append(text.center(width) if span > 1 else text.rjust(width))
        at += span
    body = [_line(row, widths, gap) for row in (columns, *rows)]
    return [gap.join(head).rstrip(), body[0], "-" * len(body[0]), *body[1:]]


def _strategy_table(analysis: Analysis) -> list[str]:
    rows = []
    for record in by_importance(analysis):
        agreement = analysis.consistencies.get(record.factor)
        rows.append(
            (
                shorten(record.factor, 30),
                verdict(record).yes_or_no,
                points(record.score_std),
                points(record.golden_std),
                plain(golden_share(record)),
                points(record.score_mean),
                points(agreement.consistency, 1) if agreement else MISSING,
                points(agreement.correct_consistency, 1) if agreement else MISSING,
                str(record.cells_missing),
            )
        )
    return _plain_table(tuple(_gold(analysis) if name == "gold" else name for name in _BASELINE_COLUMNS), rows)


def _more(analysis: Analysis) -> list[str]:
    """Return the second table: only columns that hold something, nothing where none does."""
    letters = ranking_letters(analysis.ranking)
    rows = []
    for record in by_importance(analysis):
        agreement = analysis.consistencies.get(record.factor)
        numbers = analysis.regression.get(record.factor, {})
        score, share = prediction_pair(analysis.prediction_importances.get(record.factor))
        rows.append(
            (
                shorten(record.factor, 30),
                shorten(letters.get(record.factor, "") or MISSING, 10),
                probability(analysis.p_holm.get(record.factor, math.nan)),
                points(record.score_iqr),
                f"{score} {share}".strip(),
                plain(agreement.fleiss_kappa) if agreement else MISSING,
                plain(numbers.get("consistency_pearson", math.nan)),
                plain(numbers.get("consistency_ccc", math.nan)),
            )
        )
    kept = [at for at in range(1, len(_MORE_COLUMNS)) if any(row[at] != MISSING for row in rows)]
    if not kept:
        return []
    columns = tuple(_MORE_COLUMNS[at] for at in (0, *kept))
    legend = " ".join(_MORE_LEGEND[name] for name in columns[1:])
    return ["", *_plain_table(columns, [tuple(row[at] for at in (0, *kept)) for row in rows]), "", *_wrap(legend)]


def _plain_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in (columns, *rows)) for at in range(len(columns))]
    lines = [_line(row, widths, "  ") for row in (columns, *rows)]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


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
