"""The text at the end of an investigation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.investigation.factor_tables import factor_texts
from mlflow_l3d.report.investigation.verdicts import (
    by_importance,
    golden_record,
    golden_runs,
    golden_word,
    is_graded,
    level_of,
    verdict,
)
from mlflow_l3d.report.investigation.words import answers, early_stops
from mlflow_l3d.report.numbers import MISSING, percent, shorten
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import document, heading, wrap

_ALIKE = "pairs of runs that agree on an example, that agree and are right"
_GRADED = "{}, mean over pairs of runs and examples, between two runs, and against the truth"
_MORE = {
    "factor": "factor",
    "apart": "letters",
    "p Holm": "p_holm",
    "IQR": "iqr",
    "predictions (share)": "predictions",
    "kappa": "kappa",
    "Pearson": "pearson",
    "CCC": "ccc",
}
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
    blocks = heading(title)
    for line in lines:
        blocks += wrap(line, split_words=False)
    for sentence in early_stops(analysis):
        blocks += wrap(sentence, "    ")
    blocks += ["", *_table(analysis).lines(), *_more(analysis), ""]
    for record in by_importance(analysis):
        blocks += wrap(f"{shorten(record.factor, 60)}: {verdict(record).sentence}", "    ")
    luck, _, stable = answers(analysis)
    for name, answer in (("luck", luck), ("predictions", stable)):
        short = "" if answer.short == MISSING else f"{answer.short}. "
        blocks += wrap(f"{name}: {short}{' '.join(answer.sentences)}", "    ")
    if analysis.cells_failed:
        blocks += wrap(f"{analysis.cells_failed} cells of the plan have no score.")
    blocks += ["", "Checks"] if analysis.checks else []
    for check in analysis.checks:
        about = f" [{shorten(check.factor, 40)}]" if check.factor else ""
        blocks += wrap(f"{check.code}{about} {check.severity}, {check.title}: {check.message}", "    ")
    return document(blocks)


def _legend(analysis: Analysis) -> str:
    legend = design_named(analysis.design).words.legend
    meaning = _GRADED.format(shorten(str(analysis.agreement), 40)) if is_graded(analysis) else _ALIKE
    return legend.format(
        metric=shorten(analysis.metric, 40),
        runs=golden_runs(golden_record(analysis)),
        design=analysis.design,
        gold=_gold(analysis),
        meaning=meaning,
    )


def _gold(analysis: Analysis) -> str:
    return golden_word(golden_record(analysis))[:4]


def _table(analysis: Analysis) -> Table:
    gold, records = _gold(analysis), by_importance(analysis)
    keys = {
        "factor": "factor",
        "importance": "importance",
        f"corrected score\n[{percent(level_of(records))} interval]": "interval",
        "contr": "contributed",
        "mitig": "mitigated",
        f"std (pp)\n{gold}": "golden",
        "mean": "mean",
        "score (pp)\nstd": "std",
        "CON": "consistency",
        "agree (%)\nCCON": "correct",
        "miss": "missing",
    }
    if design_named(analysis.design).baseline:
        keys = {"factor": "factor", "important": "important", "std": "std", gold: "golden", "std/gold": "share"}
        keys |= {"mean": "mean", "CON": "consistency", "CCON": "correct", "miss": "missing"}
    rows = []
    for texts in factor_texts(analysis):
        score = (
            texts["importance"] if texts["important"] == MISSING else f"{texts['importance']} {texts['important']:>3}"
        )
        shown = {**texts, "factor": shorten(texts["factor"], 30 if "important" in keys else 20), "importance": score}
        rows.append(tuple(shown[key] for key in keys.values()))
    return Table(tuple(keys), tuple(rows), _legend(analysis))


def _more(analysis: Analysis) -> list[str]:
    """Return the second table: only columns that hold something, nothing where none does."""
    rows = tuple(
        (shorten(texts["factor"], 30), *[texts[key] for key in list(_MORE.values())[1:]])
        for texts in factor_texts(analysis)
    )
    table = Table(tuple(_MORE), rows).without_empty(_MORE_LEGEND)
    legend = " ".join(_MORE_LEGEND[name] for name in table.head[1:])
    return ["", *replace(table, note=legend).lines()] if legend else []
