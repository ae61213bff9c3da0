"""What a finished sweep leaves on its study run: one table in long form, the report and the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from mlflow_l3d.analysis.sweep.point import SweptPoint
from mlflow_l3d.analysis.sweep.results import Sweep, analyse_sweep
from mlflow_l3d.studies.files import write_tables
from mlflow_l3d.tracking import names


@dataclass(frozen=True)
class SweepResult:
    """What the points of a sweep say together.

    Attributes
    ----------
    sweep
        The records.
    title
        Heading of report and text.
    tables
        Names of the artifacts that MLflow shows as tables.
    """

    sweep: Sweep
    title: str
    tables: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return one row a point and factor: choices, importance with its interval, standard deviations, verdict."""
        from mlflow_l3d.report.sweep.tables import with_verdicts

        return with_verdicts(self.sweep)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the study run."""
        return self.sweep.metrics()

    def summary(self) -> str:
        """Return the text that the command line prints."""
        from mlflow_l3d.report.sweep.text import summary

        return summary(self.sweep, title=self.title)


def write_sweep(folder: Path, points: Sequence[SweptPoint], *, title: str) -> SweepResult:
    """Write the result of a sweep: the table of all points as Parquet, CSV and LaTeX, the report and the pictures.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    points
        The investigations, those that failed included; at least one.
    title
        Heading of the report.

    Raises
    ------
    ParameterError
        If there is no point.
    """
    result = SweepResult(analyse_sweep(points), title)
    rows = result.to_frame()
    rows.to_parquet(folder / f"{names.POINTS}.parquet", index=False)
    rows.to_csv(folder / f"{names.POINTS}.csv", index=False)
    tables = write_tables(folder, {f"{names.POINTS}.json": rows})
    return SweepResult(result.sweep, title, tuple(tables))
