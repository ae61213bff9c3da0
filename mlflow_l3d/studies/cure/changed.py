"""Golden runs with a remedy: those that are trained, and what stored ones with other hyperparameters show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure.more_data import other_labels
from mlflow_l3d.analysis.cure.remedy import CHANGING, Prediction, Remedy
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.approaches.cured.approach import Cured
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.cures import text_of
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.studies.cure.gather import Gathered, read_members
from mlflow_l3d.studies.cure.numbers.verified import Verified, verify
from mlflow_l3d.studies.gate.golden import GoldenRequest
from mlflow_l3d.studies.investigation.remedies import MemberRows, predicted
from mlflow_l3d.studies.request import context_of
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import cells_of_runs

FEWEST = 5
"""Fewer golden runs than these verify no remedy."""


def has_labels(task: Task, num_labelled: int) -> bool:
    """Return whether so many examples of a task can be labelled."""
    try:
        replace(task, settings=replace(task.settings, num_labelled=num_labelled)).split(dict.fromkeys(TASK_FACTORS, 0))
    except L3DError:
        return False
    return True


def trained(plain: GoldenRequest, remedy: Remedy) -> Remedy:
    """Return what is trained to know a remedy: half as many labels if the task has no more; else the remedy itself."""
    if remedy.kind != "more_data" or has_labels(plain.setup.task, int(remedy.changes["num_labelled"])):
        return remedy
    now = int(remedy.changes["num_labelled"]) // 2
    return other_labels(now, max(1, now // 2))


def cured_request(plain: GoldenRequest, remedy: Remedy) -> GoldenRequest:
    """Return golden runs with a remedy; with more labels they are plain runs, and have the keys of such.

    Raises
    ------
    ParameterError
        If their approach cannot have this remedy.
    """
    setup, key, remedy = plain.setup, cured_key(plain, remedy), trained(plain, remedy)
    if remedy.kind == "more_data":
        size = int(remedy.changes["num_labelled"])
        task = replace(setup.task, settings=replace(setup.task.settings, num_labelled=size))
        plain = replace(plain, given={**plain.given, "num_labelled": str(size)})
        setup = replace(setup, task=task, fixed_factors=setup.approach.fixed_factors(task, setup.hyperparameters))
    else:
        changed = replace(setup, hyperparameters=Cured(setup.approach, remedy).complete(setup.hyperparameters))
        cured = Cured(setup.approach, remedy, members=cache_folder("members"), context=context_of(changed))
        cured.check_task(setup.task, changed.hyperparameters)
        setup = replace(changed, approach=cured)
    return replace(plain, setup=setup, context_key=context_of(setup), key=key, side=remedy_words(remedy))


def cured_key(plain: GoldenRequest, remedy: Remedy) -> str:
    """Return the key of golden runs with a remedy."""
    return content_key({"cure": text_of(trained(plain, remedy)), "plain": plain.key})


def stored_runs(client: Client, keys: Sequence[str], context: str) -> pd.DataFrame:
    """Return the finished runs with these keys in a context as golden runs, by their place among the keys."""
    runs = finished_cells(client, context)
    cells = cells_of_runs(runs[key] for key in keys if key in runs)
    if cells.empty:
        return cells
    numbers = cells["cell_key"].map({key: at for at, key in enumerate(keys)})
    return cells.assign(phase="golden", factor=None, number=numbers).set_index("number").sort_index()


def member_keys(golden: GoldenRequest) -> tuple[str, list[str]]:
    """Return the context and the keys of the first members of cured golden runs: the runs without the ensemble."""
    cured = golden.setup.approach
    assert isinstance(cured, Cured)
    return cured.context, [cured.member_keys(cured.context, cell.seeds)[0] for cell in golden.cells()]


def _changed_runs(client: Client, plain: GoldenRequest, remedy: Remedy) -> pd.DataFrame:
    """Return the stored golden runs with a remedy; none if the approach cannot have it, as verifying it says."""
    try:
        golden = cured_request(plain, remedy)
    except L3DError:
        return pd.DataFrame()
    return stored_runs(client, [cell.key for cell in golden.cells()], golden.context_key)


def changed_scores(client: Client, gathered: Gathered, plain: GoldenRequest, remedy: Remedy) -> FloatArray:
    """Return the scores of golden runs with a remedy by their number, nan if one has none; shape (runs,)."""
    return _scores(_changed_runs(client, plain, remedy), gathered.metric.name, plain.runs)


def _scores(cells: pd.DataFrame, metric: str, runs: int) -> FloatArray:
    return cells.get(metric, pd.Series(dtype=float)).reindex(range(runs)).to_numpy(dtype=np.float64)


def predict_changed(
    client: Client, gathered: Gathered, golden: GoldenRequest, plain: FloatArray, remedy: Remedy, most_members: int
) -> list[Prediction]:
    """Return what golden runs with other hyperparameters show, and what ensembles of them would do.

    Ensembles are predicted as those of any golden runs; what the change alone does, paired with the `plain` scores,
    comes on top. The first prediction, the change alone, has the reason if others are missing. More labels are alone.
    """
    alone = Prediction(remedy=remedy, basis="unknown")
    metric = gathered.metric
    cells = _changed_runs(client, golden, remedy)
    if cells.empty:
        return [alone]
    scores = _scores(cells, metric.name, len(plain))
    measured = verify(Verified(prediction=alone, run_id="", runs=0), plain, scores, chance=gathered.chance)
    lacking = f"{measured.failed} of {len(plain)} golden runs have no score" if measured.failed else ""
    if measured.runs < FEWEST:
        return [replace(alone, reason=f"unknown, since {lacking}")]
    std, seconds = gathered.spread.times(measured.ratio), float(cells["duration_seconds"].mean())
    members = MemberRows(gathered.members.design, gathered.members.over)
    after: list[Prediction] = []
    unknown = ""
    if remedy.kind in CHANGING:
        classes = read_members(client, cells, members, f"validation_{metric.name}" * (not gathered.chosen_by))
        after, reasons = predicted(members, metric, gathered.classes or classes, std, scores, most_members=most_members)
        unknown = "" if after else f"ensembles of such runs are unknown. {reasons[0].rstrip('.')}"
    reason = "; ".join(filter(None, (lacking, measured.roughness, unknown)))
    alone = replace(alone, basis="exact", std=std, reason=reason)
    found = [replace(alone, ratio=measured.ratio, mean_change=measured.mean_change)]
    for each in after:
        words = f"{remedy_words(each.remedy)}, {remedy.words}"
        both = replace(each.remedy, changes=remedy.changes, trainings=remedy.trainings, words=words)
        ratio, change = measured.ratio.times(each.ratio), measured.mean_change.plus(each.mean_change)
        found.append(replace(each, remedy=both, ratio=ratio, mean_change=change))
    return [replace(each, std_before=gathered.spread.value, seconds=seconds * each.trainings) for each in found]
