"""A sweep in the terminal."""

from __future__ import annotations

from mlflow_l3d.analysis.sweep.results import Sweep
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.report.sweep.tables import point_table
from mlflow_l3d.report.table import document


def summary(sweep: Sweep, *, title: str) -> str:
    """Return the points of a sweep as text."""
    lines = [f"{counted(len(sweep.points), 'point')}, {len(sweep.failed)} without a score."]
    lines += [f"{point.name}: {point.error}" for point in sweep.failed if point.error]
    return document(title, lines, [point_table(sweep)])
