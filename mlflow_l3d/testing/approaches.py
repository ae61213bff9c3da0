"""Checks of the contract of :mod:`mlflow_l3d.approaches.base`, callbacks after epochs included."""

from __future__ import annotations

import json
import math
import pickle
import random
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from mlflow_l3d.approaches.base import Approach, Session, defect, resolve_hyperparameters
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import seeded
from mlflow_l3d.execution.sessions import cells_at_once, session_of
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.testing.cells import changed, differences, one_cell, require, run_cells


def check_callbacks(session: Session, cell: Cell, job: Job, silent: Outcome) -> None:
    """Check that a callback gets every epoch, changes nothing, and can end the training; it trains two cells.

    A session without ``reports_epochs`` is skipped. The end of the training is checked only after two or more epochs.

    Parameters
    ----------
    session
        Prepared for `job`.
    cell, silent
        A cell, and its outcome without a callback.
    job
        The job of the session.

    Raises
    ------
    AssertionError
        With one sentence that names the broken rule.
    """
    if not session.reports_epochs:
        return
    require(session.on_epoch_end is None, "on_epoch_end of a session must be None until someone sets it")
    epochs: list[int] = []

    def listen(key: str, epoch: int, scores: Mapping[str, float], *, end: bool = False) -> bool:
        require(key == cell.key, f"on_epoch_end is called with the key {key!r}, which no cell of the call has")
        require(epoch == len(epochs), f"on_epoch_end is called with epoch {epoch}, and epoch {len(epochs)} comes next")
        named = bool(scores) and all(name.startswith("validation_") for name in scores)
        require(named, f"on_epoch_end must be given scores named validation_..., it is given {sorted(scores)}")
        finite = all(isinstance(score, float) and math.isfinite(score) for score in scores.values())
        require(finite, f"on_epoch_end must be given finite numbers, it is given {dict(scores)}")
        epochs.append(epoch)
        return end

    try:
        session.on_epoch_end = listen
        changes = differences(silent, run_cells(session, [cell], job)[cell.key])
        require(not changes, f"a cell gives other {', '.join(changes)} if on_epoch_end is set")
        if len(epochs) > 1:
            epochs.clear()
            session.on_epoch_end = lambda key, epoch, scores: listen(key, epoch, scores, end=True)
            run_cells(session, [cell], job)
            require(len(epochs) == 1, f"on_epoch_end ends the training, which continues to epoch {len(epochs) - 1}")
    finally:
        session.on_epoch_end = None


def check_reference(job: Job, cell: Cell, alone: Outcome, tolerance: float) -> None:
    """Check that test examples are predicted as before if a reference set is predicted, too; it trains one cell.

    Parameters
    ----------
    job, cell, alone
        The job of a task without a reference set, a cell, and its outcome. Training examples stand for the set.
    tolerance
        See :func:`check_approach`; predicted numbers may differ by 1e-5 in any case, because batches are others.

    Raises
    ------
    AssertionError
        With one sentence that names the broken rule.
    """
    task = job.task
    if alone.predictions is None or task.settings.reference_size:
        return
    reference = task.split(seeded(cell, job).seeds).train[:5]

    class WithReference(type(task)):  # type: ignore[misc]
        def split(self, seeds: Mapping[str, int]) -> Split:
            split = task.split(seeds)
            return replace(split, test=np.concatenate([split.test, reference]), reference=reference)

    settings = replace(task.settings, reference_size=len(reference))
    values = {each.name: getattr(task, each.name) for each in fields(task)}
    job = replace(job, task=WithReference(**{**values, "settings": settings}))
    with session_of(job) as session:
        more = run_cells(session, [cell], job)[cell.key]
    assert more.example_ids is not None
    assert more.predictions is not None
    place = {example: at for at, example in enumerate(more.example_ids.tolist())}
    again = more.predictions[[place[example] for example in np.asarray(alone.example_ids).tolist()]]
    close = 1e-5 + tolerance if again.dtype.kind == "f" else 0.0
    same = np.allclose(again, alone.predictions, close, close) if close else np.array_equal(again, alone.predictions)
    require(same, "a cell gives other predictions of its test examples if a reference set is predicted, too")


def check_approach(
    approach: Approach,
    task: Task,
    *,
    hyperparameters: Mapping[str, Any] | None = None,
    cache: Path,
    model: str | None = None,
    device: str = "cpu",
    configurations: int = 2,
    tolerance: float = 0.0,
) -> None:
    """Check that an approach keeps its contract; it trains ``2 * (factors * configurations + 2) + 2`` cells.

    If its sessions run many cells at once, it trains half as many again, and if they report epochs, two more.

    Checked are its attributes and declarations; that it survives pickling; that a cell gives the same predictions,
    scores and metrics again, in another session, in another order, among other cells of one call, in calls of up to
    ``cells_at_once`` cells, from an approach that was pickled, and with any state of global generators; that seeds
    which it does not declare are neither needed nor used; that each factor has an effect and each inactive factor none;
    that a reference set changes no prediction of a test example; that its outcomes are valid; and, if its sessions have
    ``reports_epochs``, that ``on_epoch_end`` is called after every epoch, changes nothing, and ends the training by its
    answer.

    Parameters
    ----------
    approach
        The approach.
    task
        A small task: every example is used several times.
    hyperparameters
        Hyperparameters that differ from their defaults.
    cache
        A folder for the approach's cache.
    model
        The approach's default if None.
    device
        The device of the sessions.
    configurations
        How many other configurations of a factor are tried to see an effect; raise it if a factor rarely changes a
        prediction.
    tolerance
        How much scores, metrics and predicted numbers of a cell may differ, absolutely and relatively, between a call
        of its own and one with others, for an approach whose sessions have ``cells_at_once``. Other predictions may
        not.

    Raises
    ------
    AssertionError
        With one sentence that names the broken rule.
    """
    check_declarations(approach)
    complete = approach.complete(resolve_hyperparameters(approach, hyperparameters or {}))
    chosen = approach.default_model if model is None else model
    from mlflow_l3d.tasks.resolve import inactive_factors

    of_task = inactive_factors(task)
    inactive = _check_descriptions(approach, task, complete, chosen, device)
    job = Job(approach, task, complete, chosen, device, cache)
    base = one_cell(approach.factors)
    tries = {factor: 1 if factor in inactive else configurations for factor in approach.factors}
    variants = {
        factor: [changed(base, factor, number) for number in range(1, 1 + tried)] for factor, tried in tries.items()
    }
    cells = [base, changed(base, "a_stranger's_factor", 1), *(cell for some in variants.values() for cell in some)]
    with session_of(job) as session:
        first = {cell.key: _one(session, cell, job) for cell in cells}
        _require_same(first[base.key], _one(session, base, job), "the same cell again in the same session")
    pickled = replace(job, approach=pickle.loads(cloudpickle.dumps(approach)))  # noqa: S301 - made here
    _disturb_global_generators()
    with session_of(pickled) as session:
        at_once = cells_at_once(session, job)
        second = run_cells(session, cells[::-1], job)
        # Calls as executors make them: full ones, and a rest.
        calls = [cells[start : start + at_once] for start in range(0, len(cells), at_once)] if at_once > 1 else []
        third = {key: outcome for call in calls for key, outcome in run_cells(session, call, job).items()}
        check_callbacks(session, base, job, first[base.key])
    check_reference(job, base, first[base.key], tolerance)
    allowed = tolerance if at_once > 1 else 0.0
    elsewhere = "in another session, in another order and with other global generators, among other cells"
    for when, again in ((elsewhere, second), (f"in a call of up to cells_at_once={at_once} cells", third)):
        for key, outcome in again.items():
            _require_same(first[key], outcome, when, allowed)
    _require_same(first[base.key], first[cells[1].key], "with a seed that the approach does not declare")
    for factor, some in variants.items():
        effects = {part for cell in some for part in differences(first[base.key], first[cell.key])}
        if factor in inactive:
            require(not effects, f"factor {factor} is said to be inactive, and changes {', '.join(sorted(effects))}")
        elif factor not in of_task:
            tried = f"{len(some)} other configuration(s)"
            require(bool(effects), f"factor {factor} has no effect in {tried}; declare it in inactive_factors")


def check_declarations(approach: Approach) -> None:
    """Check the attributes of an approach, and that it survives pickling; nothing is trained."""
    wrong = defect(approach)
    require(not wrong, f"{type(approach).__name__} is not an approach: {wrong}")
    for name in ("name", "version", "default_model", "default_task"):
        value = getattr(approach, name)
        require(isinstance(value, str), f"{name} must be a text, empty for none; it is {value!r}")
    factors = approach.factors
    require(isinstance(factors, tuple), f"factors must be a tuple, it is a {type(factors).__name__}")
    require(len(set(factors)) == len(factors), f"factors must name each factor once: {factors}")
    missing = [factor for factor in TASK_FACTORS if factor not in factors]
    require(not missing, f"factors must contain those of the task, {', '.join(missing)} is missing")
    for name, declaration in approach.hyperparameters.items():
        require(isinstance(declaration, Hyperparameter), f"hyperparameter {name} must be a Hyperparameter")
        default = declaration.default
        try:
            same = declaration.parse(name, default) == default == declaration.parse(name, str(default))
        except ParameterError as error:
            raise AssertionError(f"the default of hyperparameter {name} is not allowed: {error}") from error
        require(same, f"hyperparameter {name}: its default {default!s} is read as something else")
    try:
        copy = pickle.loads(cloudpickle.dumps(approach))  # noqa: S301 - made here
    except Exception as error:
        raise AssertionError(f"the approach does not survive pickling: {error}") from error
    require(copy.name == approach.name, "the name of the approach does not survive pickling")


def _check_descriptions(
    approach: Approach, task: Task, hyperparameters: Mapping[str, Value], model: str, device: str
) -> Mapping[str, str]:
    inactive = approach.inactive_on(task, hyperparameters)
    unknown = sorted(set(inactive) - set(approach.factors))
    require(not unknown, f"inactive_factors names factors that the approach does not have: {', '.join(unknown)}")
    for factor, reason in inactive.items():
        require(bool(reason), f"inactive_factors must give a reason and the fix for {factor}")
    revision = approach.model_revision(model)
    require(isinstance(revision, str) and bool(revision), "model_revision must return a text that is not empty")
    require(approach.model_revision(model) == revision, "model_revision returns another text each time")
    numerics = dict(approach.numerics(device))
    texts = all(isinstance(part, str) for pair in numerics.items() for part in pair)
    require(texts, f"numerics must map texts to texts, it returns {numerics}")
    require(json.loads(json.dumps(numerics)) == dict(approach.numerics(device)), "numerics must always be the same")
    return inactive


def _one(session: Session, cell: Cell, job: Job) -> Outcome:
    return run_cells(session, [cell], job)[cell.key]


def _require_same(left: Outcome, right: Outcome, when: str, tolerance: float = 0.0) -> None:
    changes = differences(left, right, tolerance)
    require(not changes, f"a cell gives other {', '.join(changes)} {when}")


def _disturb_global_generators() -> None:
    random.seed(20240817)
    np.random.seed(20240817)  # noqa: NPY002 - to show that nobody uses it
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(20240817)
