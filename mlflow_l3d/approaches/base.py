"""The contract of an approach: what is trained, and which randomness factors it has."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.failures import failed
from mlflow_l3d.approaches.hooks import Hooks
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import OF_NO_APPROACH
from mlflow_l3d.errors import check_known
from mlflow_l3d.metrics.known import of_kind, score
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.resolve import inactive_factors
from mlflow_l3d.tasks.settings import IntArray

if TYPE_CHECKING:
    import torch

OnEpochEnd: TypeAlias = Callable[[str, int, Mapping[str, float]], bool]
"""``on_epoch_end(key, epoch, scores)``, called after every epoch of a cell: its key, the epoch counted from 0, and
scores on the validation part, each named ``validation_...``. True asks for the end of its training."""


def answered(
    key: str,
    task: Task,
    positions: IntArray,
    predictions: npt.NDArray[Any],
    scores: npt.NDArray[np.float32] | None = None,
    **more: Any,
) -> Outcome:
    """Return the outcome of the cell with this key, without its wall clock.

    Parameters
    ----------
    key, task
        The cell, and the data.
    positions
        Shape (n,): the evaluated examples.
    predictions, scores, **more
        See :class:`~mlflow_l3d.cells.cell.Outcome`; `more` is metrics and curves.
    """
    ids, labels = task.example_ids[positions], task.labels[positions]
    return Outcome(key, ids, labels, predictions, scores, **more)


def should_stop(
    on_epoch_end: OnEpochEnd | None,
    key: str,
    epoch: int,
    logits: torch.Tensor | npt.NDArray[np.floating],
    labels: npt.NDArray[Any],
) -> bool:
    """Call back after an epoch, if someone asked for it; return whether the training of this cell is to end.

    Parameters
    ----------
    on_epoch_end, key, epoch
        See :data:`OnEpochEnd`; None if nobody asked.
    logits, labels
        Shapes (n, C), on the CPU, and (n,), of the validation part; there is no call for an empty one. Float labels
        belong to a regression, whose logits have one column.
    """
    if on_epoch_end is None or not len(labels):
        return False
    if labels.dtype.kind == "f":
        return on_epoch_end(key, epoch, validation_scores(labels, np.asarray(logits[:, 0], dtype=np.float64)))
    return on_epoch_end(key, epoch, validation_scores(labels, np.asarray(logits.argmax(1)), logits.shape[1]))


def validation_scores(
    labels: npt.NDArray[Any], predictions: npt.NDArray[Any], classes: int | None = None
) -> dict[str, float]:
    """Return the scores of an epoch: ``validation_`` and the name of every metric that all approaches have.

    `labels` and `predictions` have shape (n,), n positive: numbers of `classes` classes, or those of a regression.
    """
    metrics = of_kind("regression") if classes is None else of_kind("classification", secondary=False)
    return {f"validation_{metric.name}": score(metric, labels, predictions, classes) for metric in metrics}


class Session(ABC):
    """A warm worker: the model is loaded, any number of cells can follow.

    A subclass has :meth:`run`, and :meth:`close` if there is more to release than what the object holds.

    Contract: a cell gives the same predictions in any session, alone or among others, in any order. Nothing is drawn
    from a global generator except through :mod:`mlflow_l3d.approaches.global_seeds`. A cell that raises ends with an
    Outcome whose `error` says why (the platform's executors catch what escapes, and then run the cells of the call that
    have no outcome once more, in smaller calls). A session is used by one thread of one process and is never pickled.

    Attributes
    ----------
    cells_at_once
        How many cells it would like in one call, because it trains them side by side: a positive number that is fixed
        once it is prepared. Executors hand over up to that many, fewer near the end so that all workers have work.
        If it is above 1, scores, metrics and the numbers that a regression predicts may differ with the other cells
        of the call, within a tolerance that the approach states; predicted classes may not. Each outcome should carry
        its cell's share of the time as ``duration_seconds``; if it has none, the time until then is divided by the
        cells of the call.
    reports_epochs
        Whether it trains in epochs and calls `on_epoch_end` after each.
    on_epoch_end
        None until someone sets it. A session that reports epochs then calls ``on_epoch_end(cell.key, epoch, scores)``
        after every epoch of a cell, the first being 0, with scores on the validation part such as
        ``{"validation_f1_macro": 0.7}``; see :mod:`mlflow_l3d.approaches.progress`. If the answer is True it ends
        the training of that cell with what it has, as early stopping would, and the outcome is a whole one. A callback
        that never asks for the end changes no prediction.
    """

    cells_at_once: int = 1
    reports_epochs: bool = False
    on_epoch_end: OnEpochEnd | None = None

    @abstractmethod
    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Train and evaluate the cells; yield an outcome for each, in any order, as soon as it is known."""

    def close(self) -> None:
        """Release memory and files; called once, also after an error."""
        vars(self).clear()


class CellwiseSession(Session):
    """A session that trains one cell after the other; a subclass has :meth:`run_cell`."""

    @abstractmethod
    def run_cell(self, cell: Cell) -> Outcome:
        """Train and evaluate one cell; what is raised is the outcome of that cell, and the others continue."""

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Run the cells in their order, and time each."""
        for cell in cells:
            started = time.perf_counter()
            try:
                outcome = self.run_cell(cell)
            except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
                outcome = failed(cell.key, error)
            if isinstance(outcome, Outcome):  # the platform says what else is returned
                outcome = replace(outcome, duration_seconds=time.perf_counter() - started)
            yield outcome


class Approach(Hooks, ABC):
    """Something that is trained or prompted and then predicts: entry-point group ``mlflow_l3d.approaches``.

    A subclass sets `name`, `version` and `factors` and has :meth:`prepare`; everything else has a default, here or in
    :class:`mlflow_l3d.approaches.hooks.Hooks`. The entry point names the class (or any callable without
    arguments that returns the approach); building it must be cheap: torch and transformers are imported in `prepare`
    and `model_revision` at the earliest.

    Attributes
    ----------
    name
        Name of the entry point.
    version
        Changed whenever the same cell would give other predictions; part of the cell's key.
    factors
        Every randomness factor of the approach, those of the task included.
    hyperparameters
        Name -> declaration.
    default_task
        The task if the user names none.
    parameters
        Parameters of `investigate` that become keyword arguments of the constructor if the approach is found by name.
    self_tested
        Whether a study tries first what each seed does (``self_test``), gives it a task whose arrays are read-only, and
        compares the examples and labels of each outcome with those of the cell. Trying costs two trainings and one for
        each factor, until it has succeeded once with these data.
    only_evaluates
        Whether nothing is trained, so that the time of a cell grows with its number of test examples.

    Examples
    --------
    >>> import mlflow_l3d
    >>> from mlflow_l3d.approaches.base import CellwiseSession, answered
    >>> from mlflow_l3d.cells.factors import stream
    >>> class Guess(mlflow_l3d.Approach):
    ...     name, version, factors = "guess", "1", ("label_selection", "data_split", "model_randomness")
    ...     def prepare(self, task, hyperparameters, *, model, device, cache):
    ...         return GuessSession(task)
    >>> class GuessSession(CellwiseSession):
    ...     def __init__(self, task):
    ...         self.task = task
    ...     def run_cell(self, cell):
    ...         test = self.task.split(cell.seeds).test
    ...         guesses = stream(cell.seeds["model_randomness"], "guess").integers(2, size=len(test))
    ...         return answered(cell.key, self.task, test, guesses)
    >>> mlflow_l3d.self_test("synthetic", approach=Guess(), factor="model_randomness", executor="inline")
    self-test: what a new seed changes
    model_randomness  208 of 400 predictions
    replicate         nothing
    """

    version: str = ""
    factors: tuple[str, ...] = ()
    default_task: str = ""
    parameters: tuple[str, ...] = ()
    self_tested: bool = True
    only_evaluates: bool = False

    @abstractmethod
    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Load the model and whatever all cells share.

        Parameters
        ----------
        task
            The data, with its split settings.
        hyperparameters
            Complete and checked.
        model
            A model reference that :meth:`model_revision` accepted.
        device
            ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        cache
            Folder for what is worth keeping between runs; shared by several processes at once.
        """

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return resolved hyperparameters with those that depend on others filled in; by default as they are.

        Raises
        ------
        ParameterError
            If two of them do not go together.
        """
        return dict(hyperparameters)

    def fixed_factors(self, task: Task, hyperparameters: Mapping[str, Value]) -> dict[str, str]:
        """Return the factors that have no effect on a task, each with the reason."""
        by_task = {name: why for name, why in inactive_factors(task).items() if name in self.factors}
        return {**by_task, **self.inactive_on(task, hyperparameters)}


def resolve_hyperparameters(approach: Approach, given: Mapping[str, Any]) -> dict[str, Value]:
    """Return every hyperparameter of `approach`, those in `given` checked and the others at their defaults.

    Raises
    ------
    ParameterError
        If a name is unknown (with a did-you-mean) or a value is not allowed.
    """
    check_known("hyperparameters", given, approach.hyperparameters, f"a name of {approach.name}:")
    return {
        name: declaration.parse(name, given[name]) if name in given else declaration.default
        for name, declaration in approach.hyperparameters.items()
    }


def defect(approach: object) -> str:
    """Return what keeps an object from being an approach, as in ``is not an approach: ...``; empty if nothing does."""
    if not isinstance(approach, Approach):
        return "it is not a subclass of mlflow_l3d.approaches.base.Approach"
    needed = {"name": approach.name, "version": approach.version, "factors": approach.factors}
    if lacking := [name for name, value in needed.items() if not value]:
        return f"it lacks {', '.join(lacking)}"
    reserved = [name for name in OF_NO_APPROACH if name in approach.factors]
    return f"its factor {reserved[0]} must have another name: that one is of no approach" if reserved else ""
