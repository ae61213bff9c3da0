"""The document of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.comparison.results import Comparison
from mlflow_l3d.analysis.comparison.self_check import SelfCheck
from mlflow_l3d.report.page import Document, Picture, Section
from mlflow_l3d.studies.comparison.report import figures as draw
from mlflow_l3d.studies.comparison.report import tables
from mlflow_l3d.studies.comparison.report.words import answers

_DIFFERENCES: Final = (
    "Thick: the interval of one pair; thin: the one that holds together with those of all pairs. Blue where the better "
    "system is known. Point at a line for its numbers."
)
_SCORES: Final = (
    "One dot a run, a bar at the mean. Of two systems grey lines join runs with the same configurations. Point at a "
    "dot or line for its numbers."
)


def comparison_document(
    comparison: Comparison,
    scores: pd.DataFrame,
    importances: pd.DataFrame,
    checks: Sequence[SelfCheck] = (),
    *,
    run_id: str = "",
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return a comparison as people read it.

    Parameters
    ----------
    comparison
        The record.
    scores
        As :func:`mlflow_l3d.studies.comparison.report.figures.score_figure` has it.
    importances
        As :func:`mlflow_l3d.studies.comparison.report.tables.factor_table` has it.
    checks
        A/A comparisons.
    run_id
        Of the run that holds the comparison.
    settings
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    opening = answers(comparison)
    differences, ranks = tables.difference_table(comparison), tables.rank_table(comparison)
    luck, wins = tables.luck_table(comparison), tables.wins_table(comparison)
    factors, claims = tables.factor_table(comparison, importances), tables.check_table(checks)
    intervals = Picture(
        partial(draw.difference_figure, comparison), "difference", "Differences with their intervals", _DIFFERENCES
    )
    runs = Picture(partial(draw.score_figure, comparison, scores), "scores", "Scores of all runs", _SCORES)
    return Document(
        title=comparison.title,
        answers=opening,
        lines=[f"MLflow run {run_id}; report.html is among its artifacts"] if run_id else [],
        text=[
            *(differences, ranks, luck, wins, factors, claims, [""]),
            *[answer.text for answer in opening],
            *comparison.notes,
        ],
        notes=comparison.notes,
        sections=[
            Section("Differences", [intervals, differences]),
            Section("Ranks", [ranks]),
            Section("Runs", [runs]),
            Section("What the difference varies by, and what would settle it", [luck]),
            Section("Single runs and test examples", [wins]),
            Section("Which luck decides the difference?", [factors]),
            Section("A/A: how often is a claim false?", [claims]),
        ],
        settings=settings,
    )
