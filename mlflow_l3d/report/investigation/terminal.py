"""The text at the end of an investigation."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.investigation.factor_tables import factor_texts, further_numbers
from mlflow_l3d.report.investigation.prediction_tables import RATIO
from mlflow_l3d.report.investigation.verdicts import Shown, by_code
from mlflow_l3d.report.investigation.words import answers, early_stops
from mlflow_l3d.report.numbers import MISSING, percent, shorten
from mlflow_l3d.report.table import Part, Table, document

_ALIKE = "pairs of runs that agree on an example, that agree and are right"
_GRADED = "{}, mean over pairs of runs and examples, between two runs, and against the truth"
_MORE = {
    "letters": ("apart", "apart: factors that share a letter cannot be told apart."),
    "published": ("published, interval", "published, interval: of what the published importance tends to."),
    "uneven": ("unevenness", "unevenness: squared coefficient of variation of the spread of rows."),
    "contributed": ("contr", "contr, mitig: contributed and mitigated std, as published."),
    "mitigated": ("mitig", ""),
    "iqr": ("IQR", "IQR: distance of the quartiles of the cells, {pp}."),
    "predictions": (
        "predictions (ratio)",
        f"predictions: importance for single predictions, and the {RATIO}.",
    ),
    "kappa": ("kappa", "kappa: agreement beyond chance."),
    "pearson": ("Pearson", "Pearson: correlation of the numbers that two runs predict, blind to shift and scale."),
    "ccc": ("CCC", "CCC: Lin's concordance of these, 1 only for equal predictions."),
}
"""Further numbers: key -> head of the column, and what it means."""


def summary(analysis: Analysis, *, title: str, lines: Sequence[str] = ()) -> str:
    """Return the result of an investigation as text.

    Parameters
    ----------
    analysis
        The records.
    title
        First line.
    lines
        Printed below the title: the task, where to find the runs.

    Returns
    -------
    str
        Lines of at most 100 characters (a word of `lines` that is longer stays whole, so that paths and addresses can
        be copied): title, `lines`, one line a factor (largest corrected importance first), a verdict per factor, the
        stability of predictions, and the checks.
    """
    shown = Shown(analysis)
    parts: list[Part] = [*early_stops(analysis), _table(shown), further_numbers(shown, _MORE), [""]]
    parts += [f"{shorten(record.factor, 60)}: {shown.sentence(record)}" for record in shown.records]
    luck, _, stable = answers(shown)
    for name, answer in (("luck", luck), ("predictions", stable)):
        short = "" if answer.short == MISSING else f"{answer.short}. "
        parts.append(f"{name}: {short}{' '.join(answer.sentences)}")
    if analysis.cells_failed:
        parts.append(f"{analysis.cells_failed} cells of the plan have no score.")
    parts += [["", "Checks"]] if analysis.checks else []
    for check in by_code(analysis.checks):
        about = f" [{', '.join(shorten(name, 40) for name in check.factors)}]" if check.factors else ""
        parts.append(f"{check.code}{about} {check.severity}, {check.title}: {check.message}")
    return document(title, lines, parts)


def _table(shown: Shown) -> Table:
    gold, unit = shown.golden_word[:4], shown.unit.short
    keys = {
        "factor": "factor",
        "verdict": "verdict",
        f"corrected importance\n[{percent(shown.level)} interval]": "interval",
        "moves": "moves",
        f"std ({unit})\n{gold}": "golden",
        f"score ({unit})\nmean": "mean",
        "CON": "consistency",
        "agree (%)\nCCON": "correct",
        "published\nimportance": "importance",
        "miss": "missing",
    }
    if shown.design.baseline:
        keys = {"factor": "factor", "important": "important", "std": "std", gold: "golden", "std/gold": "share"}
        keys |= {"mean": "mean", "CON": "consistency", "CCON": "correct", "miss": "missing"}
    rows = []
    for texts in factor_texts(shown):
        score, important = texts["importance"], texts["important"]
        score = score if important == MISSING else f"{score} {important:>3}"
        name = shorten(texts["factor"], 30 if shown.design.baseline else 20)
        rows.append(tuple({**texts, "factor": name, "importance": score}[key] for key in keys.values()))
    meaning = _GRADED.format(shorten(str(shown.analysis.agreement), 40)) if shown.graded else _ALIKE
    return Table(tuple(keys), tuple(rows), shown.say(shown.design.words.legend, meaning=meaning))
