"""The members of a cell: read from a folder, and made one outcome."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure.ensembles import combine
from mlflow_l3d.analysis.cure.remedy import Remedy
from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.known import named, of_kind, registered
from mlflow_l3d.tasks.base import Task


def read_member(folder: Path, key: str) -> Outcome | None:
    """Return a finished member, of ``KEY.parquet`` and ``KEY.json``; None if it is not there."""
    path = folder / f"{key}.parquet"
    if not path.is_file():
        return None
    frame, of_metrics = pd.read_parquet(path), path.with_suffix(".json")
    metrics = json.loads(of_metrics.read_text(encoding="utf-8")) if of_metrics.is_file() else {}
    ids = frame["example_id"].to_numpy()
    ids = ids.astype(np.str_) if ids.dtype.kind == "O" else ids
    scores = frame.filter(regex=r"^score_\d+$").to_numpy(np.float32)
    answers = frame["label"].to_numpy(), frame["prediction"].to_numpy(), scores if scores.shape[1] else None
    return Outcome(key, ids, *answers, metrics, duration_seconds=metrics.get("duration_seconds", 0.0))


def joined(key: str, remedy: Remedy, members: Sequence[Outcome], task: Task, own_metrics: Sequence[str]) -> Outcome:
    """Return the outcome of a cell: what a remedy makes of its members.

    Parameters
    ----------
    key, remedy, task
        Of the cell, with the data.
    members
        The outcomes of its members, in their order.
    own_metrics
        Names of metrics that only the approach has.
    """
    seconds = math.fsum(member.duration_seconds for member in members)
    for number, member in enumerate(members, 1):
        if member.error is not None:
            why = f"member {number} of {len(members)} failed: {member.error}"
            return Outcome(key, duration_seconds=seconds, error=why, traceback=member.traceback)
    try:
        if remedy.kind == "choose":
            outcome = _best(members, task)
        else:
            outcome = _together(remedy.kind, members, task, own_metrics)
    except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
        return failed(key, error, seconds)
    return replace(outcome, key=key, duration_seconds=seconds, curves={}, logged=None)


def _best(members: Sequence[Outcome], task: Task) -> Outcome:
    """Return the member with the best validation score; of equals the first."""
    for metric in of_kind(task.kind, secondary=False):
        name = f"validation_{metric.name}"
        if all(name in member.metrics for member in members):
            return max(members, key=lambda member: metric.sign * member.metrics[name])
    raise L3DError("cure.kind=choose: the approach reports no validation score. Use vote.")


def _together(kind: str, members: Sequence[Outcome], task: Task, own_metrics: Sequence[str]) -> Outcome:
    """Return the members' predictions together, and the means of their own metrics."""
    first = members[0]
    predictions = [member.predictions for member in members if member.predictions is not None]
    scores = [member.scores for member in members if member.scores is not None]
    if len(predictions) < len(members):
        raise L3DError(f"cure.kind={kind}: the approach returns no predictions, only metrics. Let it return them.")
    if not all(np.array_equal(member.example_ids, first.example_ids) for member in members):  # type: ignore[arg-type]
        raise L3DError(f"cure.kind={kind}: the members predict different examples. Let all predict the same.")
    if kind == "mean" and task.form.has_classes and len(scores) < len(members):
        raise L3DError("cure.kind=mean: the approach returns no class scores. Use vote.")
    together, shares = combine(
        kind,
        np.stack(predictions),
        np.stack(scores) if len(scores) == len(members) else None,
        classes=len(task.class_names),
        agreement=named(task.metric).agreement,
    )
    # What the platform computes of the predictions is on the run of a stored member, too.
    computed = {*registered(), "duration_seconds"} - set(own_metrics)
    shared = set.intersection(*(set(member.metrics) for member in members)) - computed
    means = {name: fmean(member.metrics[name] for member in members) for name in sorted(shared)}
    return replace(first, predictions=together, scores=shares, metrics=means)
