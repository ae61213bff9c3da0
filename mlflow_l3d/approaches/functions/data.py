"""Data as text: what plain data, arrays and tables show of themselves; of everything else the content is not known."""

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
from collections.abc import Callable, Iterable
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.functions.parts import arrow_bytes, full_name
from mlflow_l3d.errors import ParameterError

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


class DataTexts:
    """Texts of data that a function refers to.

    Attributes
    ----------
    name
        What errors call the function.
    hashed
        Whether large data are read; if not, their text is their type.
    is_local
        Returns whether a module is the user's own code.
    refer
        Adds what is behind a name.
    unknown
        Path and value of each object whose content is not known.
    """

    name: str
    hashed: bool
    is_local: Callable[[str], bool]
    refer: Callable[[str, Any], None]

    def __init__(self) -> None:
        self.unknown: list[tuple[str, Any]] = []

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
            return f"{kind} {full_name(inspect.unwrap(value))}"
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
            return f"{kind}({names}, {self._digest(lambda: arrow_bytes(frame))})"
        if hasattr(value, "__arrow_c_stream__"):
            return f"{kind}({self._digest(lambda: arrow_bytes(value))})"
        items = self._items_of(value, path)
        classes = [each for each in type(value).__mro__ if each not in _BUILT_IN]
        # What the user's classes say of an object, and its attributes, are all that it is.
        is_own = classes and all(self.is_local(each.__module__) and not hasattr(each, "__slots__") for each in classes)
        is_pydantic, is_namespace = hasattr(value, "__pydantic_fields__"), isinstance(value, argparse.Namespace)
        is_record = is_pydantic or is_namespace or dataclasses.is_dataclass(value)
        if is_record or is_own or (items and getattr(value, "__dict__", None)):
            self.refer(kind, type(value))
            attributes = dict(vars(value))
            for part in ("extra", "private"):
                attributes |= getattr(value, f"__pydantic_{part}__", None) or {}
            return f"{kind}({items}{self.text_of(attributes, path)})"
        if items or full_name(type(value)).removeprefix("builtins.") in _EMPTY:
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
            parts = ", ".join(self.text_of(each, f"{path}[{place}]") for place, each in enumerate(value))
            return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
        if isinstance(value, set | frozenset):
            return f"{type(value).__qualname__}({', '.join(sorted(self.text_of(each, path) for each in value))})"
        if isinstance(value, dict):
            pairs = (
                f"{self.text_of(key, path)}: {self.text_of(each, f'{path}[{key!r}]')}" for key, each in value.items()
            )
            default = getattr(value, "default_factory", None)
            return f"{{{', '.join(pairs)}}}" + (f", else {self.text_of(default, path)}" if default else "")
        return ""
