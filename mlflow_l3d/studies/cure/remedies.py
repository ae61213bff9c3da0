"""Remedies by other training or data: their golden runs, and what these, other investigations and examples show."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure import CHANGING, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.examples import Point, more_labels, more_tests, other_labels, which_examples
from mlflow_l3d.analysis.importance.tables import known_std, std_interval
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.analysis.judged.table import mean_interval
from mlflow_l3d.approaches.cured import Cured
from mlflow_l3d.approaches.cured.sessions import is_whole_member, write_member
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.cures import text_of
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.studies.cure.gather import Gathered, read_members
from mlflow_l3d.studies.cure.numbers import Verified, verify
from mlflow_l3d.studies.gate.golden import GoldenRequest, numbered_scores
from mlflow_l3d.studies.investigation.remedies import MemberRows, predicted
from mlflow_l3d.studies.request import context_of
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import unused_test_examples
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, finished_cells, search
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier import own_parameter
from mlflow_l3d.tracking.earlier.reader import cells_of_runs, known_document, read_predictions

FEWEST = 5
"""Fewer golden runs than these verify no remedy."""
MOST_KEPT = 10**9
"""Bytes of members that are kept for later commands; one of 1,000 examples and 6 classes has about 40,000."""


def trained(plain: GoldenRequest, remedy: Remedy) -> Remedy:
    """Return what is trained to know a remedy: half as many labels if the task has no more; else the remedy itself."""
    if remedy.kind == "more_data":
        size = int(remedy.changes["num_labelled"])
        try:
            _with_labels(plain.setup.task, size).split(dict.fromkeys(TASK_FACTORS, 0))
        except L3DError:
            return other_labels(size // 2, max(1, size // 4))
    return remedy


def _with_labels(task: Task, num_labelled: int) -> Task:
    return replace(task, settings=replace(task.settings, num_labelled=num_labelled))


def cured_request(plain: GoldenRequest, remedy: Remedy) -> GoldenRequest:
    """Return golden runs with a remedy; with more labels they are plain runs, and have the keys of such.

    Raises
    ------
    ParameterError
        If their approach cannot have this remedy.
    """
    setup = plain.setup
    key = cured_key(plain, remedy)
    remedy = trained(plain, remedy)
    if remedy.kind == "more_data":
        size = int(remedy.changes["num_labelled"])
        task = _with_labels(setup.task, size)
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


def member_keys(golden: GoldenRequest) -> tuple[str, dict[str, list[str]]]:
    """Return the context and the keys of the members of each golden run, by its own key; one without members is one."""
    cured = golden.setup.approach
    if isinstance(cured, Cured) and cured.members is not None and cured.remedy.members > 1:
        return cured.context, {cell.key: cured.member_keys(cured.context, cell.seeds) for cell in golden.cells()}
    return golden.context_key, {cell.key: [cell.key] for cell in golden.cells()}


def fetch_members(client: Client, request: GoldenRequest) -> None:
    """Bring the stored members of cured golden runs, their first ones, to their folder, each once."""
    folder, (context, keys) = cache_folder("members"), member_keys(request)
    first = [key for key, *_ in keys.values()]
    if not (first := sorted({*first} - kept_members(first))):
        return
    cells = stored_runs(client, first, context)
    metrics = list(cells.select_dtypes("float"))  # places and seeds are whole numbers
    rows = cells.to_dict("records")
    for row, (_, table) in zip(rows, read_predictions(client, cells, scores=True, reference=True), strict=True):
        if table is not None:
            values = {str(name): row[name] for name in metrics if math.isfinite(row[name])}
            write_member(folder / f"{row['cell_key']}.parquet", table.to_pandas(), values)


def kept_members(keys: Iterable[str]) -> set[str]:
    """Return which of these members their folder holds whole; the oldest of more than :data:`MOST_KEPT` are removed."""
    folder = cache_folder("members")
    with suppress(FileNotFoundError):  # another process removes them, too
        paths = sorted(folder.glob("*.parquet"), key=os.path.getmtime, reverse=True)
        sizes = np.cumsum([path.stat().st_size for path in paths])
        for path in paths[np.searchsorted(sizes, MOST_KEPT) :]:
            path.unlink()
    return {key for key in keys if is_whole_member(folder / f"{key}.parquet")}


def _changed_runs(client: Client, plain: GoldenRequest, remedy: Remedy) -> pd.DataFrame:
    """Return the stored golden runs with a remedy; none if the approach cannot have it, as verifying it says."""
    try:
        golden = cured_request(plain, remedy)
    except L3DError:
        return pd.DataFrame()
    return stored_runs(client, [cell.key for cell in golden.cells()], golden.context_key)


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
    scores = numbered_scores(cells, metric.name, len(plain))
    measured = verify(Verified(prediction=alone, run_id="", runs=0), plain, scores, chance=gathered.chance)
    lacking = f"{measured.failed} of {len(plain)} golden runs have no score" if measured.failed else ""
    if measured.runs < FEWEST:
        return [replace(alone, reason=f"unknown, since {lacking}")]
    std = gathered.spread.times(measured.ratio)
    seconds = float(cells["duration_seconds"].mean())
    members = MemberRows(gathered.members.design, gathered.members.over)
    after: list[Prediction] = []
    unknown = ""
    if remedy.kind in CHANGING:
        classes = read_members(client, cells, members, "" if gathered.chosen_by else f"validation_{metric.name}")
        after, reasons = predicted(members, metric, gathered.classes or classes, std, scores, most_members=most_members)
        unknown = "" if after else f"ensembles of such runs are unknown. {reasons[0].rstrip('.')}"
    reason = "; ".join(filter(None, (lacking, measured.roughness, unknown)))
    alone = replace(alone, basis="exact", std=std, reason=reason)
    found = [replace(alone, ratio=measured.ratio, mean_change=measured.mean_change)]
    for each in after:
        words = f"{remedy_words(each.remedy)}, {remedy.words}"
        both = replace(each.remedy, changes=remedy.changes, trainings=remedy.trainings, words=words)
        ratio = measured.ratio.times(each.ratio)
        change = measured.mean_change.plus(each.mean_change)
        found.append(replace(each, remedy=both, ratio=ratio, mean_change=change))
    return [replace(each, std_before=gathered.spread.value, seconds=seconds * each.trainings) for each in found]


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
    remedy = other_labels(now, 2 * now)
    by_size = _scores_by_size(client, gathered)
    why = f"unknown from one size. A second one shows it: mlflow-l3d investigate ... --num-labelled {2 * now}"
    reason = ""
    if golden is not None:
        size = int(trained(golden, remedy).changes["num_labelled"])
        runs = f"golden runs with {size:,} labels" + (f" (the data have no {2 * now:,})" if size < now else "")
        why = f"unknown until verified by {runs}"
        (found,) = predict_changed(client, gathered, golden, plain, remedy, 0)
        if found.basis == "exact" and size > now:
            yield replace(found, reason="; ".join(filter(None, (f"measured by {runs}", found.reason))))
            return
        if found.basis == "exact" and size not in by_size:
            cells = _changed_runs(client, golden, remedy)
            by_size[size] = numbered_scores(cells, gathered.metric.name, golden.runs)
            reason = f"a line through {runs}"
    line = more_labels([*_points(by_size)], now=now, size=2 * now, unknown=why)
    yield line if line.reason else replace(line, reason=reason)


def data_remedies(gathered: Gathered, task: Task | None) -> Iterator[Prediction]:
    """Yield what more test examples and the best training examples would do; those that are unknown say why.

    `task` is None if the data are not here, so that nobody knows which examples a run trained on.
    """
    members = gathered.members
    if (test_size := members.test_size) and gathered.spread.value > 0 and members.draw_tests:
        luck = members.luck_of_tests(gathered.metric, gathered.classes)
        made = more_tests(gathered.spread, luck=luck, now=test_size, size=2 * test_size)
        unused = unused_test_examples(task) if task is not None else None
        lacking = f" (the data have no {2 * test_size:,})" if unused is not None and unused < test_size else ""
        yield replace(made, remedy=replace(made.remedy, words=made.remedy.words + lacking))
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
    documents = {size: known_document(client, run_id, names.IMPORTANCE) for size, run_id in by_size.items()}
    return {size: np.array(each.get("golden", ()), dtype=np.float64) for size, each in documents.items()}


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
    values = scores.to_numpy(dtype=np.float64)
    return which_examples(
        included[:, used], values, factor="label_selection", groups=groups, metric=gathered.metric
    ).prediction
