"""Data as text: what plain data, arrays and tables show of themselves, and a refusal of everything else."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import enum
import functools
import inspect
import logging
import random
import re
import sys
from abc import ABC, abstractmethod
from pathlib import PurePath
from types import MethodType, ModuleType
from typing import Any, Final

import numpy as np

from mlflow_l3d.approaches.functions.parts import arrow_bytes, digest, full_name
from mlflow_l3d.errors import ParameterError

NUMBERS: Final = (bool, int, float, complex, np.generic, range, slice, type(None), type(...), dt.date, dt.time)
SHOWN: Final = (*NUMBERS, str, bytes, re.Pattern, PurePath, np.dtype, dt.timedelta, enum.Enum)
"""What these show of themselves is all that they are."""
WITHOUT_CONTENT: Final = (ModuleType, np.ufunc, logging.Logger)
"""Packages whose objects are known by name alone: their content is the version of the package."""
VERSION: Final = 'Give a version, which you change with it: version="1".'


class DataTexts(ABC):
    """Texts of data that a function refers to.

    Attributes
    ----------
    name, module
        What errors call the function, and its module.
    strict
        Whether data of unknown content are an error.
    """

    name: str
    module: str | None
    strict: bool

    @abstractmethod
    def refer(self, called: str, value: Any) -> None:
        """Add what is behind a name."""

    @abstractmethod
    def look_into(self, called: str, value: Any) -> None:
        """Add what no source says of an object of another module."""

    def text_of(self, value: Any, path: str) -> str:
        """Return data as text; functions in it are added."""
        try:
            text = self.data_of(value, path)
        except ParameterError:
            raise
        except Exception:  # noqa: BLE001 - whatever a stranger's object raises, its content is not known
            text = ""
        return text or self.refuse(path, value)

    def refuse(self, path: str, value: Any) -> str:
        """Raise the error of an object whose content is not known; without `strict` return a text for it."""
        if not self.strict:
            return "unknown"
        allowed = f"refers to {path}, of type {type(value).__name__}, whose content is not known"
        raise ParameterError("function", self.name, allowed, VERSION)

    def data_of(self, value: Any, path: str) -> str:
        """Return data as text, if it is plain as Python shows it; the empty text if its content is not known."""
        kind, library = type(value).__qualname__, type(value).__module__.partition(".")[0]
        if isinstance(value, MethodType):
            return self.text_of([value.__func__, value.__self__], path)
        if isinstance(value, functools.partial):
            return self.text_of([value.func, list(value.args), value.keywords], path)
        if inspect.isroutine(value) or isinstance(value, (type, *WITHOUT_CONTENT)) or hasattr(value, "__wrapped__"):
            if getattr(value, "__module__", None) == self.module:
                self.refer(path, value)
            else:
                self.look_into(path, inspect.unwrap(value))
            return f"{kind} {full_name(value)}"
        if value is getattr(random, "_inst", None):  # what functions of `random` are methods of
            return kind
        if library == "mlflow" and kind == "PromptVersion":  # the version decides the content
            return f"{kind}({value.uri})"
        if isinstance(value, re.Pattern):  # shows its first 200 characters
            return f"{kind}({value.pattern!r}, {value.flags})"
        if isinstance(value, SHOWN) or (library == "torch" and kind in ("dtype", "device")):
            return repr(value)
        if isinstance(value, list | tuple):
            parts = ", ".join(self.text_of(each, f"{path}[{place}]") for place, each in enumerate(value))
            return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
        if isinstance(value, set | frozenset):
            return f"{kind}({', '.join(sorted(self.text_of(each, path) for each in value))})"
        if isinstance(value, dict):
            pairs = (
                f"{self.text_of(key, path)}: {self.text_of(each, f'{path}[{key!r}]')}" for key, each in value.items()
            )
            default = getattr(value, "default_factory", None)
            return f"{{{', '.join(pairs)}}}" + (f", else {self.text_of(default, path)}" if default else "")
        if dataclasses.is_dataclass(value) or isinstance(value, argparse.Namespace):
            self.refer(kind, type(value))
            return f"{kind}({self.text_of(dict(vars(value)), path)})"
        if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
            content = self.text_of(value.tolist(), path) if value.dtype.hasobject else digest(value.tobytes())
            return f"{kind}({np.lib.format.dtype_to_descr(value.dtype)}, {value.shape}, {content})"
        if library == "torch" and hasattr(value, "detach"):
            raw = value.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy()
            return f"{kind}({value.dtype}, {tuple(value.shape)}, {digest(raw.tobytes())})"
        if library == "scipy" and hasattr(value, "tocoo"):
            sparse = value.tocoo()
            return f"{kind}{self.text_of([value.shape, sparse.row, sparse.col, sparse.data], path)}"
        if library == "pandas":
            frame = value if hasattr(value, "columns") else value.to_frame()
            names = self.text_of([list(frame.columns), list(frame.index.names), list(map(str, frame.dtypes))], path)
            return f"{kind}({names}, {digest(arrow_bytes(frame))})"
        return f"{kind}({digest(arrow_bytes(value))})" if hasattr(value, "__arrow_c_stream__") else ""
