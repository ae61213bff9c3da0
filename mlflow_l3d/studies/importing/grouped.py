"""The groups of runs that were read from files: what they say, when they are imported and when they are read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.groups.numbers.grouping import Grouping
from mlflow_l3d.studies.groups.numbers.study import GroupsStudy, groups_study
from mlflow_l3d.studies.groups.predictions import agreement_in_groups
from mlflow_l3d.studies.groups.run import write_groups
from mlflow_l3d.studies.groups.scores import bounded
from mlflow_l3d.studies.importing.imported import groups_in
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.records import write_runs, write_scores


def recorded_grouping(document: Mapping[str, Any], cells: pd.DataFrame) -> Grouping:
    """Return how imported runs are grouped, from ``investigation.json`` and the ``cell_key`` of each."""
    settings = {run["cell_key"]: run["settings"] for run in document["runs"]}
    recorded = pd.DataFrame([settings[key] for key in cells["cell_key"]])
    return groups_in(recorded, document.get("numbered", ""), document["parameters"])[0]


def grouped_runs(
    document: Mapping[str, Any], cells: pd.DataFrame, predictions: pd.DataFrame | None, metric: Metric
) -> tuple[GroupsStudy, pd.DataFrame | None, list[str]]:
    """Return the groups of imported runs, the examples on which runs of the best group differ most, and notes.

    Parameters
    ----------
    document
        The content of ``investigation.json``.
    cells
        One row per run: ``run_id``, ``cell_key`` and the metric.
    predictions
        One row per prediction, with the ``cell_key`` of its run; None without predictions.
    metric
        The score.
    """
    cells = cells[cells[metric.name].notna()].reset_index(drop=True)
    scores = cells[metric.name].to_numpy(dtype=np.float64)
    study = groups_study(cells["run_id"], scores, recorded_grouping(document, cells), bounded(metric, scores))
    notes: list[str] = []
    parts: dict[str, pd.DataFrame] = {}
    if predictions is not None:
        runs = dict(zip(cells["cell_key"], study.runs["group"].mask(study.runs["repeated"]), strict=True))
        parts = dict([*predictions.assign(seed=predictions["cell_key"]).groupby(predictions["cell_key"].map(runs))])
    kept = ((name, document["task"]["kind"], parts[name]) for name in study.several["group"] if name in parts)
    agreement, examples = agreement_in_groups(kept, notes, metric)
    return replace(study, groups=study.groups.merge(agreement, on="group", how="left")), examples, notes


def write_study(
    folder: Path,
    *,
    study: SeedsStudy | GroupsStudy,
    cells: pd.DataFrame,
    predictions: pd.DataFrame | None,
    report: Document,
) -> None:
    """Write the tables and the report of imported runs, and the runs."""
    if isinstance(study, SeedsStudy):
        write_scores(folder, study, cells, predictions, report)
    else:
        write_runs(folder, cells, predictions)
        write_groups(folder, study, report)
