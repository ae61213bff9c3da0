"""What a function is made of, as text that is the same in every process: its source, and all that it refers to."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import datetime as dt
import dis
import enum
import functools
import hashlib
import inspect
import logging
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.functions.local_modules import local_modules
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError

_NUMBERS: Final = (bool, int, float, complex, np.generic, range, slice, type(None), type(...), dt.date, dt.time)
_SHOWN: Final = (*_NUMBERS, str, bytes, re.Pattern, PurePath, np.dtype, dt.timedelta, enum.Enum)
"""What these show of themselves is all that they are."""
_WITHOUT_CONTENT: Final = (ModuleType, np.ufunc, logging.Logger)
"""Packages whose objects are known by name alone: their content is the version of the package."""
_VERSION: Final = 'Give a version, which you change with it: version="1".'


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
    content = _Content(name, getattr(inspect.unwrap(getattr(thing, "func", thing)), "__module__", None))
    content.refer(getattr(thing, "__name__", name), thing)
    return content.texts


class BySource:
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

    function: Callable[..., Any]
    name: str
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
        return {**vars(self), "is_versioned": self.is_versioned or bool(self.texts)}


class _Content:
    """Texts of one function and of what it refers to."""

    def __init__(self, name: str, module: str | None) -> None:
        self.name, self.module = name, module
        self.texts: dict[str, str] = {}
        self._followed: set[int] = set()

    def refer(self, called: str, value: Any) -> None:
        """Add what is behind a name."""
        value = value.function if isinstance(value, Approach) and hasattr(value, "function") else value
        for decorated in _decorated(value):
            self._refer_plainly(f"{called}, decorated", decorated)
            for kind, function in getattr(decorated, "registry", {}).items():  # of functools.singledispatch
                self.refer(f"{called}, of {_full_name(kind)}", function)
        self._refer_plainly(called, inspect.unwrap(value))

    def _refer_plainly(self, called: str, value: Any) -> None:
        """Add what is behind a name, whatever is decorated by it."""
        if called in self.texts or value is None:
            return
        if isinstance(value, FunctionType | type) and _module_of(value) == self.module:
            self._follow(called, value)
        elif isinstance(value, MethodType):
            self.texts[called] = self._text(value, called)
        elif isinstance(value, (FunctionType, type, *_WITHOUT_CONTENT)) or inspect.isroutine(value):
            # What another package brings along is what its name says.
            if (full := _full_name(value)) not in (called, f"builtins.{called}"):
                self.texts[called] = full
        else:
            self.texts[called] = self._text(value, called)

    def _follow(self, called: str, thing: FunctionType | type) -> None:
        """Add a source, and what it refers to."""
        try:
            self.texts[called] = _source(thing)
        except (OSError, TypeError):
            allowed = f"has no source of {called} to distinguish it by"
            raise ParameterError("function", self.name, allowed, _VERSION) from None
        if id(thing) in self._followed:
            return
        self._followed.add(id(thing))
        for base in (*thing.__bases__, type(thing)) if isinstance(thing, type) else ():
            self.refer(base.__name__, base)
        for name, value in vars(thing).items():
            if not name.startswith("__") and isinstance(value, (*_SHOWN, list, dict, tuple, set, np.ndarray)):
                self.refer(f"{called}.{name}", value)
        for function in _functions(thing):
            for each in _named(function.__code__):
                self.refer(each, function.__globals__.get(each))
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            held = [(name, cell.cell_contents) for name, cell in cells if name != "__class__"]
            defaults = [*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
            for place, value in (*held, *defaults):
                self.refer(f"{called}.{place}", value)

    def _text(self, value: Any, path: str) -> str:
        """Return data as text; functions in it are added."""
        try:
            text = self._data(value, path)
        except ParameterError:
            raise
        except Exception:  # noqa: BLE001 - whatever a stranger's object raises, its content is not known
            text = ""
        if not text:
            allowed = f"refers to {path}, of type {type(value).__name__}, whose content is not known"
            raise ParameterError("function", self.name, allowed, _VERSION)
        return text

    def _data(self, value: Any, path: str) -> str:
        """Return data as text, if it is plain as Python shows it; the empty text if its content is not known."""
        kind, library = type(value).__qualname__, type(value).__module__.partition(".")[0]
        if isinstance(value, MethodType):
            return self._text([value.__func__, value.__self__], path)
        if isinstance(value, functools.partial):
            return self._text([value.func, list(value.args), value.keywords], path)
        if inspect.isroutine(value) or isinstance(value, (type, *_WITHOUT_CONTENT)) or hasattr(value, "__wrapped__"):
            if getattr(value, "__module__", None) == self.module:
                self.refer(path, value)
            return f"{kind} {_full_name(value)}"
        if value is getattr(random, "_inst", None):  # what functions of `random` are methods of
            return kind
        if library == "mlflow" and kind == "PromptVersion":  # the version decides the content
            return f"{kind}({value.uri})"
        if isinstance(value, re.Pattern):  # shows its first 200 characters
            return f"{kind}({value.pattern!r}, {value.flags})"
        if isinstance(value, _SHOWN) or (library == "torch" and kind in ("dtype", "device")):
            return repr(value)
        if isinstance(value, list | tuple):
            parts = ", ".join(self._text(each, f"{path}[{place}]") for place, each in enumerate(value))
            return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
        if isinstance(value, set | frozenset):
            return f"{kind}({', '.join(sorted(self._text(each, path) for each in value))})"
        if isinstance(value, dict):
            pairs = (f"{self._text(key, path)}: {self._text(each, f'{path}[{key!r}]')}" for key, each in value.items())
            default = getattr(value, "default_factory", None)
            return f"{{{', '.join(pairs)}}}" + (f", else {self._text(default, path)}" if default else "")
        if dataclasses.is_dataclass(value) or isinstance(value, argparse.Namespace):
            self.refer(kind, type(value))
            return f"{kind}({self._text(dict(vars(value)), path)})"
        if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
            content = self._text(value.tolist(), path) if value.dtype.hasobject else _digest(value.tobytes())
            return f"{kind}({np.lib.format.dtype_to_descr(value.dtype)}, {value.shape}, {content})"
        if library == "torch" and hasattr(value, "detach"):
            raw = value.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy()
            return f"{kind}({value.dtype}, {tuple(value.shape)}, {_digest(raw.tobytes())})"
        if library == "scipy" and hasattr(value, "tocoo"):
            sparse = value.tocoo()
            return f"{kind}{self._text([value.shape, sparse.row, sparse.col, sparse.data], path)}"
        if library == "pandas":
            frame = value if hasattr(value, "columns") else value.to_frame()
            names = self._text([list(frame.columns), list(frame.index.names), list(map(str, frame.dtypes))], path)
            return f"{kind}({names}, {_digest(_arrow_bytes(frame))})"
        return f"{kind}({_digest(_arrow_bytes(value))})" if hasattr(value, "__arrow_c_stream__") else ""


def _source(thing: FunctionType | type) -> str:
    """Return a source; of a class of a notebook it comes from the cell of its methods.

    Raises
    ------
    OSError, TypeError
        If there is none.
    """
    if isinstance(thing, FunctionType):
        return inspect.getsource(thing.__code__)
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        for code in (each.__code__ for each in vars(thing).values() if isinstance(each, FunctionType)):
            with suppress(OSError, SyntaxError):
                cell = "".join(inspect.findsource(code)[0])
                classes = [node for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.ClassDef)]
                for node in (node for node in classes if node.name == thing.__name__):
                    if node.lineno <= code.co_firstlineno <= (node.end_lineno or 0):
                        return ast.get_source_segment(cell, node) or ""
        raise


def _full_name(value: Any) -> str:
    """Return module and name of a function, class or module."""
    if isinstance(value, FunctionType):
        return f"{_module_of(value)}.{value.__code__.co_qualname}"
    names = (getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", "")))
    return ".".join(name for name in names if name)


def _module_of(value: FunctionType | type) -> str:
    """Return the module in which a function or class stands; a decorator names that of what it decorates as its own."""
    return str(value.__globals__.get("__name__") if isinstance(value, FunctionType) else value.__module__)


def _decorated(value: Any) -> Iterator[Any]:
    """Yield a decorated function with each of its decorations, the outermost first; not what is decorated."""
    while (inner := getattr(value, "__wrapped__", None)) is not None:
        yield value
        value = inner


def _functions(thing: FunctionType | type) -> Iterator[FunctionType]:
    """Yield a function, or those of a class, with the decorations that its module has."""
    if isinstance(thing, FunctionType):
        yield thing
        return
    for each in vars(thing).values():
        for held in (each, *(getattr(each, name, None) for name in ("__func__", "fget", "func"))):
            layers = (layer for layer in _decorated(held) if isinstance(layer, FunctionType))
            yield from (layer for layer in layers if _module_of(layer) == thing.__module__)
            if isinstance(function := inspect.unwrap(held) if callable(held) else None, FunctionType):
                yield function


def _named(code: CodeType) -> Iterator[str]:
    """Yield the global names that a code looks up, and those within it."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            yield step.argval
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _named(each)


def _digest(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def _arrow_bytes(frame: Any) -> memoryview:
    """Return the columns of a data frame, with its index, as Arrow writes them; raise if it cannot."""
    import pyarrow as pa

    is_pandas = type(frame).__module__.startswith("pandas")
    table = pa.Table.from_pandas(frame, preserve_index=True) if is_pandas else pa.table(frame)
    table, sink = table.replace_schema_metadata(None).combine_chunks(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
