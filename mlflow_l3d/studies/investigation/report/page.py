"""The document of an investigation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.numbers import MISSING, percent, shorten
from mlflow_l3d.report.page import Document, Item, Picture, Section, Snippet, chip, subheading
from mlflow_l3d.report.table import Part, Table
from mlflow_l3d.studies.investigation.report import factor_tables, prediction_tables
from mlflow_l3d.studies.investigation.report import figures as draw
from mlflow_l3d.studies.investigation.report.heatmap import heatmap
from mlflow_l3d.studies.investigation.report.verdicts import Shown, by_code
from mlflow_l3d.studies.investigation.report.words import answers, early_stops

_CHIPS: Final = {"dominates": "important", "yes": "important", "minor": "not-important", "no": "not-important"}
"""Verdict -> class of its mark in the style sheet; of any other it is ``unknown``."""
_RUNS: Final = {
    "golden runs": "Golden runs change every factor.",
    "pooled runs": "Pooled runs are the cells of all tables together, in place of golden runs.",
}
_CONVERGENCE: Final = (
    "Importance after each row. If the line still changes at the right edge, add rows (mitigation_runs)."
)
_ALIKE: Final = "pairs of runs that agree on an example, that agree and are right"
_GRADED: Final = "{}, mean over pairs of runs and examples, between two runs, and against the truth"


def investigation_document(
    analysis: Analysis,
    *,
    title: str,
    lines: Sequence[str] = (),
    notes: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
    paths: Callable[[], Mapping[str, pd.DataFrame]] = dict,
) -> Document:
    """Return the result of an investigation as people read it.

    Parameters
    ----------
    analysis
        The records.
    title, lines, notes, settings
        As in :class:`mlflow_l3d.report.page.Document`.
    paths
        Returns factor -> how its importance settled, see
        :func:`mlflow_l3d.studies.investigation.report.figures.convergence`; a factor without a path, or with one of
        fewer than two rows, has no such figure.
    """
    shown = Shown(analysis)
    opening, stops = answers(shown), early_stops(analysis)
    verdicts = [Item(shown.sentence(record), record.factor) for record in shown.records]
    ranking = factor_tables.ranking_tables(analysis.ranking, shown.design.words.apart)
    reading = {"shown": shown, "level": percent(shown.level)}
    collapse, looks = factor_tables.collapse_table(shown), factor_tables.interim_table(analysis)
    sections = [
        Section(f"Factors, {shown.design.words.order} first", _factors(shown, verdicts)),
        Section("What to watch", _watch(shown)),
        Section("Runs that collapse", [collapse]),
        Section("When to stop", [looks]),
        Section("Which factors differ", ranking),
        Section("Single predictions", prediction_tables.prediction_parts(shown)),
        Section("Variance components", [factor_tables.component_table(shown)]),
        Section("Pictures", _pictures(shown, paths())),
        Section("How to read this", [Snippet("investigation_reading.html", reading)]),
    ]
    text: list[Part] = [*stops, _terminal_table(shown), factor_tables.further_numbers(shown, terminal=True), [""]]
    text += [f"{shorten(item.name, 60)}: {item.text}" for item in verdicts]
    for name, answer in (("luck", opening[0]), ("predictions", opening[2])):
        short = "" if answer.short == MISSING else f"{answer.short}. "
        text.append(f"{name}: {short}{' '.join(answer.sentences)}")
    if analysis.cells_failed:
        text.append(f"{analysis.cells_failed} cells of the plan have no score.")
    text += [["", "Checks"]] if analysis.checks else []
    for check in by_code(analysis.checks):
        about = f" [{', '.join(shorten(name, 40) for name in check.factors)}]" if check.factors else ""
        text.append(f"{check.code}{about} {check.severity}, {check.title}: {check.message}")
    # A baseline strategy has one row per factor, which only a file shows.
    files = [_table_picture(shown, record) for record in shown.records] if shown.design.baseline else []
    if not shown.records:
        files = [_bars(shown), _golden(shown)]
    return Document(
        title=title,
        answers=opening,
        lines=lines,
        text=text,
        notes=[*notes, *stops],
        sections=sections,
        settings=settings,
        files=files,
    )


def _factors(shown: Shown, verdicts: list[Item]) -> list[str | Table | Picture | list[Item] | None]:
    if not shown.records:
        return ["No factor was investigated."]
    return [_factor_table(shown), _bars(shown), verdicts, factor_tables.further_numbers(shown)]


def _watch(shown: Shown) -> list[str | list[Item]]:
    failed, golden = shown.analysis.cells_failed, shown.golden_runs == "golden runs"
    counted = f"{failed} cells of the plan{', golden runs included,' if golden else ''} have no score."
    checks = by_code(sorted(shown.analysis.checks, key=lambda check: check.severity != "warning"))
    items = [
        Item(check.message, check.title, ", ".join([check.code, check.severity, *check.factors]), check.severity)
        for check in checks
    ]
    return [*([counted] if failed else []), items or "No check found anything doubtful."]


def _pictures(shown: Shown, paths: Mapping[str, pd.DataFrame]) -> list[Picture | Snippet]:
    """Return the scores of all runs, then table and convergence of each factor."""
    parts: list[Picture | Snippet] = [_golden(shown)] if shown.records else []
    for record in shown.records:
        factor, path = record.factor, paths.get(record.factor)
        pictures = [] if shown.design.baseline else [_table_picture(shown, record)]
        if path is not None and len(path) > 1:
            convergence = partial(draw.convergence, path, factor, level=record.level)
            pictures.append(
                Picture(convergence, f"convergence-{factor}", f"Importance of {factor} over rows", _CONVERGENCE)
            )
        parts += [subheading(factor), *pictures] if pictures else []
    return parts


def _bars(shown: Shown) -> Picture:
    label, caption = shown.design.words.bars
    return Picture(partial(draw.importance_bars, shown), "importance", label, shown.say(caption))


def _golden(shown: Shown) -> Picture:
    first_row = shown.design.words.first_row or _RUNS[shown.golden_runs]
    scores = f"Each tick is one training. {first_row} {shown.design.words.rows} Numbers are mean ± standard deviation."
    return Picture(partial(draw.golden_distribution, shown), "golden", "Scores of single runs", scores)


def _table_picture(shown: Shown, record: Importance) -> Picture:
    factor, scores = record.factor, partial(heatmap, record, metric=shown.analysis.metric)
    caption = shown.design.words.table.format(factor=factor)
    return Picture(scores, f"heatmap-{factor}", f"Scores of {factor}", caption)


def _factor_table(shown: Shown) -> Table:
    golden, level = shown.golden_word, percent(shown.level).replace(" ", "\N{NO-BREAK SPACE}")
    keys = {
        "verdict": "verdict",
        f"corrected importance,\n{level} interval": "corrected",
        f"moves by\nstd ({shown.unit.short})": "moves",
        "published\nimportance": "importance",
        "contr. std": "contributed",
        "mitig. std": "mitigated",
        f"{golden} std": "golden",
    }
    if shown.design.baseline:
        keys = {"important?": "important", "std of runs": "std"}
        keys |= {f"{golden} std": "golden", f"share of\n{golden} std": "share"}
    keys |= {"score\nmean ± std": "mean", "CON %": "consistency", "CCON %": "correct"}
    keys["miss\N{SOFT HYPHEN}ing"] = "missing"
    rows = []
    for texts in factor_tables.factor_texts(shown):
        for name in ("verdict", "important"):
            texts[f"{name} chip"] = chip(_CHIPS.get(texts[name], "unknown"), texts[name])
        texts["mean"] += f"\n± {texts['std']}"
        texts["corrected"] += f"\n{texts['bounds']}"
        texts["importance"] += "" if texts["important"] == MISSING else f"\nimportant: {texts['important']}"
        rows.append((texts["factor"], *[texts.get(f"{key} chip", texts[key]) for key in keys.values()]))
    return Table(("factor", *keys), tuple(rows), shown.say(shown.design.words.note))


def _terminal_table(shown: Shown) -> Table:
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
        texts["importance"] += "" if texts["important"] == MISSING else f" {texts['important']:>3}"
        texts["factor"] = shorten(texts["factor"], 30 if shown.design.baseline else 20)
        rows.append(tuple(texts[key] for key in keys.values()))
    meaning = _GRADED.format(shorten(str(shown.analysis.agreement), 40)) if shown.graded else _ALIKE
    return Table(tuple(keys), tuple(rows), shown.say(shown.design.words.legend, meaning=meaning))
