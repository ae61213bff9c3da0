"""A comparison in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mlflow_l3d.analysis.comparison.results import Comparison
from mlflow_l3d.analysis.comparison.self_check import SelfCheck
from mlflow_l3d.report.comparison import tables
from mlflow_l3d.report.comparison.words import answers, check_sentence
from mlflow_l3d.report.table import document


def comparison_text(
    found: Comparison, importances: pd.DataFrame, checks: Sequence[SelfCheck] = (), *, run_id: str = ""
) -> str:
    """Return a comparison as text; `importances` as :func:`mlflow_l3d.report.comparison.tables.factor_table` has it."""
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
