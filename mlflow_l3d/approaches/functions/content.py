"""What a function is made of, as text that is the same in every process: its source, and all that it refers to."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.functions.data import SHOWN, VERSION, WITHOUT_CONTENT, DataTexts
from mlflow_l3d.approaches.functions.local_modules import local_modules
from mlflow_l3d.approaches.functions.parts import (
    ATTRIBUTES,
    IMPORTS,
    changed,
    decorated,
    enclosed,
    full_name,
    functions,
    module_of,
    named,
    source,
)
from mlflow_l3d.approaches.functions.sources import Sources, is_of_process, restored, said_of
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError


def content_texts(thing: Any, name: str) -> dict[str, str]:
    """Return name -> source or content, of a function (or of data) and of all that it refers to.

    These are the functions and classes of its module that it names, what these refer to, and data: globals, variables
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
    return _Content(thing, name).texts


class Carried:
    """An object that takes what was set at run time along to workers, which import local modules afresh.

    Attributes
    ----------
    function, name
        The function that refers to local modules, and its name.
    """

    function: Callable[..., Any]
    name: str

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes, and the variables of local modules that differ from what their source says."""
        return {**vars(self), "set_at_run_time": _Content(self.function, self.name, strict=False).set_at_run_time}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set these variables here, too."""
        restored(state.pop("set_at_run_time"))
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

    def __getstate__(self) -> dict[str, Any]:
        """Let workers, which may have no source, take the answer with the object."""
        return {**super().__getstate__(), "is_versioned": self.is_versioned or bool(self.texts)}


class _Content(DataTexts):
    """Texts of one function and of what it refers to.

    Of its own module these are sources and data. Sources of other local modules are in the key anyway: of these it is
    what they do not say, such as enclosed variables and variables that were set at run time.
    """

    def __init__(self, thing: Any, name: str, *, strict: bool = True) -> None:
        plain = inspect.unwrap(getattr(thing, "func", thing))
        self.name, self.module = name, getattr(plain, "__module__", None)
        self.texts: dict[str, str] = {}
        self.set_at_run_time: dict[tuple[str, str], Any] = {}
        self._followed: set[int] = set()
        self._sources = Sources(plain)
        self._changed: set[tuple[str, str]] = set()
        self.strict = False  # first: what do the functions change themselves?
        self.refer(getattr(thing, "__name__", name), thing)
        self.strict, self.texts, self.set_at_run_time, self._followed = strict, {}, {}, set()
        self.refer(getattr(thing, "__name__", name), thing)

    def refer(self, called: str, value: Any) -> None:
        """Add what is behind a name."""
        value = value.function if isinstance(value, Approach) and hasattr(value, "function") else value
        for layer in decorated(value):
            self._refer_plainly(f"{called}, decorated", layer)
            for kind, function in getattr(layer, "registry", {}).items():  # of functools.singledispatch
                self.refer(f"{called}, of {full_name(kind)}", function)
        self._refer_plainly(called, inspect.unwrap(value))

    def _refer_plainly(self, called: str, value: Any) -> None:
        """Add what is behind a name, whatever is decorated by it."""
        if called in self.texts or value is None:
            return
        if isinstance(value, FunctionType | type) and module_of(value) == self.module:
            self._follow(called, value)
        elif isinstance(value, MethodType):
            self.texts[called] = self.text_of(value, called)
        elif isinstance(value, (FunctionType, type, *WITHOUT_CONTENT)) or inspect.isroutine(value):
            # What another package brings along is what its name says.
            if (full := full_name(value)) not in (called, f"builtins.{called}"):
                self.texts[called] = full
            self.look_into(called, value)
        else:
            self.texts[called] = self.text_of(value, called)

    def _follow(self, called: str, thing: FunctionType | type) -> None:
        """Add a source, and what it refers to."""
        try:
            self.texts[called] = source(thing)
        except (OSError, TypeError):
            if not self.strict:
                return
            allowed = f"has no source of {called} to distinguish it by"
            raise ParameterError("function", self.name, allowed, VERSION) from None
        if id(thing) in self._followed:
            return
        self._followed.add(id(thing))
        for base in (*thing.__bases__, type(thing)) if isinstance(thing, type) else ():
            self.refer(base.__name__, base)
        self._attributes(called, thing, (*SHOWN, list, dict, tuple, set, np.ndarray))
        self._names(called, thing, own=True)

    def look_into(self, called: str, value: Any) -> None:
        """Add what no source says of an object of another module: what it is bound to, and what it encloses."""
        owner = getattr(value, "__self__", None)
        if isinstance(value, np.ufunc) and "(vectorized)" in value.__name__:
            self.refuse(called, value)
        if getattr(value, "__module__", "") is None and not isinstance(owner, ModuleType | type | None):
            self.texts[f"{called}, of"] = self.text_of(owner, called)
        is_local = isinstance(value, FunctionType | type) and self._sources.is_local(module_of(value))
        if is_local and id(value) not in self._followed:
            self._followed.add(id(value))
            for base in value.__bases__ if isinstance(value, type) else ():
                self.look_into(base.__name__, base)
            self._attributes(called, value)
            self._names(called, value, own=False)

    def _attributes(self, called: str, thing: FunctionType | type, always: tuple[type, ...] = ()) -> None:
        """Add data that are attributes of a function or class: of some types always, others if no source says them."""
        for name, value in vars(thing).items():
            if name.startswith("__") or inspect.isroutine(value) or hasattr(type(value), "__get__"):
                continue
            if isinstance(value, always):
                self.refer(f"{called}.{name}", value)
            elif (module_of(thing), f".{name}") in self._changed:
                continue
            elif not (name.startswith("_") and not always) and type(value) not in (thing, type, ModuleType):
                self._unless_said(f"{called}.{name}", value, self._sources.of_class(thing), name)

    def _names(self, called: str, thing: FunctionType | type, *, own: bool) -> None:
        """Add what functions look up; of other modules what was set at run time, and what their functions enclose."""
        for function in functions(thing):
            code, module = function.__code__, module_of(function)
            if not own and not self._sources.is_local(module):
                continue
            self._changed |= {(module, each) for each in changed(function)}
            attributes = {*named(code, ATTRIBUTES)}
            for each in named(code):
                value = function.__globals__.get(each)
                if own:
                    self.refer(each, value)
                if each == "globals" and value is None:
                    self.refuse("globals()", function.__globals__)
                elif isinstance(value, ModuleType):
                    self._module(value, attributes)
                elif each in function.__globals__:
                    self._variable(module, each, value, known=own)
            for each in named(code, IMPORTS):
                self._module(sys.modules.get(each.partition(".")[0]), attributes)
            if code.co_filename != "<string>" and (own or "<locals>" in code.co_qualname):  # that is a dataclass's
                held = [*enclosed(function)]
                defaults = [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
                for place, value in (*held, *defaults):
                    self.refer(f"{called}.{place}", value)

    def _module(self, module: ModuleType | None, names: Set[str]) -> None:
        """Add those variables of a local module, and of its submodules, that a code may look up by these names."""
        if module is None or not self._sources.is_local(module.__name__):
            return
        for name, value in sorted(pair for pair in vars(module).items() if pair[0] in names):
            if not isinstance(value, ModuleType):
                self._variable(module.__name__, name, value)
            elif value.__name__.startswith(f"{module.__name__}."):
                self._module(value, names)

    def _variable(self, module: str, name: str, value: Any, *, known: bool = False) -> None:
        """Add a variable of a local module if its source does not say it; `known` if it is in the key anyway."""
        called = f"{module}.{name}"
        if origin := self._sources.imported(module, name):
            module, name = origin
        if not self._sources.is_local(module):
            return
        if isinstance(value, FunctionType | type | ModuleType) or inspect.isroutine(value):
            is_own = isinstance(value, FunctionType | type) and module_of(value) == self.module != module
            if not known:
                (self.refer if is_own else self.look_into)(called, value)
            return
        if (module, name) in self._changed:  # a counter or cache: no setting of the user
            return
        body = self._sources.of_module(module)
        # Tables, caches and models are as the module makes them.
        if is_of_process(body, name) or (said_of(body, name)[1] and not isinstance(value, SHOWN)):
            return
        if self._unless_said(called, value, body, name, known=known):
            looked_up, _, as_name = called.rpartition(".")
            self.set_at_run_time |= {(module, name): value, (looked_up, as_name): value}

    def _unless_said(self, called: str, value: Any, body: Sequence[ast.stmt], name: str, *, known: bool = False) -> str:
        """Add data that the source of their module or class does not say; return them as text, empty if it does.

        If their content is not known, a source that computes them decides; else they were set at run time.
        """
        (constants, is_computed), before = said_of(body, name), dict(self.texts)
        try:
            text = self.data_of(value, called)
        except Exception:  # noqa: BLE001 - as in text_of
            text = ""
        is_filled = any(isinstance(each, dict | list | set) for each in constants)  # by its module, or by its functions
        if not (text or known or is_computed or is_filled or name.startswith("_")):
            self.refuse(called, value)
        if len(constants) == 1 and self.data_of(constants[0], called) == text:  # of several, each is in a branch
            return ""
        self.texts = before if known or not text else {**self.texts, called: text}
        return text
