"""What a parent run shows of remedies: its runs as members, its spread, how long a training takes."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.agreement.kinds import NUMBERS, WHOLE, kind_of_column
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.tables import known_std
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.designs.analyse import Planned, analyse
from mlflow_l3d.designs.layout import SEED
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.investigation.evaluate import check_metric, metric_of, planned_by, recorded_about
from mlflow_l3d.studies.investigation.members import MemberRows, run_predictions
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier.reader import read_listed, read_predictions


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """What a parent run shows.

    Attributes
    ----------
    parent
        The run.
    metric, classes
        Whose luck is looked at; how many classes are distinguished, 0 of numbers.
    importances
        Factor -> record; empty of a seeds study.
    golden
        Shape (L,): scores of runs that redraw every factor, without nan.
    std
        Their standard deviation as it is reported.
    over
        The one factor in which these runs differ, of a seeds study; else empty.
    members
        The runs with their predictions.
    reason
        Why there are none, in one line; empty if there are some.
    seconds
        Mean time of a training; nan if unknown.
    source
        Where the parent comes from, for the report.
    """

    parent: Run
    metric: Metric
    classes: int
    importances: dict[str, Importance]
    golden: FloatArray
    std: float
    over: str
    members: MemberRows
    reason: str
    seconds: float
    source: Source


def gather(client: Client, run_id: str, asked: str) -> Gathered:
    """Return what a parent run shows.

    Parameters
    ----------
    client, run_id
        The server, and the parent: an investigation, ours or of other code, or a seeds study.
    asked
        The metric, or ``auto``.

    Raises
    ------
    ParameterError
        If there is no such run, it has no cells, or none has the metric.
    """
    recorded = read_listed(run_id, client)
    parent, over = recorded.parent, SEED if recorded.parent.data.tags.get(names.DESIGN) == "seeds" else ""
    planned = planned_by(parent)
    cells = planned.select(recorded.cells)
    metric = metric_of(parent, asked, cells)
    check_metric(cells, metric)
    source = recorded_about(client, parent).source
    members, reason, classes = _read(client, cells, planned, metric)
    classes = len(source.classes) or classes
    importances, golden, std = _spread(cells, replace(planned, classes=classes or None), metric)
    seconds = pd.to_numeric(cells.get("duration_seconds", pd.Series(dtype=float))).mean()
    return Gathered(
        parent=parent,
        metric=metric,
        classes=classes,
        importances=importances,
        golden=golden,
        std=std,
        over=over,
        members=members,
        reason=reason,
        seconds=float(seconds),
        source=source,
    )


def _spread(cells: pd.DataFrame, planned: Planned, metric: Metric) -> tuple[dict[str, Importance], FloatArray, float]:
    """Return the records of the factors, and the scores of independent runs with their standard deviation."""
    if cells["factor"].notna().any():
        importances = dict(analyse(cells, planned, metric=metric).importances)
        if record := next(iter(importances.values()), None):
            golden = record.golden[np.isfinite(record.golden)]
            return importances, golden, record.golden_std
    golden = cells[metric.name].to_numpy(dtype=np.float64)
    golden = golden[np.isfinite(golden)]
    return {}, golden, known_std(golden) if len(golden) > 1 else math.nan


def _read(client: Client, cells: pd.DataFrame, planned: Planned, metric: Metric) -> tuple[MemberRows, str, int]:
    """Return the predictions of all cells, why there are none, and the number of classes that occur."""
    members = MemberRows(planned.design_of(cells))
    finished = cells[cells["status"].eq("FINISHED")]
    validation = f"validation_{metric.name}"
    numbers, classes, kind = None, 0, ""
    with closing(read_predictions(client, finished, scores=True, reference=True)) as tables:
        for cell, (_, table) in zip(finished.itertuples(index=False), tables, strict=True):
            if table is None:
                continue
            if numbers is None:
                kind = kind_of_column(table["prediction"])
                numbers = kind_of_column(table["label"]) != WHOLE or kind != WHOLE
                if kind not in NUMBERS:
                    return members, f"Predictions are {kind}: an ensemble of answers is not predicted.", 0
            run = run_predictions(cell, table, numbers=numbers)
            if run is not None:
                run.validation = float(getattr(cell, validation, math.nan))
                classes = 0 if numbers else max(classes, int(max(run.labels.max(), run.predictions.max())) + 1)
            members.add(cell, run)
    return members, "" if members.size else "The runs hold no predictions.", classes
