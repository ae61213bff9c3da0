"""``@training``: a function becomes an approach where it stands."""

from __future__ import annotations

import inspect
from collections import abc
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from mlflow_l3d.approaches.callable import Callable, Function
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.plan.cells import content_key
from mlflow_l3d.tasks.base import TaskKind


def training(
    *,
    factors: Iterable[str],
    name: str = "",
    version: str = "",
    hyperparameters: Mapping[str, Hyperparameter | Value] | None = None,
    default_task: str = "",
    task_kinds: Iterable[TaskKind] = ("classification",),
) -> abc.Callable[[Function], Training]:
    """Return a decorator that makes a function an approach: ``@training(factors=["data_order"])``.

    Parameters
    ----------
    factors, default_task, task_kinds
        As for :class:`mlflow_l3d.approaches.callable.Callable`.
    name
        Name of the approach; by default that of the function.
    version
        Changed by you whenever the same cell would give other predictions. By default the source says so: that of the
        function, of what it names in its module (functions, classes, plain constants), and of what these name.
    hyperparameters
        Name -> default, or a whole declaration.

    Raises
    ------
    ParameterError
        As :class:`mlflow_l3d.approaches.callable.Callable`.
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
        )

    return made


class Training(Callable):
    """What :func:`training` makes; called, it is the function."""

    def __init__(self, function: Function, *, version: str = "", **given: Any) -> None:
        super().__init__(function, version=version or "1", **given)
        self._source = "given" if version else ""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **named)

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return the hash of the source, where no version was given.

        Raises
        ------
        ParameterError
            If there is no source, as in an interactive interpreter.
        """
        del hyperparameters, model
        # Asked for when all names of the module are there; workers get the answer with the object.
        self._source = self._source or content_key(_source(self.function, self.name))
        return {} if self._source == "given" else {"source": self._source}


def _source(function: Any, name: str) -> dict[str, str]:
    """Return name -> source, or value, of a function and of all that it names in its module."""
    found: dict[str, str] = {}
    module, names = function.__module__, function.__globals__
    left = [(function.__name__, inspect.unwrap(function))]
    while left:
        called, thing = left.pop()
        if called in found:
            continue
        if not isinstance(thing, FunctionType | type):
            found[called] = repr(thing)
            continue
        try:
            found[called] = inspect.getsource(thing)
        except (OSError, TypeError):
            fix = 'Give a version, which you change with it: version="1".'
            raise ParameterError("function", name, f"has no source of {called} to be told apart by", fix) from None
        for each in _named(thing):
            value = names.get(each)
            ours = isinstance(value, FunctionType | type) and value.__module__ == module
            if ours or isinstance(value, bool | int | float | str | tuple):
                left.append((each, value))
    return found


def _named(thing: FunctionType | type) -> Iterator[str]:
    """Yield the names that the code of a function, or of the methods of a class, looks up."""
    if isinstance(thing, type):
        for each in vars(thing).values():
            if isinstance(each, FunctionType):
                yield from _named(each)
        return
    codes: list[CodeType] = [thing.__code__]
    while codes:
        code = codes.pop()
        yield from code.co_names
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
