"""A comparison in the terminal, and as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d.analysis.comparison.results import Comparison
from mlflow_l3d.analysis.comparison.self_check import SelfCheck
from mlflow_l3d.report.page import Picture, Section, page
from mlflow_l3d.report.table import document
from mlflow_l3d.studies.comparison.report import tables
from mlflow_l3d.studies.comparison.report.words import answers, check_sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS = {
    "difference": (
        "Differences with their intervals",
        "Thick: the interval of one pair; thin: the one that holds together with those of all pairs. Blue where the "
        "better system is known. Point at a line for its numbers.",
    ),
    "scores": (
        "Scores of all runs",
        "One dot a run, a bar at the mean. Of two systems grey lines join runs with the same configurations. Point at "
        "a dot or line for its numbers.",
    ),
}


def comparison_page(
    found: Comparison,
    figures: Mapping[str, Figure],
    importances: pd.DataFrame,
    checks: Sequence[SelfCheck] = (),
    *,
    settings: Mapping[str, str],
) -> str:
    """Return a comparison as an HTML page.

    Parameters
    ----------
    found
        The record.
    figures
        Of the names in :data:`CAPTIONS`.
    importances
        As :func:`mlflow_l3d.studies.comparison.report.tables.factor_table` has it.
    checks
        A/A comparisons.
    settings
        As in :func:`mlflow_l3d.report.page.page`.
    """
    drawn = {name: Picture.of(figures[name], name, *CAPTIONS[name]) for name in CAPTIONS}
    sections = [
        Section("Differences", [drawn["difference"], tables.difference_table(found)]),
        Section("Ranks", [tables.rank_table(found)]),
        Section("Runs", [drawn["scores"]]),
        Section("What the difference varies by, and what would settle it", [tables.luck_table(found)]),
        Section("Single runs and test examples", [tables.wins_table(found)]),
        Section("Which luck decides the difference?", [tables.factor_table(found, importances)]),
        Section("A/A: how often is a claim false?", [tables.check_table(checks)]),
    ]
    return page(found.title, notes=found.notes, answers=answers(found), sections=sections, settings=settings)


def comparison_text(
    found: Comparison, importances: pd.DataFrame, checks: Sequence[SelfCheck] = (), *, run_id: str = ""
) -> str:
    """Return a comparison as text; `importances` are those of ``report.tables.factor_table``."""
    lines = [f"MLflow run {run_id}; report.html is among its artifacts"] if run_id else []
    said = [answer.text for answer in answers(found)]
    parts = [
        tables.difference_table(found),
        tables.rank_table(found),
        tables.luck_table(found),
        tables.wins_table(found),
        tables.factor_table(found, importances),
        [""],
        *said,
        *[check_sentence(check) for check in checks],
        *found.notes,
    ]
    return document(found.title, lines, parts)
