"""What a function is made of, as text that is the same in every process: its source, and all that it refers to."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Set
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.functions.data import VERSION, DataTexts, is_code
from mlflow_l3d.approaches.functions.local_modules import folders_of, is_local, local_modules
from mlflow_l3d.approaches.functions.parts import (
    ATTRIBUTES,
    IMPORTS,
    decorated,
    enclosed,
    full_name,
    functions,
    is_of_process,
    module_of,
    named,
    source,
)
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError

_HIDING: Final = frozenset({"globals", "exec", "eval", "__import__", "import_module"})
"""What a code calls to refer to what it does not name."""
_BY_TEXT: Final = frozenset({"getattr", "vars", "__dict__"})
"""What a code names to look up any variable of a module."""


class Content(DataTexts):
    """Texts of a function and of all that it refers to: code of local modules by its source, data by their value.

    Parameters
    ----------
    thing
        The function, or data.
    name
        What errors call it.
    hashed
        Whether large data are read.

    Attributes
    ----------
    root
        The name of the function in its module.
    texts
        Name -> source or data.
    variables
        Name -> text of a variable of a local module, or of an attribute of a function or class.
    carried
        Module and name -> value of each variable that workers need.
    """

    def __init__(self, thing: Any, name: str, *, hashed: bool = True) -> None:
        super().__init__(hashed=hashed)
        plain = inspect.unwrap(getattr(thing, "func", thing))
        self.name, self.module = name, getattr(plain, "__module__", None)
        self.root = full_name(plain if hasattr(plain, "__qualname__") else type(plain))
        self.texts: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.carried: dict[tuple[str, str], Any] = {}
        self._folders, self._followed = folders_of(plain), set[Any]()
        self.refer(getattr(thing, "__name__", name), thing)

    def is_local(self, module: str) -> bool:
        """Return whether a module is the user's own code."""
        return module in (self.module, "__main__") or is_local(module, self._folders)

    def refer(self, called: str, value: Any) -> None:
        """Add what is behind a name, and its decorations."""
        value = value.function if isinstance(value, Approach) and hasattr(value, "function") else value
        for layer in decorated(value):
            self._refer_plainly(f"{called}, decorated", layer)
            for kind, function in getattr(layer, "registry", {}).items():  # of functools.singledispatch
                self.refer(f"{called}, of {full_name(kind)}", function)
        self._refer_plainly(called, inspect.unwrap(value))

    def _refer_plainly(self, called: str, value: Any) -> None:
        if isinstance(value, FunctionType | type) and self.is_local(module_of(value)):
            self._follow(called, value)
        elif is_code(value):
            self._name(called, value)
        elif value is not None:
            self._add(called, self.text_of(value, called))

    def _add(self, called: str, text: str) -> None:
        while self.texts.setdefault(called, text) != text:  # two things of one name
            called += "'"

    def _name(self, called: str, value: Any) -> None:
        """Add what a package brings along, which its name says; and what it is bound to, or encloses."""
        if (full := full_name(value)) not in (called, f"builtins.{called}"):
            self._add(called, full)
        owner = getattr(value, "__self__", None)
        if isinstance(value, np.ufunc) and "(vectorized)" in value.__name__:
            self._add(called, self.refuse(called, value))
        if getattr(value, "__module__", "") is None and not isinstance(owner, ModuleType | type | None):
            self._add(f"{called}, of", self.text_of(owner, called))
        if isinstance(value, FunctionType) and self._is_new(value):
            for place, held in enclosed(value):
                if isinstance(held, FunctionType | type | str | int | float):
                    self.refer(f"{called}.{place}", held)

    def _is_new(self, what: Any) -> bool:
        key = what if isinstance(what, tuple) else id(what)
        is_new = key not in self._followed
        self._followed.add(key)
        return is_new

    def _follow(self, called: str, thing: FunctionType | type) -> None:
        """Add a source, and what it refers to."""
        try:
            self._add(called, source(thing))
        except (OSError, TypeError):
            if module_of(thing) in (self.module, "__main__") and self.hashed:
                allowed = f"has no source of {called} to distinguish it by"
                raise ParameterError("function", self.name, allowed, VERSION) from None
            self._add(called, full_name(thing))  # its file is in the key
        if not self._is_new(thing):
            return
        for base in (*thing.__bases__, type(thing)) if isinstance(thing, type) else ():
            self.refer(base.__name__, base)
        for name, value in vars(thing).items():
            is_machinery = name.startswith("__") or name == "_abc_impl" or type(value) is thing
            is_bound = hasattr(type(value), "__get__") and not isinstance(value, functools.partial)
            if not (is_machinery or (is_bound and not self.is_local(type(value).__module__))):
                self._variable(module_of(thing), f"{thing.__qualname__}.{name}", value)
        for function in functions(thing):
            if self.is_local(module_of(function)) and function.__code__.co_filename != "<string>":  # a dataclass's
                self._names(called, function)

    def _names(self, called: str, function: FunctionType) -> None:
        """Add what a function looks up, encloses and has as defaults."""
        code, module, variables = function.__code__, module_of(function), function.__globals__
        names, attributes = {*named(code)}, {*named(code, ATTRIBUTES)}
        for each in sorted(_HIDING & ((names - {*variables}) | ({"import_module"} & (names | attributes)))):
            self._add(f"{each}()", self.refuse(f"{each}()", variables))
        for each in sorted(names & {*variables}):
            self._variable(module, each, variables[each], names | attributes)
        for each in named(code, IMPORTS):
            self._module(sys.modules.get(each.partition(".")[0]), names | attributes)
        held, defaults = [*enclosed(function)], [*enumerate(function.__defaults__ or ())]
        for place, value in (*held, *defaults, *(function.__kwdefaults__ or {}).items()):
            self.refer(f"{called}.{place}", value)

    def _variable(self, module: str, name: str, value: Any, looked_up: Set[str] = frozenset()) -> None:
        """Add a variable by its value."""
        called = name if module == self.module else f"{module}.{name}"
        if isinstance(value, ModuleType) and self.is_local(value.__name__):
            self._module(value, looked_up)
        elif is_code(value):
            self.refer(called, value)
        elif self._is_new((module, name)) and not is_of_process(module, name, value):
            unknown = len(self.unknown)
            self.variables[f"{called} ="] = self.text_of(value, called)
            if len(self.unknown) == unknown and is_local(module, self._folders) and "<locals>" not in name:
                self.carried[module, name] = value

    def _module(self, module: ModuleType | None, looked_up: Set[str]) -> None:
        """Add those variables of a local module that a code may look up by these names."""
        if module and self.is_local(module.__name__) and self._is_new((module.__name__, frozenset(looked_up))):
            names = {*vars(module)} if _BY_TEXT & looked_up else looked_up & {*vars(module)}
            for each in sorted(name for name in names if not name.startswith("__")):
                self._variable(module.__name__, each, vars(module)[each], looked_up)


_LEFT: Final[dict[str, tuple[dict[str, tuple[str, str]], Any]]] = {}
"""Function -> variable -> its text after the runs of the function, and before them; and objects, which live on."""


def _asked(thing: Any, name: str) -> tuple[Content, dict[str, str]]:
    """Return content, and its variables as they were before the function's own runs changed them."""
    content = Content(thing, name)
    variables, (left, _) = dict(content.variables), _LEFT.get(content.root, ({}, None))
    for each, (after, before) in [*left.items()]:
        if variables.get(each, "") == after:
            variables[each] = before
        else:  # someone else changed it since
            del left[each]
    return content, variables


class OwnChanges:
    """What the runs of a function change until :meth:`note`: counters, caches and loaded models are no settings."""

    def __init__(self, thing: Any, name: str) -> None:
        self.thing, self.name = thing, name
        self.before = _asked(thing, name)[1]

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.note()

    def note(self) -> None:
        """Let the variables that changed count as they were before."""
        content, before = Content(self.thing, self.name), self.before
        texts = {
            each: (content.variables.get(each, ""), before.get(each, "")) for each in (*before, *content.variables)
        }
        _LEFT[content.root] = {each: pair for each, pair in texts.items() if pair[0] != pair[1]}, content.unknown


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
    content, variables = _asked(thing, name)
    texts = {**content.texts, **{each: text for each, text in variables.items() if text}}
    content.check(texts.values())
    return texts


class Carried:
    """An object that takes the variables of local modules along to workers, which import these modules afresh.

    Attributes
    ----------
    function, name
        The function that refers to local modules, and its name.
    """

    function: Callable[..., Any]
    name: str

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, and the variables of local modules that the function refers to."""
        return {**vars(self), "carried": Content(self.function, self.name, hashed=False).carried}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the variables that differ here: the user's program set them."""
        for (module, name), value in state.pop("carried").items():
            *outer, last = name.split(".")
            place = functools.reduce(getattr, outer, importlib.import_module(module))
            here, there = Content(getattr(place, last, None), name), Content(value, name)
            if (here.texts, here.variables) != (there.texts, there.variables):
                setattr(place, last, value)
        vars(self).update(state)


class BySource(Carried):
    """An approach that is a function, and has the version that it was given, else that of its content.

    Attributes
    ----------
    function, name
        The function, and the name of the approach.
    is_versioned
        Whether a version was given, or the content is not asked for again.
    texts
        The content: name -> source or data.
    """

    is_versioned = False
    texts: Mapping[str, str] = {}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return the hash of the source, of all that it refers to and of local modules, if no version was given.

        Raises
        ------
        ParameterError
            As :func:`content_texts`.
        """
        del hyperparameters, model
        # Asked for when all names of the module are there, and each time: in a notebook data change.
        if not self.is_versioned:
            texts = content_texts(self.function, self.name)
            self.texts = {**texts, **local_modules(self.function, "\n".join(texts.values()))}
        return {"source": content_key(self.texts)} if self.texts else {}

    def own_changes(self) -> OwnChanges | None:
        """Return what notes the changes that runs make from now on; None if the version does not depend on them."""
        return None if self.is_versioned or not self.texts else OwnChanges(self.function, self.name)

    def __getstate__(self) -> dict[str, Any]:
        """Let workers, which may have no source, take the answer with the object."""
        return {**super().__getstate__(), "is_versioned": self.is_versioned or bool(self.texts)}
