"""Bring your own function: it trains and predicts, the platform does the rest."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.base import Approach, CellwiseSession, Session
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.plan.cells import Cell, Outcome
from mlflow_l3d.plan.factors import TASK_FACTORS
from mlflow_l3d.tasks.base import KINDS, Task, TaskKind
from mlflow_l3d.tasks.settings import Split

Function: TypeAlias = abc.Callable[[Task, Split, Mapping[str, int], Mapping[str, Value]], npt.ArrayLike]
"""``function(task, split, seeds, hyperparameters)`` -> class numbers of shape (n,), -1 for none, or class scores of
shape (n, classes), for the n examples of ``split.test`` in that order. Of a multiple-choice task the choices are the
classes; of a regression it returns finite numbers of shape (n,)."""


class Callable(Approach):
    """An approach made of one function.

    A subclass overrides what else matters, such as ``numerics`` where other libraries decide the numbers.

    Parameters
    ----------
    function
        See :data:`Function`. It draws from nothing but the seeds it is given, and lives at the top of a module where
        worker processes are to find it.
    name
        Name of the approach.
    version
        Changed whenever the same cell would give other predictions.
    factors
        Randomness factors whose seeds the function uses. The task's own (``label_selection``, ``data_split``) decide
        the split and are added where they are missing.
    hyperparameters
        Name -> declaration; none by default.
    default_task
        Task where the user names none.
    task_kinds
        Kinds of tasks that the function takes.

    Raises
    ------
    ParameterError
        If the function cannot be called, `name` or `version` is empty, a factor stands twice, or a kind is unknown.
    """

    def __init__(
        self,
        function: Function,
        *,
        name: str,
        version: str,
        factors: Iterable[str],
        hyperparameters: Mapping[str, Hyperparameter] | None = None,
        default_task: str = "",
        task_kinds: Iterable[TaskKind] = ("classification",),
    ) -> None:
        given = (factors,) if isinstance(factors, str) else tuple(factors)
        kinds: tuple[str, ...] = (task_kinds,) if isinstance(task_kinds, str) else tuple(task_kinds)
        if not callable(function):
            raise ParameterError("function", type(function).__name__, "must be callable")
        for parameter, text in (("name", name), ("version", version)):
            if not isinstance(text, str) or not text:
                raise ParameterError(parameter, repr(text), "must be a text that is not empty")
        if len(set(given)) < len(given):
            raise ParameterError("factors", ",".join(given), "must name each factor once")
        for kind in kinds or ("",):
            if kind not in KINDS:
                raise unknown_name("task_kinds", kind, KINDS)
        self.function = function
        self.name = name
        self.version = version
        self.factors: tuple[str, ...] = (*(factor for factor in TASK_FACTORS if factor not in given), *given)
        self.hyperparameters: Mapping[str, Hyperparameter] = dict(hyperparameters or {})
        self.default_task = default_task
        self.task_kinds = kinds

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Return a session that calls the function once a cell."""
        del model, device, cache
        return CallableSession(self, task, dict(hyperparameters))


@dataclass(frozen=True)
class CallableSession(CellwiseSession):
    """Calls the function for one cell after the other."""

    approach: Callable
    task: Task
    hyperparameters: Mapping[str, Value]

    def run_cell(self, cell: Cell) -> Outcome:
        """Call the function for a cell."""
        split = self.task.split(cell.seeds)
        seeds = {factor: cell.seeds[factor] for factor in self.approach.factors}
        returned = self.approach.function(self.task, split, seeds, dict(self.hyperparameters))
        examples = len(split.test)
        predictions: npt.NDArray[Any]
        scores: npt.NDArray[np.float32] | None = None
        if self.task.kind == "regression":
            predictions = _numbers(returned, self.approach.name, examples)
        else:
            predictions, scores = _interpret(returned, self.approach.name, examples, len(self.task.class_names))
        return Outcome(
            key=cell.key,
            example_ids=self.task.example_ids[split.test],
            labels=self.task.labels[split.test],
            predictions=predictions,
            scores=scores,
        )


def _numbers(returned: Any, name: str, examples: int) -> npt.NDArray[np.float64]:
    """Return the predictions of a regression; raise an L3DError where they are none."""
    try:
        array = np.asarray(returned)
    except ValueError:
        array = np.zeros(())
    if array.shape != (examples,) or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        what = f"shape {array.shape} and type {array.dtype}"
        msg = f"the function of approach {name} returned {what}; a regression needs finite numbers ({examples},)."
        raise L3DError(msg)
    return array.astype(np.float64)


def _interpret(
    returned: Any, name: str, examples: int, classes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32] | None]:
    """Return predictions and, where there are any, class scores.

    Raises
    ------
    L3DError
        If shape, type or values are not those of :data:`Function`.
    """
    wanted = f"it must return class numbers of shape ({examples},) or class scores of shape ({examples}, {classes})"
    try:
        array = np.asarray(returned)
    except ValueError:
        msg = f"the function of approach {name} returned rows of unequal length; {wanted}, one a test example."
        raise L3DError(msg) from None
    if array.shape not in {(examples,), (examples, classes)}:
        raise L3DError(f"the function of approach {name} returned shape {array.shape}; {wanted}, one a test example.")
    if array.ndim == 2:
        if array.dtype.kind not in "fiu" or np.isnan(array).any():
            msg = f"the function of approach {name} returned class scores that are not numbers ({array.dtype})."
            raise L3DError(msg)
        return array.argmax(axis=1).astype(np.int64), array.astype(np.float32)
    if array.dtype.kind not in "iu":
        msg = f"the function of approach {name} returned predictions of type {array.dtype}; class numbers are integers."
        raise L3DError(msg)
    if examples and (array.min() < -1 or array.max() >= classes):
        raise L3DError(
            f"the function of approach {name} returned predictions from {array.min()} to {array.max()}; "
            f"class numbers go from 0 to {classes - 1}, and -1 is none."
        )
    return array.astype(np.int64), None
