"""The result of a finished study as one JSON file of its run, which is written and read by the types of its fields.

What the verbs of all studies return can be written and read (:attr:`mlflow_l3d.parameters.verbs.Verb.returns`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named, typed_name
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.reader import fetch_frame, known_document

LEFT_OUT: Final = {"file": ""}
"""Metadata of a field that is not written: its default is read. Another name is a Parquet file of the run."""
_PLAIN: Final = frozenset({str, int, bool, type(None)})


def write_result(folder: Path, result: OnOneScreen, name: str = names.RESULT) -> None:
    """Write a result among the files of its run."""
    content = {"schema": 1, "result": type(result).__name__, "content": _written_fields(result)}
    (folder / name).write_text(f"{json.dumps(content, ensure_ascii=False, allow_nan=False)}\n", encoding="utf-8")


def read_result(client: Client, run_id: str, *, files: bool = False, name: str = names.RESULT) -> Any:
    """Return the result that a run holds; None if it holds none, or one that this version does not read.

    Parameters
    ----------
    client, run_id
        The server, and the run.
    files
        Whether to read the fields that have a file of their own; they are None otherwise.
    name
        Of the file.
    """
    document = known_document(client, run_id, name)
    target = _result_classes().get(str(document.get("result")), "")
    if not target:
        return None
    module, _, kind = target.partition(":")
    try:
        return _Reader(client, run_id, files).record(getattr(import_module(module), kind), document["content"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


@cache
def _result_classes() -> dict[str, str]:
    """Return name -> ``module:name`` of the classes that are read."""
    return {target.partition(":")[2]: target for verb in verbs().values() for target in verb.returns}


def _written(value: Any) -> Any:
    """Return a value as JSON types; a number that is not finite is its name."""
    if type(value) in _PLAIN:  # most are: what follows takes much longer
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, Metric):
        return typed_name(value)
    if isinstance(value, OnOneScreen) and (run_id := getattr(value, "run_id", "")):  # another run holds it
        return run_id
    if is_dataclass(value):
        return _written_fields(value)
    if isinstance(value, pd.DataFrame):
        rows = value.astype(object).where(value.notna(), None).to_dict("tight")
        return _written({**rows, "types": [str(kind) for kind in value.dtypes]})
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _written(each) for key, each in value.items()}
        return [[_written(key), _written(each)] for key, each in value.items()]
    if isinstance(value, np.ndarray | np.generic):
        return _written(value.tolist())
    if isinstance(value, list | tuple):
        return [each if type(each) in _PLAIN else _written(each) for each in value]
    return value


def _written_fields(record: Any) -> dict[str, Any]:
    return {each.name: _written(getattr(record, each.name)) for each in fields(record) if "file" not in each.metadata}


@dataclass(frozen=True)
class _Reader:
    """Reads the values of one run; see :func:`read_result`."""

    client: Client
    run_id: str
    files: bool

    def record(self, kind: type, content: Mapping[str, Any]) -> Any:
        """Return a record of a class; what lies in a file of its own is read from it."""
        hints = get_type_hints(kind)
        values = {name: self.value(hints[name], value) for name, value in content.items()}
        for each in fields(kind):
            if file := each.metadata.get("file"):
                values[each.name] = self._frame(file) if self.files else None
        return kind(**values)

    def _frame(self, file: str) -> pd.DataFrame | None:
        """Return a Parquet file of the run; None if there is none."""
        with temporary_folder() as folder:
            return fetch_frame(self.client, self.run_id, file, folder)

    def value(self, kind: Any, value: Any) -> Any:
        """Return the value of a type that :func:`_written` wrote."""
        if value is None or kind is Any:
            return value
        origin, kinds = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            kinds = tuple(each for each in kinds if each is not type(None))
            if len(kinds) > 1 and isinstance(value, Mapping):
                kinds = tuple(each for each in kinds if {part.name for part in fields(each)} == set(value))
            return self.value(kinds[0], value) if len(kinds) == 1 else value
        if kind is Metric:
            return named(value)
        if kind is float or origin in (np.ndarray, npt.NDArray):  # which of them, is up to numpy's version
            return float(value) if kind is float else np.array(value, dtype=np.float64)
        if kind is pd.DataFrame:
            frame = pd.DataFrame.from_dict(value, orient="tight")
            return frame.astype(dict(zip(frame.columns, value["types"], strict=True)))
        if origin in (list, tuple):
            kinds = kinds[:1] * len(value) if kinds[1:] in ((), (...,)) else kinds
            return origin(self.value(each, part) for each, part in zip(kinds, value, strict=True))
        if isinstance(kind, type) and issubclass(kind, tuple):
            hints = get_type_hints(kind).values()
            return kind(*(self.value(each, part) for each, part in zip(hints, value, strict=True)))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            pairs = value.items() if isinstance(value, Mapping) else value
            return {self.value(kinds[0], key): self.value(kinds[1], each) for key, each in pairs}
        if isinstance(value, str) and is_dataclass(kind):  # another run holds it
            return read_result(self.client, value, files=self.files)
        return self.record(kind, value) if is_dataclass(kind) else value  # type: ignore[arg-type]
