"""The tables of a sweep."""

from __future__ import annotations

import pandas as pd

from mlflow_l3d.analysis.sweep.results import Sweep
from mlflow_l3d.report.investigation.verdicts import Shown
from mlflow_l3d.report.numbers import between, shorten, signed, unit_of
from mlflow_l3d.report.table import Table

FAILED = "failed"


def with_verdicts(sweep: Sweep) -> pd.DataFrame:
    """Return the table of a sweep with a column ``verdict``: the words of a report, ``failed`` without a score."""
    shown = {at: Shown(point.analysis) for at, point in enumerate(sweep.points) if point.analysis is not None}
    verdicts = [
        shown[at].verdict(shown[at].analysis.importances[factor]).status if factor else FAILED
        for at, factor in zip(sweep.rows["point"], sweep.rows["factor"], strict=True)
    ]
    return sweep.rows.assign(verdict=verdicts)


def point_table(sweep: Sweep) -> Table:
    """Return one row a point and factor."""
    body = [
        {
            "point": shorten(sweep.points[row["point"]].name, 40),
            "factor": row["factor"],
            "importance": signed(row["importance"]),
            "corrected": signed(row["importance_corrected"]),
            "interval": between(row["importance_ci_low"], row["importance_ci_high"]),
            "golden std": unit_of(row["metric"]).text(row["golden_std"]),
            "verdict": row["verdict"],
        }
        for row in with_verdicts(sweep).to_dict("records")
    ]
    return Table.of(body)
