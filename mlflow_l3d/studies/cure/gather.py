"""What a parent run shows of remedies: its runs as members, its spread, how long a training takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.choice import NOTHING, NUMBERS, WHOLE, kind_of_column
from mlflow_l3d.analysis.cure import Range, Remedy
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.shape import MANY, guessing_runs
from mlflow_l3d.analysis.importance.tables import known_std, population_std, std_interval
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.designs import Planned
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.designs.layout import SEED
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.investigation.evaluate import check_metric, metric_of, planned_by, recorded_about
from mlflow_l3d.studies.investigation.remedies import MemberRows, chosen_by_other, drawn_factors, spread_of
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier.predictions import Form, run_predictions
from mlflow_l3d.tracking.earlier.reader import ended, read_investigation, read_predictions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Gathered:
    """What a parent run shows.

    Attributes
    ----------
    parent, cells
        The run, and one row per cell.
    metric, classes
        Whose luck is looked at; how many classes are distinguished, 0 of numbers.
    importances
        Factor -> record; empty of a seeds study.
    golden
        Shape (L,): scores of runs that redraw every factor, without nan.
    spread
        Their standard deviation as it is reported, with its interval.
    members
        The runs with their predictions.
    seconds
        Mean time of a training; nan if unknown.
    source
        Where the parent comes from, for the report.
    chosen_by
        Whose validation score chooses the best of several runs, if it is not the metric's; else empty.
    """

    parent: Run
    cells: pd.DataFrame
    metric: Metric
    classes: int
    importances: dict[str, Importance]
    golden: FloatArray
    spread: Range
    members: MemberRows
    seconds: float
    source: Source
    chosen_by: str

    @property
    def golden_std(self) -> float:
        """Their standard deviation as published (ddof=0)."""
        record = next(iter(self.importances.values()), None)
        return population_std(self.golden) if record is None else record.golden_std

    @property
    def collapsed(self) -> int:
        """How many independent runs are no better than guessing, if that comes before all luck."""
        return guessing_runs(self.golden, self.chance)

    @property
    def chance(self) -> float | None:
        """Score of guessing; None if there is none."""
        return self.metric.chance_level(self.classes or None)

    def in_order(self, remedies: Sequence[Remedy]) -> Sequence[Remedy]:
        """Return the remedies of an approach: restarts first if others learn, and half of the collapsed name one class.

        Only such a run collapses on its validation part, too, and most of its restarts learn.
        """
        share = self.collapsed / max(1, len(self.golden))
        answers = self.members.answers(self.classes)
        can_restart = answers is not None and 0 < share < MANY and answers.constant / answers.runs >= share / 2
        return sorted(remedies, key=lambda each: "restarts" not in each.changes) if can_restart else remedies


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
    recorded = read_investigation(run_id, client)  # not its own table, which may list cells that were deleted
    parent = ended(recorded.parent, "parent_run_id")
    if parent.data.metrics.get("groups", 1) > 1:
        allowed = "holds runs of several settings, whose differences are not luck"
        fix = "Evaluate its files again with --only NAME=VALUE, and name that run."
        raise ParameterError("parent_run_id", run_id, allowed, fix)
    planned = planned_by(parent)
    cells = planned.select(recorded.cells)
    metric = metric_of(parent, asked, cells)
    check_metric(cells, metric)
    source = recorded_about(client, parent).source
    over = (SEED,) if parent.data.tags.get(names.DESIGN) == "seeds" else drawn_factors(cells)
    chosen_by = chosen_by_other(cells, metric)
    members = MemberRows(planned.design_of(cells), over)
    found_classes = read_members(client, cells, members, "" if chosen_by else f"validation_{metric.name}")
    classes = len(source.classes) or found_classes
    spread = _spread(cells, replace(planned, classes=classes or None), metric)
    seconds = float(pd.to_numeric(cells.get("duration_seconds", pd.Series(dtype=float))).mean())
    return Gathered(parent, cells, metric, classes, *spread, members, seconds, source, chosen_by)


def _spread(cells: pd.DataFrame, planned: Planned, metric: Metric) -> tuple[dict[str, Importance], FloatArray, Range]:
    """Return the records of the factors, and the scores of independent runs with their standard deviation."""
    if cells["factor"].notna().any():
        analysis = analyse(cells, planned, metric=metric)
        golden = next(iter(analysis.importances.values())).golden
        return dict(analysis.importances), golden[np.isfinite(golden)], spread_of(analysis)
    scores = cells[metric.name].to_numpy(dtype=np.float64)
    scores = scores[np.isfinite(scores)]
    std = known_std(scores, ddof=1) if len(scores) > 1 else math.nan
    return {}, scores, Range(std, *std_interval(scores))


def read_members(client: Client, cells: pd.DataFrame, members: MemberRows, validation: str) -> int:
    """Add the predictions of all cells to the members, and return the number of classes that occur.

    `validation` is the metric that chooses the best of several.
    """
    finished = cells[cells["status"].eq("FINISHED")]
    form: Form | None = None
    classes = 0
    with closing(read_predictions(client, finished, scores=True, reference=True)) as tables:
        for cell, (_, table) in zip(finished.itertuples(index=False), tables, strict=True):
            if table is None:
                continue
            form = form or _form(table)
            run = run_predictions(cell, table, form, validation)
            if run is not None and form == "classes":
                classes = max(classes, int(max(run.labels.max(), run.predictions.max())) + 1)
            members.add(cell, run)
    return classes


def _form(table: pa.Table) -> Form:
    """Return what labels and predictions are: those that are neither classes nor numbers are compared as texts."""
    kinds = {kind_of_column(table[name]) for name in ("label", "prediction")} - {NOTHING}
    return "classes" if kinds == {WHOLE} else "numbers" if kinds <= {*NUMBERS} else "texts"
