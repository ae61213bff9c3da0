"""Remedies by other data: more examples, as other investigations show them, and which training examples are good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from mlflow_l3d.analysis.cure.more_data import Point, more_labels, more_tests, other_labels
from mlflow_l3d.analysis.cure.remedy import Prediction, Range
from mlflow_l3d.analysis.cure.which_examples import which_examples
from mlflow_l3d.analysis.importance.tables import known_std, std_interval
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.analysis.judged.table import mean_interval
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.studies.cure.changed import changed_scores, predict_changed, trained
from mlflow_l3d.studies.cure.gather import Gathered
from mlflow_l3d.studies.gate.golden import GoldenRequest
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, search
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier.past import own_parameter
from mlflow_l3d.tracking.earlier.reader import known_document

_SAME = ("task", "approach", "model", "hyperparameters", "metric", "test_size", "test_selection", "cure")
"""Parameters that another investigation has in common, if it shows what another number of examples does."""


def labels_remedy(
    client: Client, gathered: Gathered, golden: GoldenRequest | None, plain: FloatArray
) -> Iterator[Prediction]:
    """Yield what twice as many labels do: as stored golden runs show, or a line over sizes; none without a number.

    Parameters
    ----------
    client, gathered
        The server, which has other investigations, and the runs.
    golden, plain
        With which golden runs of another size are trained, None if they cannot be; and their scores without a remedy.
    """
    now = _size(own_parameter(gathered.parent, "num_labelled"))
    if not now or not gathered.importances:
        return
    remedy, by_size = other_labels(now, 2 * now), _scores_by_size(client, gathered)
    why = f"unknown from one size. A second one shows it: mlflow-l3d investigate ... --num-labelled {2 * now}"
    reason = ""
    if golden is not None:
        size = int(trained(golden, remedy).changes["num_labelled"])
        runs = f"golden runs with {size:,} labels" + f" (the data have no {2 * now:,})" * (size < now)
        why = f"unknown until verified by {runs}"
        (found,) = predict_changed(client, gathered, golden, plain, remedy, 0)
        if found.basis == "exact" and size > now:
            yield replace(found, reason="; ".join(filter(None, (f"measured by {runs}", found.reason))))
            return
        if found.basis == "exact" and size not in by_size:
            by_size[size], reason = changed_scores(client, gathered, golden, remedy), f"a line through {runs}"
    line = more_labels([*_points(by_size)], now=now, size=2 * now, unknown=why)
    yield line if line.reason else replace(line, reason=reason)


def data_remedies(gathered: Gathered, task: Task | None) -> Iterator[Prediction]:
    """Yield what more test examples and the best training examples would do; those that are unknown say why.

    `task` is None if the data are not here, so that nobody knows which examples a run trained on.
    """
    members = gathered.members
    if (test_size := members.test_size) and gathered.spread.value > 0:
        luck = members.luck_of_tests(gathered.metric, gathered.classes)
        yield more_tests(gathered.spread, luck=luck, now=test_size, size=2 * test_size)
    seeds, cells = [f"seed.{name}" for name in TASK_FACTORS], gathered.cells
    if task is not None and len(task) and {*seeds} <= {*cells} and len(cells[seeds].drop_duplicates()) > 1:
        yield _best_examples(gathered, task, seeds)


def _scores_by_size(client: Client, gathered: Gathered) -> dict[int, FloatArray]:
    """Return the golden scores of the latest investigation of each size that differs in its labelled examples alone."""
    parent, by_size = gathered.parent, {}
    for run in search(client, None, condition({names.ROLE: "investigation", names.STATE: "complete"})):
        same = all(own_parameter(run, name) == own_parameter(parent, name) for name in _SAME)
        if same and _digests(run) == _digests(parent) and (size := _size(own_parameter(run, "num_labelled"))):
            by_size[size] = str(run.info.run_id)
    by_size[_size(own_parameter(parent, "num_labelled"))] = str(parent.info.run_id)
    return {
        size: np.array(known_document(client, run_id, names.IMPORTANCE).get("golden", ()), dtype=np.float64)
        for size, run_id in by_size.items()
    }


def _points(by_size: Mapping[int, FloatArray]) -> Iterator[Point]:
    """Yield the spread and the mean at each size."""
    for size, scores in sorted(by_size.items()):
        golden = scores[np.isfinite(scores)]
        if len(golden) > 1:
            mean = Range(float(golden.mean()), *mean_interval(golden, shares=False))
            yield Point(size, Range(known_std(golden), *std_interval(golden)), mean)


def _digests(run: Run) -> set[str]:
    """Return the digests of the data of an investigation: data of one name may have other content."""
    return {each.dataset.digest for each in (run.inputs.dataset_inputs if run.inputs else ())}


def _size(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


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
