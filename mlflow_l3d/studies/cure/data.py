"""Remedies by other data: more examples, as other investigations show them, and which training examples are good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure.more_data import Point, more_labels, more_tests
from mlflow_l3d.analysis.cure.remedy import Prediction, Range
from mlflow_l3d.analysis.cure.which_examples import which_examples
from mlflow_l3d.analysis.importance.tables import known_std, std_interval
from mlflow_l3d.analysis.judged.table import mean_interval
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.cure.gather import Gathered
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier.past import own_parameter
from mlflow_l3d.tracking.earlier.reader import known_document

_SAME = ("task", "approach", "model", "hyperparameters", "metric", "test_size", "test_selection", "cure")
"""Parameters that another investigation has in common, if it shows what another number of examples does."""


def data_remedies(client: Client, gathered: Gathered, task: Task | None) -> Iterator[Prediction]:
    """Yield what other data would do; those of which nothing is known say why.

    Parameters
    ----------
    client, gathered
        The server, which has other investigations, and the runs.
    task
        The data; None if they are not here, so that nobody knows which examples a run trained on.
    """
    now = _size(own_parameter(gathered.parent, "num_labelled"))
    if now and gathered.importances:
        other = 2 * now if task is None or _has(task, 2 * now) else max(1, now // 2)
        why = f"unknown from one size. A second one shows it: mlflow-l3d investigate ... --num-labelled {other}"
        yield more_labels([*_points(client, gathered)], now=now, size=2 * now, unknown=why)
    members = gathered.members
    if (test_size := members.test_size) and gathered.spread.value > 0:
        luck = members.luck_of_tests(gathered.metric, gathered.classes)
        yield more_tests(gathered.spread, luck=luck, now=test_size, size=2 * test_size)
    if task is not None and len(task) and (seeds := _split_seeds(gathered.cells)):
        yield _best_examples(gathered, task, seeds)


def _has(task: Task, num_labelled: int) -> bool:
    """Return whether so many examples of the task can be labelled."""
    try:
        replace(task, settings=replace(task.settings, num_labelled=num_labelled)).split(dict.fromkeys(TASK_FACTORS, 0))
    except L3DError:
        return False
    return True


def _points(client: Client, gathered: Gathered) -> Iterator[Point]:
    """Yield the spreads of the latest investigation of each size that differs in its number of examples alone."""
    parent, by_size = gathered.parent, {}
    for run in search(client, None, condition({names.ROLE: "investigation", names.STATE: "complete"})):
        same = all(own_parameter(run, name) == own_parameter(parent, name) for name in _SAME)
        if same and _digests(run) == _digests(parent) and (size := _size(own_parameter(run, "num_labelled"))):
            by_size[size] = str(run.info.run_id)
    by_size[_size(own_parameter(parent, "num_labelled"))] = str(parent.info.run_id)
    for size, run_id in sorted(by_size.items()):
        golden = np.array(known_document(client, run_id, names.IMPORTANCE).get("golden", ()), dtype=np.float64)
        golden = golden[np.isfinite(golden)]
        if len(golden) > 1:
            mean = Range(float(golden.mean()), *mean_interval(golden, shares=False))
            yield Point(size, Range(known_std(golden), *std_interval(golden)), mean)


def _digests(run: Run) -> set[str]:
    """Return the digests of the data of an investigation: data of one name may have other content."""
    return {each.dataset.digest for each in (run.inputs.dataset_inputs if run.inputs else ())}


def _size(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _split_seeds(cells: pd.DataFrame) -> list[str]:
    """Return the columns of the seeds that draw the labelled examples, if they vary."""
    columns = [f"seed.{name}" for name in TASK_FACTORS if f"seed.{name}" in cells]
    return columns if len(columns) == len(TASK_FACTORS) and len(cells[columns].drop_duplicates()) > 1 else []


def _best_examples(gathered: Gathered, task: Task, columns: list[str]) -> Prediction:
    """Return what one fixed set of labelled examples would do: scores over the examples that runs trained on."""
    cells = gathered.cells.dropna(subset=[*columns, gathered.metric.name])
    scores = cells.groupby(columns)[gathered.metric.name].mean()
    included = np.zeros((len(scores), len(task)), dtype=bool)
    for row, seeds in enumerate(scores.index):
        included[row, task.split(dict(zip(TASK_FACTORS, map(int, seeds), strict=True))).train] = True
    used = included.any(axis=0)
    groups = task.labels[used] if task.class_names else None
    signed = gathered.metric.sign * scores.to_numpy(dtype=np.float64)
    return which_examples(included[:, used], signed, factor="label_selection", groups=groups).prediction
