"""Bring your own function: it trains and predicts, the platform does the rest."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import Approach, CellwiseSession, Session, answered
from mlflow_l3d.approaches.command.scores import Printed, unscaled
from mlflow_l3d.approaches.command.written import warn_once
from mlflow_l3d.approaches.functions.versions import BySource, OwnChanges, content_texts, own_mlflow
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import Cell, Outcome, content_key
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.metrics.base import Score
from mlflow_l3d.metrics.forms import check_tags
from mlflow_l3d.metrics.known import registered
from mlflow_l3d.tasks.base import KINDS, Task, TaskKind
from mlflow_l3d.tasks.identity import own_data
from mlflow_l3d.tasks.settings import IntArray, Split

Function: TypeAlias = abc.Callable[[Task, Split, Mapping[str, int], Mapping[str, Value]], npt.ArrayLike | Sequence[Any]]
"""``function(task, split, seeds, hyperparameters)`` -> class numbers of shape (n,), -1 for none, class names, or class
scores of shape (n, classes), for the n examples of ``split.test`` in that order, of which those of a reference set
come last (an example's prediction should not depend on which others are there); of two classes also logits of the
second, shape (n, 1). It may be a tensor. A number, or a mapping of names to numbers, is scores in the place of
predictions. Of a multiple-choice task the choices are the classes; of a regression it returns finite numbers of shape
(n,), of a generation n texts, of tagging n lists of tags, of a ranking n lists of ids, best first."""


class FunctionApproach(BySource, Approach):
    """An approach made of one function.

    A subclass overrides what else matters, such as ``numerics`` if other libraries decide the numbers.

    Parameters
    ----------
    function
        See :data:`Function`. It draws random numbers from the seeds that it gets, and from nothing else. It may be a
        function of a script or notebook: worker processes get a copy, with the globals that it names as they are when
        the work begins.
    name
        Name of the approach.
    version
        Changed whenever the same cell would give other predictions.
    factors
        Randomness factors whose seeds the function uses. The task's own (``label_selection``, ``data_split``) decide
        the split and are added if they are missing.
    hyperparameters
        Name -> default, or a whole declaration; none by default.
    default_task
        Task if the user names none.
    task_kinds
        Kinds of tasks that the function takes.
    metrics
        Names of the numbers that it returns in the place of predictions, the investigated one first. Without a
        `default_task` it has data of its own: no task is given, and no factor of one is added.

    Raises
    ------
    ParameterError
        If the function cannot be called, `name` or `version` is empty, a factor stands twice, or a kind is unknown.

    Examples
    --------
    >>> import mlflow_l3d
    >>> from mlflow_l3d.cells.factors import stream
    >>> def guess(task, split, seeds, hyperparameters):
    ...     generator = stream(seeds["model_randomness"], "guess")
    ...     return generator.integers(len(task.class_names), size=len(split.test))
    >>> approach = mlflow_l3d.FunctionApproach(guess, name="guess", version="1", factors=["model_randomness"])
    >>> run = mlflow_l3d.seeds("synthetic", approach=approach, seeds=[1, 2, 3], executor="inline")
    >>> run.study.scores["accuracy"].round(2).tolist()
    [0.49, 0.48, 0.48]
    """

    scorer: Score | None = None
    _scorer_key = ""

    def __init__(
        self,
        function: Function,
        *,
        name: str,
        version: str,
        factors: Iterable[str],
        hyperparameters: Mapping[str, Hyperparameter | Value] | None = None,
        default_task: str = "",
        task_kinds: Iterable[TaskKind] = ("classification",),
        metrics: Iterable[str] = (),
    ) -> None:
        named_factors = (factors,) if isinstance(factors, str) else tuple(factors)
        kinds: tuple[str, ...] = (task_kinds,) if isinstance(task_kinds, str) else tuple(task_kinds)
        if not callable(function):
            raise ParameterError("function", type(function).__name__, "must be callable")
        for parameter, text in (("name", name), ("version", version)):
            if not isinstance(text, str) or not text:
                raise ParameterError(parameter, repr(text), "must be a text that is not empty")
        if len(set(named_factors)) < len(named_factors):
            raise ParameterError("factors", ",".join(named_factors), "must name each factor once")
        for kind in kinds or ("",):
            if kind not in KINDS:
                raise unknown_name("task_kinds", kind, KINDS)
        self.function, self.name, self.version = function, name, version
        self.metrics = (metrics,) if isinstance(metrics, str) else tuple(metrics)
        self.brings_data = bool(self.metrics) and not default_task
        of_task = () if self.brings_data else tuple(factor for factor in TASK_FACTORS if factor not in named_factors)
        self.factors: tuple[str, ...] = (*of_task, *named_factors)
        self.hyperparameters: Mapping[str, Hyperparameter] = {
            key: value if isinstance(value, Hyperparameter) else Hyperparameter(value, key.replace("_", " "))
            for key, value in (hyperparameters or {}).items()
        }
        self.default_task, self.task_kinds = default_task, kinds

    def scored_by(self, metric: Score) -> FunctionApproach:
        """Return a copy whose cells also have the score that a function gives, under its name.

        Its content is part of their keys.

        Raises
        ------
        ParameterError
            If one of ours has the name, or its content is not known.
        """
        name = getattr(metric, "__name__", "")
        if not name.isidentifier() or name in registered():
            raise ParameterError("metric", repr(name), "is the name of the function", "Use one that no metric has.")
        scored = copy(self)
        key = content_key(content_texts(metric, name))
        vars(scored).update({**vars(self), "scorer": metric, "metrics": (*self.metrics, name), "_scorer_key": key})
        return scored

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return also the hash of a metric that is a function."""
        return {**super().numerics(device), **({"metric": self._scorer_key} if self._scorer_key else {})}

    def own_task(self, hyperparameters: Mapping[str, Value], cache: Path) -> Task:
        """Return a task without an example."""
        return own_data(self.name, ())

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return a session that calls the function once a cell."""
        return CallableSession(self, task, dict(hyperparameters), self.own_changes())


@dataclass(frozen=True)
class CallableSession(CellwiseSession):
    """Calls the function for one cell after the other."""

    approach: FunctionApproach
    task: Task
    hyperparameters: Mapping[str, Value]
    changes: OwnChanges

    def close(self) -> None:
        """Let what the runs changed be no other version."""
        self.changes.note()

    def run_cell(self, cell: Cell) -> Outcome:
        """Call the function for a cell."""
        task, name = self.task, self.approach.name
        split = task.split(cell.seeds)
        split.test.flags.writeable = False  # predictions are in its order
        seeds = {factor: cell.seeds[factor] for factor in self.approach.factors}
        try:
            with own_mlflow():
                returned: Any = self.approach.function(task, split, seeds, dict(self.hyperparameters))
        except L3DError:
            raise
        except Exception as error:
            raise L3DError(f"{type(error).__name__}: {error} ({_given(task, split)})") from error
        if isinstance(returned, int | float | np.number):
            returned = {next(iter(self.approach.metrics), "score"): float(returned)}
        numbers = returned if isinstance(returned, Mapping) else {}
        if unknown := [each for each in numbers if each not in {*registered(), *self.approach.metrics}]:
            fix = f"declare them where the approach is made, metrics={unknown}"
            raise L3DError(f"the function of approach {name} returned numbers of its own: {fix}")
        try:
            if isinstance(returned, Mapping):
                metrics = {each: unscaled(each, Printed(float(value)), None) for each, value in returned.items()}
                return Outcome(cell.key, metrics=metrics)
            predictions, scores = _interpret(returned, split.test, task)
        except (TypeError, ValueError) as error:
            raise L3DError(f"the function of approach {name} returned {error}") from None
        outcome = answered(cell.key, task, split.test, predictions, scores)
        if (scorer := self.approach.scorer) is None:
            return outcome
        score = scorer(task.labels[split.scored], predictions[: len(split.scored)])
        return replace(outcome, metrics={self.approach.metrics[-1]: float(score)})


def _given(task: Task, split: Split) -> str:
    """Return what a function was given, for one who wrote it for something else."""
    parts = ", ".join(f"split.{name}: {len(getattr(split, name)):,}" for name in ("train", "validation", "test"))
    columns = "1 column" if len(task.texts) == 1 else f"{len(task.texts)} columns"
    held = f"{columns} of {len(task.labels):,} texts, task.texts[0][i] being a text; positions in it"
    return f"the function was given task.texts, {held}: {parts}"


def _interpret(
    returned: Any, positions: IntArray, task: Task
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32] | None]:
    """Return predictions of the examples at some positions and, if there are any, class scores.

    Raises
    ------
    ValueError
        If shape, type or values are not those of :data:`Function`; it says which were returned.
    """
    examples = len(positions)
    if hasattr(returned, "detach"):  # a tensor, of any number type and device
        returned = returned.detach().cpu()
        returned = (returned.double() if returned.is_floating_point() else returned).numpy()
    if not task.form.has_classes:
        flat = returned[:, 0] if isinstance(returned, np.ndarray) and returned.shape[1:] == (1,) else returned
        expected = f"a {task.kind} needs {examples} {task.form.words}, one a test example"
        try:
            predictions = task.form.predictions(flat)
        except (TypeError, ValueError) as error:
            raise ValueError(f"something else ({error}); {expected}") from None
        if len(predictions) != examples:
            raise ValueError(f"{len(predictions)} predictions; {expected}")
        if task.form.has_tags:
            check_tags(task.labels[positions], predictions)
        return predictions, None
    classes = len(task.class_names)
    expected = f"it must return class numbers of shape ({examples},) or class scores of shape ({examples}, {classes})"
    expected += ", one a test example"
    try:
        array = np.asarray(returned)
    except ValueError:
        raise ValueError(f"rows of unequal length; {expected}") from None
    if array.shape == (examples, 1):
        if array.dtype.kind != "f" or classes != 2:
            array = array[:, 0]
        elif ((array >= 0) & (array <= 1)).all():
            either = "numbers from 0 to 1 of shape (n, 1), which may be logits or probabilities"
            raise ValueError(f"{either}; return two columns or classes")
        else:
            array = np.column_stack([-array, array])
    if array.dtype.kind == "U" and array.ndim == 1:
        if unknown := {*array.tolist()} - {*task.class_names}:
            raise ValueError(f"the class {min(unknown)!r}; class names are {', '.join(task.class_names)}")
        array = np.array([task.class_names.index(each) for each in array.tolist()], dtype=np.int64)
    if array.shape not in {(examples,), (examples, classes)}:
        raise ValueError(f"{f'shape {array.shape}' if array.ndim else type(returned).__name__}; {expected}")
    if array.ndim == 2:
        is_number = array.dtype.kind in "fiu"
        if not is_number or np.isnan(array).any() or not np.isfinite(array).any(axis=1).all():
            raise ValueError(f"class scores that are not numbers, or all infinite ({array.dtype})")
        return array.argmax(axis=1).astype(np.int64), array.astype(np.float32)
    if array.dtype.kind not in "iu":
        raise ValueError(f"predictions of type {array.dtype}; class numbers are integers")
    found = {*array.tolist()}
    named = {each for each in found if str(each) in task.class_names}
    is_open = named == found and any(task.class_names.index(str(each)) != each for each in found)
    if is_open or not found <= {*range(-1, classes)}:
        allowed = f"class numbers go from 0 to {classes - 1}, and -1 is none"
        if all(name.removeprefix("-").isdigit() for name in task.class_names):
            allowed += (
                "; of classes with numbers as names return texts, task.class_names[number], as these may be either"
            )
        raise ValueError(f"predictions from {array.min()} to {array.max()}; {allowed}")
    if found == {-1, 1} and classes == 2:
        warn_once(
            "Class numbers are 0 and 1, and -1 names no class. If a model calls them -1 and 1, return (p + 1) // 2"
        )
    return array.astype(np.int64), None
