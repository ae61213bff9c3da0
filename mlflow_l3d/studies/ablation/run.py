"""The entry point `ablation`: what fewer runs and test examples would have found (Pecher et al. 2024, Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Unpack

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.predictions import ANSWERS
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.importance.verdicts import joint_level
from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.designs import all_designs
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters import Arguments, read_arguments, with_signature
from mlflow_l3d.parameters.values import Whole, names_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.ablation.numbers import Setting, ablate_tables, from_predictions, rescored
from mlflow_l3d.studies.ablation.parameters import ABLATION, AblationOptions
from mlflow_l3d.studies.ablation.report import ablation_document, range_table, spread
from mlflow_l3d.studies.base import entry_point
from mlflow_l3d.studies.comparison.reading import answers_of_cells, answers_of_parent
from mlflow_l3d.studies.files import save_result, write_tables
from mlflow_l3d.studies.investigation.evaluate import check_metric, metric_of, planned_by, recorded_about
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import whole_id
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.earlier import latest_investigation
from mlflow_l3d.tracking.earlier.reader import Recorded, read_listed

FRAME_FILE = "ablation.json"
_SHARES: Final = {"rows": (3, 0.1, 0.25, 0.5), "columns": (3, 0.1, 0.25, 0.5), "test_sizes": (10, 0.1, 0.5)}
"""Parameter -> what ``auto`` stands for: the least number, and shares of all there is."""


@dataclass(frozen=True, repr=False)
class Ablation(OnOneScreen):
    """What fewer runs and test examples would have found.

    Attributes
    ----------
    run_id
        The parent whose cells were used.
    metric
        The metric whose spread was investigated.
    frame
        One row per setting, repeat and factor, see :func:`mlflow_l3d.studies.ablation.numbers.ablate_tables`.
    notes
        What was left out, and why.
    source
        The command of the investigation, for the report.
    """

    run_id: str
    metric: Metric
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    source: Source = field(default_factory=Source)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per setting, factor and number: its mean and 5-95 % range over the random choices."""
        return spread(self.frame)

    @built_once
    def report(self) -> Document:
        """Return what fewer runs would have found, as people read it."""
        title = f"ablation of run {self.run_id} ({self.metric})"
        return ablation_document(title, self.frame, self.notes, self.source)

    def note(self) -> str:
        """Return headline, answers and the importance in each setting as Markdown, for the description of the run."""
        return self.report().description(range_table(self.frame).markdown(), *self.notes)


@with_signature(AblationOptions)
def ablation(parent_run_id: str = "latest", **options: Unpack[AblationOptions]) -> Ablation:
    """Return what a finished investigation would have found with fewer runs and test examples; nothing is trained.

    Parameters
    ----------
    parent_run_id
        A parent run, as for :func:`mlflow_l3d.studies.evaluation.run.evaluate`; it is not changed.
    **options
        `metric`: ``auto`` is the parent's own parameter, or ``f1_macro``. `rows`, `columns`: numbers of mitigation and
        investigation runs, in a list or separated by commas; ``auto`` is about 10, 25 and 50 %, at least 3; all of
        them are always included. `test_sizes`: numbers of test examples; ``auto`` is 10 and 50 % if the cells have
        predictions, ``all`` adds no smaller number. `repeats`: how many random choices of each setting. `root_seed`:
        the number that the choices are derived from.

    Returns
    -------
    Ablation
        One dimension is varied at a time; the smallest number of rows also with every smaller number of examples (as in
        the paper's Table 3) and with the fewest columns. Also logged to the run that `mlflow run` made, if there is
        one.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> investigation = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=6, golden_runs=6, executor="inline",
    ... )
    >>> ablation = mlflow_l3d.ablation(investigation.run_id, rows=3, columns="all", test_sizes="all", repeats=2)
    >>> importance = ablation.to_frame().query("number == 'importance'")["mean"]
    >>> importance.round(2).tolist()  # with six rows, and with three
    [-0.06, 0.49]
    """
    with entry_point() as project_run:
        asked = read_arguments({"parent_run_id": parent_run_id, **options}, ABLATION)
        wanted = {name: _wanted(name, asked[name]) for name in _SHARES}
        client, named = connect(), asked["parent_run_id"]
        run_id = latest_investigation(client) if named == "latest" else whole_id(client, named)
        recorded = read_listed(run_id, client)
        ablation = _ablate(client, recorded, asked, wanted)
        if project_run.run_id is None:
            return ablation
        title = f"ablation: {recorded.parent.info.run_name or run_id}"
        with auxiliary_run(client, project_run.take(), role="ablation", title=title, parameters=asked.texts) as run:
            tags = {names.OF_INVESTIGATION: run_id, names.NOTE: ablation.note()}
            save_result(run.folder, ablation)
            frame = ablation.to_frame().replace([np.inf, -np.inf], np.nan)
            run.finish(metrics={}, tags=tags, tables=write_tables(run.folder, {FRAME_FILE: frame}))
    return ablation


def _wanted(name: str, asked: object) -> list[int] | None:
    """Return the numbers of a parameter; None for `auto`; `all` adds none, since the full setting is always there."""
    words = names_of(asked)
    if words == ("auto",):
        return None
    count = Whole(1 if name == "test_sizes" else 2)
    return sorted({count.number(name, word) for word in words if word != "all"}, reverse=True)


def _ablate(client: Client, recorded: Recorded, asked: Arguments, wanted: Mapping[str, list[int] | None]) -> Ablation:
    run_id = str(recorded.parent.info.run_id)
    plan = planned_by(recorded.parent, design=recorded.parent.data.tags.get(names.DESIGN, "auto"))
    cells = plan.select(recorded.cells).reset_index(drop=True)
    metric = metric_of(recorded.parent, asked["metric"], cells)
    check_metric(cells, metric)
    design = plan.design_of(cells)
    if not design.ablates:
        *others, last = (name for name, each in all_designs().items() if each.ablates)
        allowed = f"must be an investigation of design {', '.join(others)} or {last}"
        fix = "The baselines have no importance score."
        raise ParameterError("parent_run_id", f"(design {design.name})", allowed, fix)
    scores = plan.tables(cells, metric.name)
    if not scores.tables or not all(table.size for table in scores.tables.values()):
        raise ParameterError("parent_run_id", "(no table)", "must have cells of at least one investigated factor")
    answers, why = None, ""
    if wanted["test_sizes"] != []:
        answers, why = _read_answers(client, run_id, cells, metric)
    if answers is None and wanted["test_sizes"]:
        if metric.name not in from_predictions():
            raise unknown_name("metric", metric.name, from_predictions(), "for test_sizes one of")
        raise ParameterError("test_sizes", ",".join(map(str, wanted["test_sizes"])), why, "Use test_sizes=all.")
    if not design.has_columns and wanted["columns"]:
        columns = ",".join(map(str, wanted["columns"]))
        raise ParameterError("columns", columns, f"must be auto: a {design.name} design has no columns")
    settings = _settings(scores, answers, wanted)
    level = joint_level(LEVEL, len(scores.tables))
    importances = partial(design.importances, missing=plan.missing, level=level)
    frame = ablate_tables(
        scores,
        settings,
        importances,
        seed=asked["root_seed"],
        repeats=asked["repeats"],
        answers=answers,
        tables=lambda again: plan.tables(cells.assign(**{metric.name: again}), metric.name),
        metric=metric,
    )
    notes = (f"Fewer test examples were not looked at: {why}.",) if why else ()
    source = recorded_about(client, recorded.parent).source
    return Ablation(run_id, metric, frame, notes, replace(source, date=""))


def _settings(scores: Tables, answers: pd.DataFrame | None, wanted: Mapping[str, list[int] | None]) -> list[Setting]:
    """Return the settings: everything, one dimension at a time, and the small ones together."""
    most = {
        "rows": min(len(table) for table in scores.tables.values()),
        "columns": min(table.shape[1] for table in scores.tables.values()),
        "test_sizes": 0 if answers is None else int(answers.groupby("cell").size().min()),
    }
    rows, columns, sizes = (_numbers(name, wanted[name], number) for name, number in most.items())
    settings = [Setting(), *(Setting(rows=count) for count in rows), *(Setting(columns=count) for count in columns)]
    settings += [Setting(examples=size) for size in sizes]
    if rows:
        settings += [Setting(rows=rows[-1], examples=size) for size in sizes]
        settings += [Setting(rows=rows[-1], columns=fewest) for fewest in columns[-1:]]
    return settings


def _numbers(name: str, wanted: list[int] | None, most: int) -> list[int]:
    """Return the numbers below all there is, largest first."""
    if wanted is None:
        least, *shares = _SHARES[name]
        wanted = sorted({max(int(least), round(share * most)) for share in shares}, reverse=True)
    elif wanted and wanted[0] > most:
        low = 1 if name == "test_sizes" else 2
        raise ParameterError(name, wanted[0], f"must be from {low} to {most}, what the investigation has")
    return [number for number in wanted if number < most]


def _read_answers(client: Client, run_id: str, cells: pd.DataFrame, metric: Metric) -> tuple[pd.DataFrame | None, str]:
    """Return the predictions of the cells: from the parent's one table, else cell by cell; or None, and why."""
    if metric.name not in from_predictions():
        return None, f"the metric {metric} cannot be computed from predictions"
    finished = cells[cells["status"].eq("FINISHED") & cells[metric.name].notna()]
    for parts in (answers_of_parent(client, run_id, finished), answers_of_cells(client, finished)):
        tables = [table.select(ANSWERS).to_pandas().assign(cell=finished.index[at]) for at, table in parts]
        if tables and (answers := pd.concat(tables, ignore_index=True))["cell"].nunique() == len(finished):
            break
    else:
        return None, "not every cell has predictions"
    # Examples are numbered in the order of their ids, however the cells are.
    answers["example"] = pd.factorize(answers.pop("example_id"), sort=True)[0]
    again = rescored(answers, metric, rank=np.arange(len(answers)))
    # A recorded metric that is further from the one of the recorded predictions does not belong to them.
    if not np.allclose(again[finished.index], finished[metric.name], rtol=0, atol=1e-6):
        return None, f"the recorded {metric} is not that of the recorded predictions"
    return answers, ""
