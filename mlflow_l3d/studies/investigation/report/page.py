"""The report of an investigation: the text at its end, and one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.numbers import MISSING, percent, shorten
from mlflow_l3d.report.page import Picture, Section, chip, page
from mlflow_l3d.report.table import Part, Table, document
from mlflow_l3d.studies.investigation.report import factor_tables, prediction_tables
from mlflow_l3d.studies.investigation.report import figures as draw
from mlflow_l3d.studies.investigation.report.heatmap import heatmap
from mlflow_l3d.studies.investigation.report.verdicts import Shown, by_code
from mlflow_l3d.studies.investigation.report.words import answers, early_stops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHIPS = {"dominates": "important", "yes": "important", "minor": "not-important", "no": "not-important"}
"""Verdict -> class of its mark in the style sheet; of any other it is ``unknown``."""
_FURTHER = {
    "letters": ("distinguished\n(letters)", "Factors that share a letter do not differ significantly."),
    "published": (
        "importance,\n{level} interval",
        "Importance, interval: of what the published importance tends to with many runs.",
    ),
    "uneven": (
        "unevenness\nof rows",
        "Unevenness: squared coefficient of variation of the standard deviations within rows. Above 0, importance and "
        "corrected importance tend to different numbers.",
    ),
    "predictions": (
        "importance for\npredictions",
        "Importance for predictions: the same scale, for single predictions in place of the score; below it the "
        f"{prediction_tables.RATIO}.",
    ),
    "kappa": ("kappa", "kappa: agreement of two runs beyond chance (Fleiss)."),
    "iqr": ("IQR of cells", "IQR: distance of the quartiles in {noun}, which a few collapsed runs do not move."),
    "golden_iqr": ("IQR of {golden} runs", ""),
    "collapsed": ("collapsed %", "Collapsed: runs that score below chance."),
}
"""Further numbers: key -> head of the column, and what it means."""
_RUNS = {
    "golden runs": "Golden runs change every factor.",
    "pooled runs": "Pooled runs are the cells of all tables together, in place of golden runs.",
}


def drawn(analysis: Analysis, paths: Mapping[str, pd.DataFrame]) -> dict[str, Figure]:
    """Return the figures by name, those of a factor as in ``heatmap-data_order``.

    Parameters
    ----------
    analysis
        The records.
    paths
        Factor -> how its importance settled, see
        :func:`mlflow_l3d.studies.investigation.report.figures.convergence`; a factor without a path, or with one of
        fewer than two rows, has no such figure.
    """
    shown = Shown(analysis)
    made = {"importance": draw.importance_bars(shown), "golden": draw.golden_distribution(shown)}
    for record in shown.records:
        factor = record.factor
        made[f"heatmap-{factor}"] = heatmap(record, metric=analysis.metric)
        if factor in paths and len(paths[factor]) > 1:
            made[f"convergence-{factor}"] = draw.convergence(paths[factor], factor, level=record.level)
    return made


def render(
    analysis: Analysis,
    figures: Mapping[str, Figure],
    *,
    settings: Mapping[str, str],
    title: str,
    notes: Sequence[str] = (),
) -> str:
    """Return the report of an investigation as one HTML page.

    Parameters
    ----------
    analysis
        The records.
    figures
        What :func:`drawn` returned.
    title, notes, settings
        As in :func:`mlflow_l3d.report.page.page`.
    """
    shown = Shown(analysis)
    bars, label = shown.design.words.bars
    first_row = shown.design.words.first_row or _RUNS[shown.golden_runs]
    scores = f"Each tick is one training. {first_row} {shown.design.words.rows} Numbers are mean ± standard deviation."
    return page(
        title,
        template="investigation.html",
        notes=[*notes, *early_stops(analysis)],
        settings=settings,
        answers=answers(shown),
        shown=shown,
        level=percent(shown.level),
        factors=_factor_table(shown),
        further=factor_tables.further_numbers(shown, _FURTHER),
        apart=[
            Section("Runs that collapse", [factor_tables.collapse_table(shown)]),
            Section("When to stop", [factor_tables.interim_table(analysis)]),
            Section(
                "Which factors differ",
                factor_tables.ranking_tables(analysis.ranking, shown.design.words.apart),
            ),
        ],
        variances=Section("Variance components", [factor_tables.component_table(shown)]),
        agreement=prediction_tables.agreement_table(shown),
        shares=prediction_tables.shares(analysis),
        fragile=prediction_tables.fragile_table(analysis),
        bars=[Picture.of(figures["importance"], "bars", bars, shown.say(label))] if shown.records else [],
        pictures=[Picture.of(figures["golden"], "golden", "Scores of single runs", scores)] if shown.records else [],
        of_factors=[(record.factor, _factor(shown, record, figures, at)) for at, record in enumerate(shown.records)],
        checks=by_code(sorted(analysis.checks, key=lambda check: check.severity != "warning")),
    )


def _factor_table(shown: Shown) -> Table:
    golden, level = shown.golden_word, percent(shown.level).replace(" ", "\N{NO-BREAK SPACE}")
    pp = shown.unit.short
    numbers = {"verdict": "verdict", f"corrected importance,\n{level} interval": "corrected"}
    numbers |= {f"moves by\nstd ({pp})": "moves", "published\nimportance": "importance"}
    numbers |= {"contr. std": "contributed", "mitig. std": "mitigated", f"{golden} std": "golden"}
    if shown.design.baseline:
        numbers = {"important?": "important", "std of runs": "std"}
        numbers |= {f"{golden} std": "golden", f"share of\n{golden} std": "share"}
    numbers |= {"score\nmean ± std": "mean", "CON %": "consistency", "CCON %": "correct"}
    numbers["miss\N{SOFT HYPHEN}ing"] = "missing"
    rows = []
    for texts in factor_tables.factor_texts(shown):
        judged = texts["important" if shown.design.baseline else "verdict"]
        sure = chip(CHIPS.get(judged, "unknown"), judged)
        below = {"mean": f"\n± {texts['std']}", "corrected": f"\n{texts['bounds']}"}
        below["importance"] = "" if texts["important"] == MISSING else f"\nimportant: {texts['important']}"
        cells = {key: texts[key] + below.get(key, "") for key in numbers.values()}
        rows.append((texts["factor"], sure, *list(cells.values())[1:]))
    return Table(("factor", *numbers), tuple(rows), shown.say(shown.design.words.note))


def _factor(shown: Shown, record: Importance, figures: Mapping[str, Figure], at: int) -> list[Picture]:
    factor, pictures = record.factor, []
    if not shown.design.baseline:
        caption = shown.design.words.table.format(factor=factor)
        pictures.append(Picture.of(figures[f"heatmap-{factor}"], f"table-{at}", f"Scores of {factor}", caption))
    if (convergence := figures.get(f"convergence-{factor}")) is not None:
        caption = "Importance after each row. If the line still changes at the right edge, add rows (mitigation_runs)."
        pictures.append(Picture.of(convergence, f"path-{at}", f"Importance of {factor} over rows", caption))
    return pictures


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
        f"predictions: importance for single predictions, and the {prediction_tables.RATIO}.",
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
    parts: list[Part] = [*early_stops(analysis), _table(shown), factor_tables.further_numbers(shown, _MORE), [""]]
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
    for texts in factor_tables.factor_texts(shown):
        score, important = texts["importance"], texts["important"]
        score = score if important == MISSING else f"{score} {important:>3}"
        name = shorten(texts["factor"], 30 if shown.design.baseline else 20)
        rows.append(tuple({**texts, "factor": name, "importance": score}[key] for key in keys.values()))
    meaning = _GRADED.format(shorten(str(shown.analysis.agreement), 40)) if shown.graded else _ALIKE
    return Table(tuple(keys), tuple(rows), shown.say(shown.design.words.legend, meaning=meaning))
