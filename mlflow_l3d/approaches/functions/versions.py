"""The version of a function: its content, without what its own runs change; and what they find and leave in MLflow."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from mlflow_l3d.approaches.functions.content import Content
from mlflow_l3d.approaches.functions.parts import local_modules
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import content_key

_LEFT: Final[dict[str, tuple[dict[str, tuple[str, str]], Any]]] = {}
"""Function -> variable -> its text after the runs of the function, and before them; and objects, which live on."""


def _as_before(content: Content) -> dict[str, str]:
    """Return the variables of a function, as they were before its own runs changed them."""
    variables = dict(content.variables)
    left, _ = _LEFT.get(content.root, ({}, None))
    for each, (after, before) in [*left.items()]:
        if variables.get(each, "") == after:
            variables[each] = before
        else:  # someone else changed it since
            del left[each]
    return variables


def _with_variables(function: Callable[..., Any]) -> Content:
    """Return the content of a function, of whose large data only those in variables are read."""
    return Content(function, hashed=False, variables_hashed=True)


class OwnChanges(AbstractContextManager["OwnChanges"]):
    """What runs of functions change until :meth:`note`: counters, caches and loaded models do not count."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self.before = [(each, _as_before(_with_variables(each))) for each in functions]

    def __exit__(self, *_: object) -> None:
        self.note()

    def note(self) -> None:
        """Let the variables that changed count as they were before."""
        for function, before in self.before:
            content = _with_variables(function)
            now = content.variables
            changed = {name for name, _ in before.items() ^ content.variables.items()}
            left = {name: (now.get(name, ""), before.get(name, "")) for name in changed}
            _LEFT[content.root] = left, content.unknown


def content_texts(thing: Any, name: str) -> dict[str, str]:
    """Return name -> source or content, of a function (or of data) and of all that it refers to.

    These are the functions and classes of local modules that it names, what these refer to, and data: variables, those
    of an enclosing function, default arguments, and arguments of a ``functools.partial``.

    Parameters
    ----------
    thing
        The function.
    name
        What errors call it.

    Raises
    ------
    ParameterError
        If there is no source, as in an interactive interpreter, or the content of an object is not known.
    """
    content = Content(thing, name)
    texts = {**content.texts, **{each: text for each, text in _as_before(content).items() if text}}
    content.check(texts.values())
    return texts


class BySource:
    """An approach that is a function, and has the version that it was given, else that of its content.

    It takes the variables of local modules along to workers, which import these modules afresh.

    Attributes
    ----------
    function, name
        The function, and the name of the approach.
    is_versioned
        Whether a version was given, or the content is not asked for again.
    texts
        The content: name -> source or data.
    """

    function: Callable[..., Any]
    name: str
    is_versioned = True
    texts: Mapping[str, str] = {}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return the hash of the source, of all that it refers to and of local modules, if no version was given.

        Raises
        ------
        ParameterError
            As :func:`content_texts`.
        """
        # Asked for when all names of the module are there, and each time: in a notebook data change.
        if not self.is_versioned:
            texts = content_texts(self.function, self.name)
            self.texts = {**texts, **local_modules(self.function, "\n".join(texts.values()))}
        return {"source": content_key(self.texts)} if self.texts else {}

    def own_changes(self) -> OwnChanges:
        """Return what notes the changes that runs make, if the version depends on them."""
        return OwnChanges() if self.is_versioned else OwnChanges(self.function)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes and variables of local modules; workers, which may have no source, ask for none."""
        carried = Content(self.function, self.name, hashed=False).carried
        return {**vars(self), "carried": carried, "is_versioned": self.is_versioned or bool(self.texts)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the variables that differ here: the user's program set them."""
        for (module, name), value in state.pop("carried").items():
            *outer, last = name.split(".")
            place = functools.reduce(getattr, outer, importlib.import_module(module))
            here = Content(getattr(place, last, None), name)
            there = Content(value, name)
            if (here.texts, here.variables) != (there.texts, there.variables):
                setattr(place, last, value)
        vars(self).update(state)


_SET_BY_MLFLOW: Final = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")


@contextmanager
def own_mlflow() -> Iterator[None]:
    """Hide open runs from the block, end those that it leaves open, and put MLflow's server and experiment back.

    Otherwise a study is recorded where its function logs, and the next call finds a run open.
    """
    variables = {name: os.environ[name] for name in _SET_BY_MLFLOW if name in os.environ}
    chosen, hidden = _chosen(), [*_open_runs()]
    _open_runs().clear()
    try:
        yield
    finally:
        while _open_runs():
            sys.modules["mlflow"].end_run()
        _open_runs().extend(hidden)
        if chosen != _chosen():
            sys.modules["mlflow"].set_tracking_uri(chosen[0])
            vars(sys.modules["mlflow.tracking.fluent"])["_active_experiment_id"] = chosen[1]
            for name in _SET_BY_MLFLOW:
                os.environ.pop(name, None)
            os.environ.update(variables)


def _open_runs() -> list[Any]:
    """Return MLflow's own list of the open runs of this thread; another one if nothing imported it."""
    stack = getattr(sys.modules.get("mlflow.tracking.fluent"), "_active_run_stack", None)
    return [] if stack is None else stack.get()


def _chosen() -> tuple[Any, Any]:
    """Return the server and the experiment that were set; None for what was not."""
    loaded = [sys.modules.get(f"mlflow.tracking.{name}") for name in ("_tracking_service.utils", "fluent")]
    names = ("_tracking_uri", "_active_experiment_id")
    server, experiment = (getattr(module, name, None) for module, name in zip(loaded, names, strict=True))
    return server, experiment
