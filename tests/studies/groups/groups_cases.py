"""Runs as other code logs them, written in few calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from mlflow.entities import Metric, Param
from run_helpers import Place

from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.groups.numbers import GroupsStudy, groups_study
from mlflow_l3d.studies.groups.numbers.grouping import Grouping, group_runs


def add_run(
    place: Place,
    params: Mapping[str, Any],
    metrics: Mapping[str, float | Sequence[float]],
    *,
    experiment: str = "tuning",
    status: str = "FINISHED",
    parent: str = "",
    name: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Log one run, a value per step of each metric, and return its id."""
    client = place.client
    found = client.get_experiment_by_name(experiment)
    location = (place.cache.parent / "artifacts").as_uri()
    experiment_id = found.experiment_id if found else client.create_experiment(experiment, location)
    tags = {**(tags or {}), **({"mlflow.parentRunId": parent} if parent else {})}
    run_id = client.create_run(experiment_id, tags=tags, run_name=name).info.run_id
    points = [
        Metric(key, value, 0, step)
        for key, values in metrics.items()
        for step, value in enumerate(np.atleast_1d(values))
    ]
    client.log_batch(run_id, points, [Param(key, str(value)) for key, value in params.items()])
    if status != "RUNNING":
        client.set_terminated(run_id, status)
    return str(run_id)


def grouped(rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None, **options: str) -> Grouping:
    """Return the groups of runs with these parameters."""
    frame = pd.DataFrame(rows).astype(object)
    columns = {f"params.{name}" if "." not in name else name: frame[name].astype("category") for name in frame}
    return group_runs(pd.DataFrame(columns), pd.Series(names or [""] * len(frame)), **options)


def sets(grouping: Grouping) -> list[list[int]]:
    """Return the runs of each group."""
    return [np.flatnonzero(grouping.group == number).tolist() for number in range(len(grouping.names))]


def study_of(scores: Mapping[str, Sequence[float]], *, shared: bool = False, metric: str = "accuracy") -> GroupsStudy:
    """Return the study of groups with these scores; groups may share their seeds 0, 1, ..."""
    rows = [
        {"model": name, "seed": str(at if shared else 1000 * place + at), "score": score}
        for place, (name, values) in enumerate(scores.items())
        for at, score in enumerate(values)
    ]
    frame = pd.DataFrame(rows)
    grouping = grouped([{"model": row["model"], "seed": row["seed"]} for row in rows])
    ids = pd.Series([f"run {at}" for at in range(len(rows))])
    return groups_study(ids, frame["score"].to_numpy(), grouping, named(metric))
