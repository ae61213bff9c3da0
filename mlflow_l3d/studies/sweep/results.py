"""What the points of a sweep say together: written to a run, and made again by `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source, heading
from mlflow_l3d.studies.base import origin
from mlflow_l3d.studies.files import read_result, save_result, temporary_folder, write_tables
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.studies.sweep.numbers import OF_CHOICE, Sweep, analyse_sweep, without_votes
from mlflow_l3d.studies.sweep.numbers.point import Choice, LeftOut, SweptPoint, without_each
from mlflow_l3d.studies.sweep.report import latex_table, sweep_document
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import children_of, found
from mlflow_l3d.tracking.connection import Client, Run, connect
from mlflow_l3d.tracking.earlier import own_parameter
from mlflow_l3d.tracking.earlier.reader import parent_run
from mlflow_l3d.tracking.pages import address_of, links_in, run_page
from mlflow_l3d.tracking.parent import log_metrics, log_results

ReadPoints = tuple[tuple[SweptPoint, ...], dict[str, str]]
"""Points in their order, and run id -> id of its experiment."""
_NO_RESULT: Final = "holds no result"
_HOW: Final = ("device", "executor", "workers", "cell_timeout", "executor_options")
_NO_CHOICES: Final = (*_HOW, "factor", "hyperparameters", "stop", "half_width", "epsilon")
"""Parameters of an investigation in which points may differ without being another system; factors have columns."""


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
    """Write a result, its tables and its report; return the names of the files that MLflow shows as tables."""
    shown, points = ShownSweep(result.sweep), folder / names.POINTS
    shown.rows.to_parquet(points.with_suffix(".parquet"), index=False)
    shown.rows.to_csv(points.with_suffix(".csv"), index=False)
    points.with_suffix(".tex").write_text(latex_table(shown, title=result.title), encoding="utf-8")
    save_result(folder, result, names.SWEEP_REPORT)
    tests = {"trends": pd.DataFrame(result.sweep.trends), "interactions": result.sweep.interactions_frame()}
    frames = {names.POINTS: shown.rows, **tests}
    return write_tables(folder, {f"{name}.json": frame for name, frame in frames.items() if len(frame)})


def links_of(tracking_uri: str, experiments: Mapping[str, str]) -> dict[str, str]:
    """Return run id -> address of the run, if a browser reaches the server; `experiments` are run id -> experiment."""
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
    points, experiments = points_of_runs(client, run_ids) if several else points_of_sweep(client, *run_ids)
    if all(point.error.startswith(_NO_RESULT) for point in points):  # as of an earlier version, whose page stays
        fix = f"First evaluate each: mlflow-l3d evaluate {points[0].run_id}"
        raise ParameterError("source", ",".join(run_ids), "has no point whose result this version reads", fix)
    result = SweepEvaluation(
        sweep=analyse_sweep(points, left_out(points)),
        title=f"{len(points)} investigations side by side",
        source=Source(date=heading("")["date"][:10]),
        links=links_of(str(client.tracking_uri), experiments),
    )
    if not several:
        return _evaluate_again(client, run_ids[0], result, log=log)
    if log:
        parameters = {"source": ",".join(run_ids)}
        with auxiliary_run(client, project_run, role="side_by_side", title=result.title, parameters=parameters) as run:
            result = replace(result, run_id=run.run_id)
            tables = write_sweep(run.folder, result)
            tags = {names.INVESTIGATIONS: parameters["source"], names.NOTE: result.report().description(first=2)}
            run.finish(metrics=result.sweep.metrics(), tags=tags, tables=tables)
    return result


def _evaluate_again(client: Client, run_id: str, result: SweepEvaluation, *, log: bool) -> SweepEvaluation:
    """Return the result of a sweep from its points; its tables, report and metrics are written again."""
    run, written = parent_run(client, run_id), read_result(client, run_id)
    source = written.source if written else origin(client, str(run.info.experiment_id), run_id)
    result = replace(result, run_id=run_id if log else "", title=str(run.info.run_name), source=source)
    if log:
        numbers = {"sweep": result.sweep, "title": result.title, "links": result.links}
        with temporary_folder() as folder:
            tables = write_sweep(folder, replace(written, **numbers) if written else result)
            log_metrics(client, run_id, {0: result.sweep.metrics()})
            parts = [result.report().description(first=2), *links_in(run.data.tags.get(names.NOTE, ""))]
            log_results(client, run_id, folder, {names.NOTE: "\n\n".join(parts)}, tables)
    return result


def points_of_sweep(client: Client, run_id: str) -> ReadPoints:
    """Return the points of a sweep in its own order, those that failed before they had a run included.

    Raises
    ------
    ParameterError
        If there is no such run, or it has no points.
    """
    top = parent_run(client, run_id, "source")
    every = children_of(client, str(top.info.experiment_id), run_id)
    parents = [run for run in every if run.data.tags.get(names.ROLE) == "investigation"]
    listed = written.sweep.points if (written := read_result(client, run_id)) else ()
    # A sweep that continues this one has taken over the points that were complete.
    elsewhere = {point.run_id for point in listed} - {run.info.run_id for run in parents} - {""}
    taken_over = [found(client.get_run, each) for each in sorted(elsewhere)]
    parents += [run for run in taken_over if run is not None and run.info.lifecycle_stage == "active"]
    if not parents:
        raise ParameterError("source", run_id, "is a sweep without points", "Run the same sweep again.")
    begun_points, experiments = points_of(client, parents)
    begun = {point.run_id: point for point in begun_points}
    points = []
    for point in listed:
        lost = replace(point, run_id="", analysis=None, error=point.error or "its run was deleted")
        points.append(begun.pop(point.run_id, lost))
    return (*points, *begun.values()), experiments


def points_of_runs(client: Client, run_ids: Sequence[str]) -> ReadPoints:
    """Return investigations as points, also such as were never swept; their choices are what they differ in.

    Raises
    ------
    ParameterError
        If there is no such run, or one is not an investigation.
    """
    parents = [parent_run(client, run_id, "source") for run_id in run_ids]
    for run in parents:
        if run.data.tags.get(names.ROLE) != "investigation":
            raise ParameterError("source", run.info.run_id, "must be the parent run of an investigation")
    return points_of(client, parents)


def points_of(client: Client, parents: Sequence[Run]) -> ReadPoints:
    """Return one point a parent, in their order; one that was not scored says why."""
    with ThreadPoolExecutor(8) as pool:
        analyses = list(pool.map(partial(_analysis, client), parents))
    choices = choices_among(parents)
    factors = [tuple(getattr(each, "importances", ())) for each, _ in analyses]
    if len({*zip(map(str, choices), factors, strict=True)}) < len(parents):  # they differ only in being two runs
        choices = [{**each, "run": run.info.run_name} for each, run in zip(choices, parents, strict=True)]
    points = [
        SweptPoint(str(run.info.run_id), point_choices, own_parameter(run, "task") or "", analysis, error)
        for run, point_choices, (analysis, error) in zip(parents, choices, analyses, strict=True)
    ]
    return tuple(points), {str(run.info.run_id): str(run.info.experiment_id) for run in parents}


def choices_among(parents: Sequence[Run]) -> list[dict[str, Choice]]:
    """Return for each parent in what it differs from the others.

    If all say what was chosen for them (``choice.*``), that; else of the parameters and hyperparameters those with
    several values.
    """
    chosen = [_under(run, OF_CHOICE) for run in parents]
    parameters = chosen if all(chosen) else [dict(_parameters(run)) for run in parents]
    values = {name: {each[name] for each in parameters if name in each} for each in parameters for name in each}
    return [{name: each[name] for name in values if name in each and len(values[name]) > 1} for each in parameters]


def _parameters(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the parameters of an investigation, and its hyperparameters one by one."""
    for name in run.data.params:
        if "." not in name and name not in _NO_CHOICES and (value := own_parameter(run, name)) is not None:
            yield name, value
    yield from _under(run, "hyperparameter.").items()


def _under(run: Run, start: str) -> dict[str, str]:
    return {name.removeprefix(start): value for name, value in run.data.params.items() if name.startswith(start)}


def _analysis(client: Client, run: Run) -> tuple[Analysis | None, str]:
    """Return what a parent says, or why it says nothing."""
    tags = run.data.tags
    analysis = getattr(read_result(client, str(run.info.run_id)), "analysis", None)
    if analysis is None:
        why = f"{_NO_RESULT}: it is {tags.get(names.STATE, 'not ours')}; if it has ended, evaluate it"
        return None, tags.get(names.ERROR) or why
    return without_votes(analysis), ""
