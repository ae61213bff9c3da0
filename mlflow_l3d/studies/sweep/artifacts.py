"""What a finished sweep leaves on its study run: one table in long form, the report and the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pandas as pd

from mlflow_l3d.designs import design_named
from mlflow_l3d.studies.files import write_tables
from mlflow_l3d.studies.sweep.numbers.measured import LeftOut, without_each
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.numbers.results import Sweep, analyse_sweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.pages import address_of, run_page

_MOST_LINKS: Final = 60
"""The description of a run is a tag, of which MLflow keeps 8,000 characters."""


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
        """Return one row per point and factor: choices, importance with its interval, standard deviations, verdict."""
        from mlflow_l3d.studies.sweep.report.shown import ShownSweep

        return ShownSweep(self.sweep).rows

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the study run."""
        return self.sweep.metrics()

    def summary(self) -> str:
        """Return the text that the command line prints."""
        from mlflow_l3d.studies.sweep.report.page import sweep_document

        return sweep_document(self.sweep, title=self.title).to_text()


def write_sweep(
    folder: Path,
    points: Sequence[SweptPoint],
    *,
    title: str,
    links: Mapping[str, str] = MappingProxyType({}),
) -> SweepResult:
    """Write the result of a sweep: the table of all points as Parquet, CSV and LaTeX, the report and the pictures.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    points
        The investigations, those that failed included; at least one.
    title
        Heading of the report.
    links
        Run id -> address of the run, if there is one.

    Raises
    ------
    ParameterError
        If there is no point.
    """
    from mlflow_l3d.studies.sweep.report.page import sweep_document
    from mlflow_l3d.studies.sweep.report.shown import ShownSweep
    from mlflow_l3d.studies.sweep.report.tables import latex_table

    sweep = analyse_sweep(points, left_out(points))
    shown = ShownSweep(sweep)
    shown.rows.to_parquet(folder / f"{names.POINTS}.parquet", index=False)
    shown.rows.to_csv(folder / f"{names.POINTS}.csv", index=False)
    (folder / f"{names.POINTS}.tex").write_text(latex_table(shown, title=title), encoding="utf-8")
    frames = {"trends": sweep.trends_frame(), "interactions": sweep.interactions_frame()}
    frames = {names.POINTS: shown.rows, **{name: frame for name, frame in frames.items() if len(frame)}}
    tables = write_tables(folder, {f"{name}.json": frame for name, frame in frames.items()})
    sweep_document(sweep, title=title, links=links).save(folder, names.SWEEP_REPORT)
    return SweepResult(sweep, title, tuple(tables))


def links_of(tracking_uri: str, experiments: Mapping[str, str]) -> dict[str, str]:
    """Return run id -> address of the run, if the tracking server is one that a browser reaches.

    Parameters
    ----------
    tracking_uri
        Of the server; user and password in it are left out.
    experiments
        Run id -> id of its experiment.
    """
    address = address_of(tracking_uri)
    return {run_id: f"{address}/{run_page(at, run_id)}" for run_id, at in experiments.items() if address}


def description(result: SweepResult, experiments: Mapping[str, str]) -> str:
    """Return the headline of the report as Markdown, and links to the points, for the page of the run in MLflow's UI.

    Parameters
    ----------
    result
        What the points say.
    experiments
        Run id -> id of its experiment.
    """
    from mlflow_l3d.studies.sweep.report.shown import ShownSweep
    from mlflow_l3d.studies.sweep.report.words import answers

    shown = ShownSweep(result.sweep)
    opening = [answer.markdown() for answer in answers(shown)]
    points = zip(shown.names, (point.run_id for point in result.sweep.points), strict=True)
    links = [f"- [{name}]({run_page(experiments[run_id], run_id)})" for name, run_id in points if run_id in experiments]
    more = [f"- and {len(links) - _MOST_LINKS} more"] if len(links) > _MOST_LINKS else []
    return "\n\n".join([*opening, "\n".join([*links[:_MOST_LINKS], *more])])


def left_out(points: Sequence[SweptPoint]) -> dict[tuple[int, str], LeftOut]:
    """Return (point, factor) -> corrected importance without each row, and each column, for points that share them."""
    influences = {}
    for at, point in enumerate(points):
        if point.analysis is None or point.analysis.collapse is not None:
            continue
        design = design_named(point.analysis.design)
        tables = {factor: record.table for factor, record in point.analysis.importances.items()}
        for factor in tables:
            if (values := without_each(design.compared(tables, factor))) is not None:
                influences[at, factor] = values
    return influences
