"""``@training``: a function becomes an approach where it stands."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable, Mapping
from typing import Any

from mlflow_l3d.approaches.functions.approach import Function, FunctionApproach
from mlflow_l3d.approaches.functions.content import content_texts
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.tasks.base import TaskKind


def training(
    *,
    factors: Iterable[str],
    name: str = "",
    version: str = "",
    hyperparameters: Mapping[str, Hyperparameter | Value] | None = None,
    default_task: str = "",
    task_kinds: Iterable[TaskKind] = ("classification",),
    metrics: Iterable[str] = (),
) -> abc.Callable[[Function], Training]:
    """Return a decorator that makes a function an approach: ``@training(factors=["data_order"])``.

    Parameters
    ----------
    factors, default_task, task_kinds, metrics
        As for :class:`mlflow_l3d.approaches.functions.approach.FunctionApproach`.
    name
        Name of the approach; by default that of the function.
    version
        Changed by you whenever the same cell would give other predictions. By default the version follows from the
        content: the source of the function and of the functions and classes of its module that it names, the data that
        these refer to (numbers, texts, arrays, data frames, lists, ...), and what these refer to in turn. Give one if
        the function refers to objects whose content is not known, reads files, or uses other modules that change.
    hyperparameters
        Name -> default, or a whole declaration.

    Raises
    ------
    ParameterError
        As :class:`mlflow_l3d.approaches.functions.approach.FunctionApproach`.

    Examples
    --------
    >>> import mlflow_l3d
    >>> from mlflow_l3d.cells.factors import stream
    >>> @mlflow_l3d.training(factors=["data_order"])
    ... def last_seen(task, split, seeds, hyperparameters):
    ...     order = stream(seeds["data_order"], "order").permutation(split.train)
    ...     return [task.labels[order[-1]]] * len(split.test)
    >>> mlflow_l3d.self_test("synthetic", approach=last_seen, factor="data_order", executor="inline")
    self-test: what a new seed changes
    data_order  400 of 400 predictions
    replicate   nothing
    """
    declared = {
        key: value if isinstance(value, Hyperparameter) else Hyperparameter(value, key.replace("_", " "))
        for key, value in (hyperparameters or {}).items()
    }

    def made(function: Function) -> Training:
        return Training(
            function,
            name=name or getattr(function, "__name__", ""),
            version=version,
            factors=factors,
            hyperparameters=declared,
            default_task=default_task,
            task_kinds=task_kinds,
            metrics=metrics,
        )

    return made


class Training(FunctionApproach):
    """What :func:`training` makes; called, it is the function."""

    def __init__(self, function: Function, *, version: str = "", **given: Any) -> None:
        super().__init__(function, version=version or "1", **given)
        self._source, self._final = "", bool(version)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **named)

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return the hash of the source and of all that it refers to, if no version was given.

        Raises
        ------
        ParameterError
            As :func:`mlflow_l3d.approaches.functions.content.content_texts`.
        """
        del hyperparameters, model
        # Asked for when all names of the module are there, and each time: in a notebook data change.
        if not self._final:
            self._source = content_key(content_texts(self.function, self.name))
        return {"source": self._source} if self._source else {}

    def __getstate__(self) -> dict[str, Any]:
        """Let workers, which may have no source, take the answer with the object."""
        return {**vars(self), "_final": self._final or bool(self._source)}
