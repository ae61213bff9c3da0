"""What a function is made of, as text that is the same in every process: its source, and code and data it refers to."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import enum
import functools
import hashlib
import inspect
import logging
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Set
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.functions import parts
from mlflow_l3d.errors import ParameterError

_HIDING: Final = frozenset({"globals", "exec", "eval", "__import__", "import_module"})
"""What a code calls to refer to what it does not name."""
_BY_TEXT: Final = frozenset({"getattr", "vars", "__dict__"})
"""What a code names to look up any variable of a module."""


_NUMBERS: Final = (bool, int, float, complex, np.generic, range, slice, type(None), type(...), dt.date, dt.time)
_SHOWN: Final = (*_NUMBERS, str, bytes, PurePath, np.dtype, dt.timedelta, enum.Enum)
"""What these show of themselves is all that they are."""
_EMPTY: Final = ("object", "_thread.lock", "_thread.RLock")
"""Types whose objects hold nothing."""
_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})
_BUILT_IN: Final = (object, dict, list, tuple, set, frozenset)
VERSION: Final = 'Give a version, which you change with it: version="1".'


def is_code(value: Any) -> bool:
    """Return whether a value is a function, a class or a module, decorated or not."""
    if isinstance(value, MethodType | Approach):
        return hasattr(value, "function")
    is_kind = isinstance(value, FunctionType | type | ModuleType | np.ufunc | logging.Logger)
    return is_kind or inspect.isroutine(value) or hasattr(value, "__wrapped__")


class Content:
    """Texts of a function and of all that it refers to: code of local modules by its source, data by their value.

    Parameters
    ----------
    thing
        The function, or data.
    name
        What errors call it.
    hashed
        Whether large data are read; if not, their text is their type.
    variables_hashed
        Whether large data in variables are read; by default as `hashed`.

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
    unknown
        Path and value of each object whose content is not known.
    """

    def __init__(
        self, thing: Any, name: str = "", *, hashed: bool = True, variables_hashed: bool | None = None
    ) -> None:
        self.unknown: list[tuple[str, Any]] = []
        self._variables_hashed = hashed if variables_hashed is None else variables_hashed
        plain = inspect.unwrap(getattr(thing, "func", thing))
        self.name = name
        self.module = getattr(plain, "__module__", None)
        self.hashed = hashed
        self.root = parts.full_name(plain if hasattr(plain, "__qualname__") else type(plain))
        self.texts: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.carried: dict[tuple[str, str], Any] = {}
        self._folders = parts.folders_of(plain)
        self._followed = set[Hashable]()
        self.refer(getattr(thing, "__name__", name), thing)

    def is_local(self, module: str) -> bool:
        """Return whether a module is the user's own code."""
        return module in (self.module, "__main__") or parts.is_local(module, self._folders)

    def refer(self, called: str, value: Any) -> None:
        """Add what is behind a name, and its decorations."""
        value = value.function if isinstance(value, Approach) and hasattr(value, "function") else value
        for layer in parts.decorated(value):
            self._refer_plainly(f"{called}, decorated", layer)
            for kind, function in getattr(layer, "registry", {}).items():  # of functools.singledispatch
                self.refer(f"{called}, of {parts.full_name(kind)}", function)
        self._refer_plainly(called, inspect.unwrap(value))

    def _refer_plainly(self, called: str, value: Any) -> None:
        if isinstance(value, FunctionType | type) and self.is_local(parts.module_of(value)):
            self._follow(called, value)
        elif is_code(value):
            self._name(called, value)
        elif value is not None:
            self._add(called, self.text_of(value, called))

    def _add(self, called: str, text: str, texts: dict[str, str] | None = None) -> None:
        while (self.texts if texts is None else texts).setdefault(called, text) != text:  # two things of one name
            called += "'"

    def _name(self, called: str, value: Any) -> None:
        """Add what a package brings along, which its name says; and what it is bound to, or encloses."""
        if (full := parts.full_name(value)) not in (called, f"builtins.{called}"):
            self._add(called, full)
        owner = getattr(value, "__self__", None)
        if isinstance(value, np.ufunc) and "(vectorized)" in value.__name__:
            self._add(called, self.refuse(called, value))
        if getattr(value, "__module__", "") is None and not isinstance(owner, ModuleType | type | None):
            self._add(f"{called}, of", self.text_of(owner, called))
        if isinstance(value, FunctionType) and self._is_new(id(value)):
            for place, held in parts.enclosed(value):
                if isinstance(held, FunctionType | type | str | int | float):
                    self.refer(f"{called}.{place}", held)

    def _is_new(self, key: Hashable) -> bool:
        is_new = key not in self._followed
        self._followed.add(key)
        return is_new

    def _follow(self, called: str, thing: FunctionType | type) -> None:
        """Add a source, and what it refers to."""
        try:
            self._add(called, parts.source(thing))
        except (OSError, TypeError):
            if parts.module_of(thing) in (self.module, "__main__") and self.hashed:
                allowed = f"has no source of {called} to distinguish it by"
                raise ParameterError("function", self.name, allowed, VERSION) from None
            self._add(called, parts.full_name(thing))  # its file is in the key
        if not self._is_new(id(thing)):
            return
        for base in (*thing.__bases__, type(thing)) if isinstance(thing, type) else ():
            self.refer(base.__name__, base)
        for name, value in [*vars(thing).items()]:
            is_machinery = name.startswith("__") or name == "_abc_impl" or type(value) is thing
            is_bound = hasattr(type(value), "__get__") and not isinstance(value, functools.partial)
            if not (is_machinery or (is_bound and not self.is_local(type(value).__module__))):
                self._variable(parts.module_of(thing), f"{thing.__qualname__}.{name}", value)
        for function in parts.functions(thing):
            # A dataclass makes its functions from a text.
            if self.is_local(parts.module_of(function)) and function.__code__.co_filename != "<string>":
                self._names(called, function)

    def _names(self, called: str, function: FunctionType) -> None:
        """Add what a function looks up, encloses and has as defaults."""
        code = function.__code__
        module = parts.module_of(function)
        variables = function.__globals__
        names = {*parts.named(code)}
        attributes = {*parts.named(code, parts.ATTRIBUTES)}
        for each in sorted(_HIDING & ((names - {*variables}) | ({"import_module"} & (names | attributes)))):
            self._add(f"{each}()", self.refuse(f"{each}()", variables))
        for each in sorted(names & {*variables}):
            self._variable(module, each, variables[each], names | attributes)
        for each in parts.named(code, parts.IMPORTS):
            self._module(sys.modules.get(each.partition(".")[0]), names | attributes)
        held = [*parts.enclosed(function)]
        defaults = [*enumerate(function.__defaults__ or ())]
        for place, value in (*held, *defaults, *(function.__kwdefaults__ or {}).items()):
            self.refer(f"{called}.{place}", value)

    def _variable(self, module: str, name: str, value: Any, looked_up: Set[str] = frozenset()) -> None:
        """Add a variable by its value."""
        called = name if module == self.module else f"{module}.{name}"
        if isinstance(value, ModuleType) and self.is_local(value.__name__):
            self._module(value, looked_up)
        elif is_code(value):
            self.refer(called, value)
        elif ("." in name or self._is_new((module, name))) and not parts.is_of_process(module, name, value):
            unknown, hashed = len(self.unknown), self.hashed
            self.hashed = self._variables_hashed
            self._add(f"{called} =", self.text_of(value, called), self.variables)
            self.hashed = hashed
            if len(self.unknown) == unknown and parts.is_local(module, self._folders) and "<locals>" not in name:
                self.carried[module, name] = value

    def _module(self, module: ModuleType | None, looked_up: Set[str]) -> None:
        """Add those variables of a local module that a code may look up by these names."""
        if module and self.is_local(module.__name__) and self._is_new((module.__name__, frozenset(looked_up))):
            names = {*vars(module)} if _BY_TEXT & looked_up else looked_up & {*vars(module)}
            for each in sorted(name for name in names if not name.startswith("__")):
                self._variable(module.__name__, each, vars(module)[each], looked_up)

    def text_of(self, value: Any, path: str) -> str:
        """Return data as text; functions in it are added."""
        try:
            text = self._data_of(value, path)
        except ParameterError:
            raise
        except Exception:  # noqa: BLE001 - whatever a stranger's object raises, its content is not known
            text = ""
        return text or self.refuse(path, value)

    def refuse(self, path: str, value: Any) -> str:
        """Return a text for an object whose content is not known, and note it."""
        self.unknown.append((path, value))
        return f"object {id(value)};"

    def check(self, texts: Iterable[str]) -> None:
        """Raise an error if texts have an object whose content is not known."""
        everything = "\n".join(texts) if self.unknown else ""
        for path, value in self.unknown:
            if f"object {id(value)};" in everything:
                allowed = f"refers to {path}, of type {type(value).__name__}, whose content is not known"
                raise ParameterError("function", self.name, allowed, VERSION)

    def _digest(self, content: Callable[[], Any]) -> str:
        return hashlib.sha256(content()).hexdigest() if self.hashed else ""

    def _data_of(self, value: Any, path: str) -> str:
        """Return data as text, if it is plain as Python shows it; the empty text if its content is not known."""
        kind, library = type(value).__qualname__, type(value).__module__.partition(".")[0]
        if isinstance(value, MethodType):
            return self.text_of([value.__func__, value.__self__], path)
        if isinstance(value, functools.partial):
            return self.text_of([value.func, list(value.args), value.keywords], path)
        if is_code(value):
            self.refer(path, value)
            return f"{kind} {parts.full_name(inspect.unwrap(value))}"
        if library == "mlflow" and kind == "PromptVersion":  # the version decides the content
            return f"{kind}({value.uri})"
        if isinstance(value, re.Pattern):  # shows its first 200 characters
            return f"{kind}({value.pattern!r}, {value.flags})"
        is_of_types = library == "typing" or (library == "types" and kind in ("GenericAlias", "UnionType"))
        if isinstance(value, _SHOWN) or is_of_types or (library == "torch" and kind in ("dtype", "device")):
            return repr(value)
        if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
            if value.dtype.hasobject:
                content = self.text_of(value.tolist(), path)
            else:
                content = self._digest(lambda: np.ascontiguousarray(value).reshape(-1).view(np.uint8))
            return f"{kind}({np.lib.format.dtype_to_descr(value.dtype)}, {value.shape}, {content})"
        if library == "torch" and hasattr(value, "detach"):
            raw = value.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy()
            return f"{kind}({value.dtype}, {tuple(value.shape)}, {self._digest(lambda: raw.data)})"
        if library == "scipy" and hasattr(value, "tocoo"):
            sparse = value.tocoo()
            return f"{kind}{self.text_of([value.shape, sparse.row, sparse.col, sparse.data], path)}"
        if library == "pandas":
            frame = value if hasattr(value, "columns") else value.to_frame()
            names = self.text_of([list(frame.columns), list(frame.index.names), list(map(str, frame.dtypes))], path)
            return f"{kind}({names}, {self._digest(lambda: parts.arrow_bytes(frame))})"
        if hasattr(value, "__arrow_c_stream__"):
            return f"{kind}({self._digest(lambda: parts.arrow_bytes(value))})"
        items = self._items_of(value, path)
        classes = [each for each in type(value).__mro__ if each not in _BUILT_IN]
        # What the user's classes say of an object, and its attributes, are all that it is.
        is_own = classes and all(self.is_local(each.__module__) and not hasattr(each, "__slots__") for each in classes)
        is_pydantic = hasattr(value, "__pydantic_fields__")
        is_namespace = isinstance(value, argparse.Namespace)
        is_record = is_pydantic or is_namespace or dataclasses.is_dataclass(value)
        if is_record or is_own or (items and getattr(value, "__dict__", None)):
            self.refer(kind, type(value))
            attributes = dict(vars(value))
            for part in ("extra", "private"):
                attributes |= getattr(value, f"__pydantic_{part}__", None) or {}
            return f"{kind}({items}{self.text_of(attributes, path)})"
        if items or parts.full_name(type(value)).removeprefix("builtins.") in _EMPTY:
            return items or kind
        # An object that its package has, such as a logger, is known by its name there.
        module = type(value).__module__
        package = None if self.is_local(module) else sys.modules.get(module.partition(".")[0])
        objects = vars(package).items() if package else ()
        return next((f"{module}.{name}" for name, each in objects if each is value), "")

    def _items_of(self, value: Any, path: str) -> str:
        """Return a container as text; the empty text of anything else."""
        if type(value) in (list, tuple) and {*map(type, value)} <= _PLAIN:
            return repr(value)
        if isinstance(value, list | tuple):
            texts = ", ".join(self.text_of(each, f"{path}[{place}]") for place, each in enumerate(value))
            return f"[{texts}]" if isinstance(value, list) else f"({texts}{',' if len(value) == 1 else ''})"
        if isinstance(value, set | frozenset):
            return f"{type(value).__qualname__}({', '.join(sorted(self.text_of(each, path) for each in value))})"
        if isinstance(value, dict):
            pairs = (
                f"{self.text_of(key, path)}: {self.text_of(each, f'{path}[{key!r}]')}" for key, each in value.items()
            )
            default = getattr(value, "default_factory", None)
            return f"{{{', '.join(pairs)}}}" + (f", else {self.text_of(default, path)}" if default else "")
        return ""
