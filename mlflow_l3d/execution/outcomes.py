"""Cells in one session: every executor runs cells through here, so that all give the same outcomes."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.failures import check_device, failed, one_line
from mlflow_l3d.cells.cell import Cell, Outcome, half, trainings, whole
from mlflow_l3d.cells.factors import REPLICATE, TEST_SAMPLE, configuration_seed
from mlflow_l3d.errors import L3DError, logger
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.sessions import job_of
from mlflow_l3d.execution.workers import halves
from mlflow_l3d.metrics.known import scores_of
from mlflow_l3d.privacy import public_text
from mlflow_l3d.tasks.base import Task


def run_cells(session: Session, cells: Sequence[Cell], job: Job) -> Iterator[Outcome]:
    """Run cells in one call of the session; yield exactly one outcome for each, as soon as it is known.

    Cells that have no outcome when the call is over, because it raised or left them out, are tried again in calls of
    half as many, so that a cell which spoils its call is in the end alone, and only that one fails. An outcome of no
    cell, or a second one, is dropped. Cells that differ in their test examples alone are trained once.

    Parameters
    ----------
    session
        A prepared session of `job`; it stays in use after an error.
    cells
        As many as the session takes at once.
    job
        Names the approach and the classes.

    Raises
    ------
    LostDeviceError
        If the accelerator takes no more work from this process; the cells without an outcome need another one.
    """
    if not any(TEST_SAMPLE in cell.seeds for cell in cells):
        yield from _run_cells(session, cells, job)
        return
    groups = {group[0].key: group for group in trainings(cells)}
    with closing(_run_cells(session, [whole(group[0]) for group in groups.values()], job)) as outcomes:
        for outcome in outcomes:
            group = groups[outcome.key]
            for cell in group:
                yield _of_sample(outcome, cell, job, len(group)) if TEST_SAMPLE in cell.seeds else outcome


def _of_sample(outcome: Outcome, cell: Cell, job: Job, cells: int) -> Outcome:
    """Return the outcome of a cell on its half of the test examples; the time of the training is shared out."""
    shared = outcome.duration_seconds / cells
    if outcome.error is not None:
        return replace(outcome, key=cell.key, duration_seconds=shared)
    try:
        return replace(finished(half(outcome, cell), cell, job), duration_seconds=shared)
    except Exception as error:  # noqa: BLE001
        return failed(cell.key, error, shared)


def _run_cells(session: Session, cells: Sequence[Cell], job: Job) -> Generator[Outcome, None, None]:
    """Run cells that are trained each by itself; see :func:`run_cells`."""
    untried = {cell.key: cell for cell in cells}
    if len(cells) <= 1 or len(untried) < len(cells):
        yield from (run_cell(session, single, job) for single in cells)
        return
    started = time.perf_counter()
    strays, why = 0, "it left them out"
    # Closed at once if the caller stops: a generator is closed before its session is.
    with closing(_given(session, [seeded(cell, job) for cell in cells])) as outcomes:
        for outcome in outcomes:
            key = getattr(outcome, "key", None)
            if isinstance(outcome, BaseException):
                why = one_line(outcome)
            elif isinstance(key, str) and key in untried:
                yield _checked(outcome, untried.pop(key), job, (time.perf_counter() - started) / len(cells))
            else:
                strays += 1
    call = f"approach {job.approach.name}, a call of {len(cells)} cells"
    if strays:
        logger.warning("%s: %d outcomes of no cell, or second ones, are dropped", call, strays)
    if untried:
        logger.warning("%s: %d without an outcome are tried again in smaller calls (%s)", call, len(untried), why)
    for part in halves(list(untried.values())):
        yield from _run_cells(session, part, job)


def _given(session: Session, cells: Sequence[Cell]) -> Generator[Outcome | BaseException, None, None]:
    """Yield what a session gives, and what it raises; what is thrown in where an outcome is used is the caller's."""
    try:
        yield from session.run(cells)
    # SystemExit, too: a library that gives up must not take the worker with it.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        check_device(error)
        yield error


def _checked(outcome: Outcome, cell: Cell, job: Job, seconds: float) -> Outcome:
    """Return a valid outcome, or the one that says why it is not; `seconds` is its duration if it has none."""
    try:
        outcome = finished(outcome, cell, job)
    except Exception as error:  # noqa: BLE001
        return failed(cell.key, error, seconds)
    return outcome if outcome.duration_seconds > 0 else replace(outcome, duration_seconds=seconds)


def run_cell(session: Session, cell: Cell, job: Job) -> Outcome:
    """Run one cell; whatever goes wrong in the approach becomes an outcome with `error`.

    Parameters
    ----------
    session
        A prepared session of `job`; it stays in use after an error.
    cell
        The cell.
    job
        Names the approach and the classes.

    Raises
    ------
    LostDeviceError
        As :func:`run_cells`.
    """
    started = time.perf_counter()
    try:
        outcomes = list(session.run([seeded(cell, job)]))
        if len(outcomes) != 1:
            raise L3DError(f"approach {job.approach.name} returned {len(outcomes)} outcomes for one cell.")
    # SystemExit, too: a library that gives up must not take the worker with it.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return failed(cell.key, error, time.perf_counter() - started)
    return _checked(outcomes[0], cell, job, time.perf_counter() - started)


def seeded(cell: Cell, job: Job) -> Cell:
    """Return the cell with a seed for every factor of the approach: a fixed one for those that have no effect here.

    A design leaves such factors out, so they are no part of a cell's key. That of `replicate` must have no effect.
    """
    factors = job_of(cell, job).approach.factors
    missing = {name: configuration_seed(0, name, 0) for name in factors if name not in cell.seeds}
    if not missing and REPLICATE not in cell.seeds:
        return cell
    return replace(cell, seeds={name: seed for name, seed in {**cell.seeds, **missing}.items() if name != REPLICATE})


def finished(outcome: Outcome, cell: Cell, job: Job) -> Outcome:
    """Check what an approach returned for `cell`, and add the metrics that every approach has.

    Metrics of the task's kind (:func:`mlflow_l3d.metrics.known.scores_of`) are computed from labels and predictions,
    if there are any, for all approaches in the same way; metrics of other names stay as the approach gave them.
    Predictions of the reference set are marked, and no metric is computed from them.
    Arrays and numbers come back as plain numpy and Python types.

    Raises
    ------
    L3DError
        If the outcome is not what :class:`mlflow_l3d.cells.cell.Outcome` says; it names the approach.
    """
    job = job_of(cell, job)
    try:
        return _finished(outcome, cell, job)
    except (TypeError, ValueError, OverflowError) as error:
        raise L3DError(f"approach {job.approach.name} returned an outcome that is not valid: {error}.") from error


def _finished(outcome: Outcome, cell: Cell, job: Job) -> Outcome:
    if not isinstance(outcome, Outcome):
        raise ValueError(
            f"it is a {type(outcome).__name__}. Return an Outcome, as of mlflow_l3d.approaches.base.answered"
        )
    if outcome.key != cell.key:
        raise ValueError(f"its key is {outcome.key!r} and the cell's is {cell.key!r}")
    duration = _number("duration_seconds", outcome.duration_seconds)
    if outcome.error is not None:
        error = public_text(" ".join(str(outcome.error).split()))
        traceback = None if outcome.traceback is None else public_text(str(outcome.traceback))
        return Outcome(cell.key, duration_seconds=duration, error=error, traceback=traceback)
    metrics = {str(name): _number(f"metric {name}", value) for name, value in outcome.metrics.items()}
    curves = {str(name): tuple(float(value) for value in values) for name, values in outcome.curves.items()}
    whole = replace(outcome, metrics=metrics, curves=curves, duration_seconds=duration)
    parts = outcome.predictions, outcome.labels, outcome.example_ids
    if any(part is None for part in parts):
        if any(part is not None for part in (*parts, outcome.scores)):
            raise ValueError("predictions, their labels and their example_ids come together, and scores with them")
        if not metrics:
            raise ValueError("it has neither predictions nor metrics")
        if len(job.task.reference_ids):
            raise ValueError("it has no predictions, without which a reference set is of no use: use reference_size=0")
        return whole
    whole = _with_predictions(whole, job)
    if job.approach.self_tested and len(job.task) and TEST_SAMPLE not in cell.seeds:
        _check_examples(whole, job.task, seeded(cell, job).seeds)
    return whole


def _check_examples(outcome: Outcome, task: Task, seeds: Mapping[str, int]) -> None:
    """Raise ValueError unless an outcome has the test examples of its cell, with their labels and no nan as score."""
    ids, labels, predictions = map(np.asarray, (outcome.example_ids, outcome.labels, outcome.predictions))
    test = task.split(seeds).test
    test, places = test[np.argsort(task.example_ids[test])], np.argsort(ids)
    if not np.array_equal(ids[places], task.example_ids[test]):
        raise ValueError(
            f"its {len(ids)} examples are not the {len(test)} of split.test. Predict these, each once, "
            "and return task.example_ids[split.test] as example_ids"
        )
    equal = np.allclose if task.form.has_numbers else np.array_equal
    if not equal(labels[places], task.labels[test]):
        raise ValueError(
            "its labels are not those of its example_ids. Return task.labels[split.test], and predictions in this order"
        )
    if outcome.scores is not None and np.isnan(outcome.scores[predictions >= 0]).any():
        raise ValueError("its scores are nan where it predicts a class. Return numbers, or scores=None")


def _with_predictions(outcome: Outcome, job: Job) -> Outcome:
    task, classes = job.task, len(job.task.class_names)
    predictions = _answers("predictions", outcome.predictions, -1, task)
    labels = _answers("labels", outcome.labels, 0, task)
    ids = _ids(outcome.example_ids)
    if not len(predictions) == len(labels) == len(ids):
        raise ValueError(f"it has {len(ids)} example_ids, {len(labels)} labels and {len(predictions)} predictions")
    if not len(ids):
        raise ValueError("it has no example")
    scores = outcome.scores
    if scores is not None:
        scores = np.asarray(scores)
        if not task.form.has_classes:
            raise ValueError(f"it has class scores, and the task is a {task.kind}")
        if scores.shape != (len(ids), classes) or scores.dtype.kind not in "fiu":
            wanted = f"not numbers of shape ({len(ids)}, {classes})"
            raise ValueError(f"scores have shape {scores.shape} and type {scores.dtype}, {wanted}")
        scores = scores.astype(np.float32, copy=False)
    reference = np.isin(ids, task.reference_ids) if len(task.reference_ids) else None
    if reference is not None and (reference.all() or not reference.any()):
        raise ValueError(f"it has no prediction of {'a test example' if reference.any() else 'the reference set'}")
    tested = slice(None) if reference is None else ~reference
    told_apart, own = job.approach.classes(task, job.hyperparameters), job.approach.metrics
    computed = scores_of(labels[tested], predictions[tested], task.kind, classes=told_apart, own=own)
    outcome = replace(outcome, metrics={**outcome.metrics, **computed}, reference=reference)
    return replace(outcome, example_ids=ids, labels=labels, predictions=predictions, scores=scores)


def _column(name: str, array: npt.NDArray[Any], kinds: str, what: str) -> npt.NDArray[Any]:
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise ValueError(f"{name} have shape {array.shape} and type {array.dtype}, not {what} of shape (n,)")
    return array


def _answers(name: str, values: Any, lowest: int, task: Task) -> npt.NDArray[Any]:
    """Return classes, of which `lowest` is the first that is allowed, as int64, and all else as its form holds it."""
    if not task.form.has_classes:
        return task.form.labels(values) if name == "labels" else task.form.predictions(values)
    numbers = _column(name, np.asarray(values), "iu", "integers")
    classes = len(task.class_names)
    if len(numbers) and not lowest <= int(numbers.min()) <= int(numbers.max()) < classes:
        raise ValueError(f"{name} go from {numbers.min()} to {numbers.max()}, allowed is {lowest} to {classes - 1}")
    return numbers.astype(np.int64, copy=False)


def _ids(values: Any) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.tolist()):
        array = array.astype(np.str_)
    _column("example_ids", array, "iuU", "integers or texts")
    if len(np.unique(array)) < len(array):
        raise ValueError("example_ids are not unique")
    return array if array.dtype.kind == "U" else array.astype(np.int64, copy=False)


def _number(name: str, value: Any) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{name} is {number}")
    return number
