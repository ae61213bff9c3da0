"""What the points of a sweep say together: written to a run, and made again by `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from mlflow_l3d.designs import design_named
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.about import heading
from mlflow_l3d.studies.files import save_report, temporary_folder, write_tables
from mlflow_l3d.studies.result_file import read_result, write_result
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.studies.sweep.numbers.measured import LeftOut, without_each
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint
from mlflow_l3d.studies.sweep.numbers.results import Sweep, analyse_sweep
from mlflow_l3d.studies.sweep.read import points_of_runs, points_of_sweep
from mlflow_l3d.studies.sweep.report.page import latex_table, sweep_document
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.earlier.reader import parent_run
from mlflow_l3d.tracking.pages import address_of, links_in, run_page, runs_page, with_link
from mlflow_l3d.tracking.parent import log_metrics, log_results


@dataclass(frozen=True, kw_only=True, repr=False)
class SweepEvaluation(OnOneScreen):
    """What the points of a sweep, or several investigations, say together.

    Attributes
    ----------
    run_id
        Where the result was logged; the empty text if it was not.
    sweep
        The records.
    title
        Heading of the report.
    source, links
        Where it comes from; run id -> address of the run, if there is one.
    """

    run_id: str = ""
    sweep: Sweep
    title: str
    source: Source = field(default_factory=Source)
    links: Mapping[str, str] = field(default_factory=dict)

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per point and factor in the units of the report; shares and their ends in %.

        Parameters
        ----------
        full
            Whether to return all numbers, scores as fractions, as the artifact ``points.csv`` has them.
        """
        shown = ShownSweep(self.sweep)
        return shown.rows if full else shown.frame

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        document = sweep_document(self.sweep, title=self.title, source=self.source, links=self.links)
        return replace(document, lines=self.lines())

    def lines(self) -> list[str]:
        """Return what the terminal says of the run: where the report is."""
        return [f"{names.SWEEP_REPORT} is among the artifacts of MLflow run {self.run_id}."] if self.run_id else []


def write_sweep(folder: Path, result: SweepEvaluation) -> list[str]:
    """Write a result: itself, the table of all points as Parquet, CSV and LaTeX, and the report.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    result
        The result.

    Returns
    -------
    list of str
        Names of the artifacts that MLflow shows as tables.
    """
    shown = ShownSweep(result.sweep)
    shown.rows.to_parquet(folder / f"{names.POINTS}.parquet", index=False)
    shown.rows.to_csv(folder / f"{names.POINTS}.csv", index=False)
    (folder / f"{names.POINTS}.tex").write_text(latex_table(shown, title=result.title), encoding="utf-8")
    save_report(folder, names.SWEEP_REPORT, result.report())
    write_result(folder, result)
    tests = {"trends": pd.DataFrame(result.sweep.trends), "interactions": result.sweep.interactions_frame()}
    frames = {names.POINTS: shown.rows, **{name: frame for name, frame in tests.items() if len(frame)}}
    return write_tables(folder, {f"{name}.json": frame for name, frame in frames.items()})


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


def evaluate_sweep(*run_ids: str, project_run: str | None = None, log: bool = True) -> SweepEvaluation:
    """Set the points of a sweep, or several investigations, side by side, from what their parents hold.

    Parameters
    ----------
    *run_ids
        The run of a sweep, whose tables, report and metrics are then written again; or several parents of
        investigations, whose result goes to a run of its own.
    project_run
        The run that `mlflow run` made, for that.
    log
        Whether to write.

    Raises
    ------
    L3DError
        With one line that names what is missing.
    """
    client, several = connect(), len(run_ids) > 1
    read = points_of_runs(client, run_ids) if several else points_of_sweep(client, run_ids[0])
    result = SweepEvaluation(
        sweep=analyse_sweep(read.points, left_out(read.points)),
        title=f"{len(read.points)} investigations side by side",
        source=Source(date=heading("")["date"][:10]),
        links=links_of(str(client.tracking_uri), read.experiments),
    )
    if not several:
        return _evaluate_again(client, run_ids[0], result, log=log)
    if log:
        parameters = {"source": ",".join(run_ids)}
        with (
            temporary_folder() as folder,
            auxiliary_run(client, project_run, role="side_by_side", title=result.title, parameters=parameters) as run,
        ):
            result = replace(result, run_id=run.run_id)
            tables = write_sweep(folder, result)
            tags = {names.INVESTIGATIONS: parameters["source"], names.NOTE: result.report().description(first=2)}
            run.finish(folder, metrics=result.sweep.metrics(), tags=tags, tables=tables)
    return result


def _evaluate_again(client: Client, run_id: str, result: SweepEvaluation, *, log: bool) -> SweepEvaluation:
    """Return the result of a sweep from its points; its tables, report and metrics are written again."""
    run, written = parent_run(client, run_id), read_result(client, run_id)
    experiment_id = str(run.info.experiment_id)
    page = runs_page(client, experiment_id)
    source = written.source if written else replace(result.source, run_id=run_id, address=page)
    result = replace(result, run_id=run_id if log else "", title=str(run.info.run_name), source=source)
    if log:
        numbers = {"sweep": result.sweep, "title": result.title, "links": result.links}
        with temporary_folder() as folder:
            tables = write_sweep(folder, replace(written, **numbers) if written else result)
            log_metrics(client, run_id, {0: result.sweep.metrics()})
            parts = [result.report().description(first=2), *links_in(run.data.tags.get(names.NOTE, ""))]
            note = {names.NOTE: with_link("\n\n".join(parts), experiment_id)}
            log_results(client, run_id, folder, note, tables)
    return result
