"""What the points of a sweep say together: written to a run, and made again by `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

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
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.earlier.reader import parent_run
from mlflow_l3d.tracking.pages import address_of, links_in, run_page, runs_page, with_link
from mlflow_l3d.tracking.parent import log_metrics, log_results


@dataclass(frozen=True, repr=False)
class SweepResult(OnOneScreen):
    """What the points of a sweep say together.

    Attributes
    ----------
    sweep
        The records.
    title
        Heading of the report.
    tables
        Names of the artifacts that MLflow shows as tables.
    source, links
        Where it comes from; run id -> address of the run, if there is one.
    """

    sweep: Sweep
    title: str
    tables: tuple[str, ...] = ()
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
        return sweep_document(self.sweep, title=self.title, source=self.source, links=self.links)


def write_sweep(
    folder: Path,
    points: Sequence[SweptPoint],
    *,
    title: str,
    source: Source | None = None,
    links: Mapping[str, str] = MappingProxyType({}),
) -> SweepResult:
    """Write the result of a sweep: the table of all points as Parquet, CSV and LaTeX, and the report.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    points
        The investigations, those that failed included; at least one.
    title
        Name of the report.
    source, links
        As in :class:`SweepResult`.

    Raises
    ------
    ParameterError
        If there is no point.
    """
    sweep = analyse_sweep(points, left_out(points))
    shown = ShownSweep(sweep)
    shown.rows.to_parquet(folder / f"{names.POINTS}.parquet", index=False)
    shown.rows.to_csv(folder / f"{names.POINTS}.csv", index=False)
    (folder / f"{names.POINTS}.tex").write_text(latex_table(shown, title=title), encoding="utf-8")
    frames = {"trends": sweep.trends_frame(), "interactions": sweep.interactions_frame()}
    frames = {names.POINTS: shown.rows, **{name: frame for name, frame in frames.items() if len(frame)}}
    tables = write_tables(folder, {f"{name}.json": frame for name, frame in frames.items()})
    result = SweepResult(sweep, title, tuple(tables), source or Source(), links)
    save_report(folder, names.SWEEP_REPORT, result.report())
    return result


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


@dataclass(frozen=True, repr=False)
class SweepEvaluation(OnOneScreen):
    """What was set side by side again.

    Attributes
    ----------
    run_id
        Where the result was logged; the empty text if it was not.
    result
        What the points say together.
    """

    run_id: str
    result: SweepResult

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per point and factor; see :meth:`SweepResult.to_frame`."""
        return self.result.to_frame(full=full)

    def report(self) -> Document:
        """Return the result as people read it."""
        return replace(self.result.report(), lines=[self.where] if self.run_id else [])

    @property
    def where(self) -> str:
        """Where its report is, as a line for the terminal."""
        return f"{names.SWEEP_REPORT} is among the artifacts of MLflow run {self.run_id}."


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
    on_top = None if several else parent_run(client, run_ids[0])
    title = str(on_top.info.run_name) if on_top else f"{len(read.points)} investigations side by side"
    written = read_result(client, run_ids[0]) if on_top else None
    with temporary_folder() as folder:
        links = links_of(str(client.tracking_uri), read.experiments)
        source = Source(date=heading(run_ids[0])["date"][:10])
        if on_top:
            page = runs_page(client, str(on_top.info.experiment_id))
            source = written.result.source if written else replace(source, run_id=run_ids[0], address=page)
        result = write_sweep(folder, read.points, title=title, source=source, links=links)
        if not log:
            return SweepEvaluation("", result)
        note = {names.NOTE: result.report().description(first=2)}
        if several:
            listed = ",".join(run_ids)
            with auxiliary_run(
                client, project_run, role="side_by_side", title=title, parameters={"source": listed}
            ) as run:
                tags = {names.INVESTIGATIONS: listed, **note}
                evaluation = SweepEvaluation(run.run_id, result)
                write_result(folder, evaluation)
                run.finish(folder, metrics=result.sweep.metrics(), tags=tags, tables=result.tables)
            return evaluation
        evaluation = SweepEvaluation(run_ids[0], result)
        write_result(folder, replace(written, result=result) if written else evaluation)
        log_metrics(client, run_ids[0], {0: result.sweep.metrics()})
        if on_top:
            parts = [note[names.NOTE], *links_in(on_top.data.tags.get(names.NOTE, ""))]
            note = {names.NOTE: with_link("\n\n".join(parts), str(on_top.info.experiment_id))}
        log_results(client, run_ids[0], folder, note, result.tables)
    return evaluation
