"""CSV: long, one row a prediction with the settings of its run, or wide, one column of predictions a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.parameters.values import public_name
from mlflow_l3d.studies.importing.recorded import Array, RecordedRun, pairs, texts

_OWN: Final = ("example_id", "label", "prediction")
_KNOWN: Final = (*_OWN, "score", "task", "settings")
_NUMBERED: Final = re.compile(r"(?:prediction[_.])?([A-Za-z]\w*?)_?(\d+)")
_MOST_CLASSES: Final = 50


def read(path: Path, columns: Mapping[str, str]) -> list[RecordedRun]:
    """Return the runs of one file; `columns` says which of its columns is what, see ``--columns``."""
    for name in columns:
        if name not in _KNOWN:
            raise unknown_name("columns", name, _KNOWN)
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise L3DError(f"{path.name}: cannot be read as CSV ({error}).") from error
    listed = [name for name in columns.get("settings", "").split("+") if name]
    renamed = {given: name for name, given in columns.items() if name != "settings"}
    for given in (*renamed, *listed):
        if given not in frame:
            raise ParameterError("columns", given, f"{path.name} has no such column, but {', '.join(map(str, frame))}")
    frame = frame.rename(columns=renamed)
    wide = "prediction" not in frame
    for name in _OWN[: 2 if wide else 3]:
        if name not in frame:
            have = ", ".join(map(str, frame))
            fix = f"Say which of them it is: --columns {name}=COLUMN."
            raise L3DError(f"{path.name}: has no column {name}, but {have}. {fix}")
    if frame.empty:
        raise L3DError(f"{path.name}: holds no rows.")
    found = _wide(frame) if wide else _long(path.name, frame, listed)
    if not found:
        example = "seed_1, or seed=1;shots=4"
        raise L3DError(f"{path.name}: has neither a column prediction nor any that names a run, such as {example}.")
    every = pd.concat([part for _, part in found])
    as_numbers = _kind(every)
    names = sorted(set(every["label"])) if as_numbers is None and _few(every, found) else None
    return [_run(path, settings, part, as_numbers, names) for settings, part in found]


def _wide(frame: pd.DataFrame) -> list[tuple[dict[str, str], pd.DataFrame]]:
    """Return settings and rows of each column whose name is ``name=value;name=value`` or ends in a number."""
    found = []
    for name in map(str, frame):
        settings = pairs(name.replace(";", ",")) if "=" in name else {}
        if match := None if settings else _NUMBERED.fullmatch(name):
            settings = {match[1]: match[2]}
        if settings and name not in _KNOWN:
            part = frame[["example_id", "label", *(["task"] if "task" in frame else [])]]
            found.append((settings, part.assign(prediction=frame[name])))
    return found


def _long(source: str, frame: pd.DataFrame, listed: Sequence[str]) -> list[tuple[dict[str, str], pd.DataFrame]]:
    """Return settings and rows of each run: rows with the same values of all columns that are no example's own."""
    names = list(listed) or _settings_in(frame)
    if not names:
        return [({}, frame)]
    groups = list(frame.groupby(names, sort=False))
    if len(groups) > max(1, len(frame) // 2):
        each = max(names, key=lambda name: frame[name].nunique())
        fix = "Name the columns that are settings: --columns settings=seed+shots."
        raise L3DError(
            f"{source}: column {each} has another value in almost every row, so it tells no runs apart. {fix}"
        )
    return [(dict(zip(names, map(str, values), strict=True)), part) for values, part in groups]


def _settings_in(frame: pd.DataFrame) -> list[str]:
    """Return the columns that say how a run was made: constant ones, and those in which an example has two values."""
    own = frame.groupby("example_id", sort=False)
    others = [str(name) for name in frame if name not in _KNOWN]
    return [name for name in others if frame[name].nunique() == 1 or own[name].nunique().max() > 1]


def _kind(frame: pd.DataFrame) -> type | None:
    """Return whether labels and predictions are whole numbers (int), numbers (float), or texts (None)."""
    values = pd.concat([frame["label"], frame["prediction"]])
    values = values[values != ""]
    if values.str.fullmatch(r"-?\d+").all():
        return int
    return float if pd.to_numeric(values, errors="coerce").notna().sum() > len(values) * 0.5 else None


def _few(frame: pd.DataFrame, runs: Sequence[Any]) -> bool:
    """Return whether the labels are names of classes, not answers of their own."""
    return frame["label"].nunique() <= min(_MOST_CLASSES, len(frame) // len(runs) // 2)


def _run(
    path: Path, settings: Mapping[str, str], rows: pd.DataFrame, kind: type | None, names: Sequence[str] | None
) -> RecordedRun:
    labels, predictions = (_values(rows[name], kind, names) for name in ("label", "prediction"))
    settings, scores = {name: public_name(value) for name, value in settings.items()}, {}
    if "score" in rows:
        scores["score"] = float(pd.to_numeric(rows["score"], errors="coerce").to_numpy(dtype=np.float64).mean())
    how = ", ".join(f"{name}={value}" for name, value in settings.items())
    tasks = sorted(set(rows["task"])) if "task" in rows else [path.stem]
    if len(tasks) > 1:
        raise L3DError(f"{path.name}{how and f' ({how})'}: one run has rows of several tasks, {', '.join(tasks)}.")
    return RecordedRun(
        source=f"{path.name} ({how})" if how else path.name,
        task=tasks[0],
        kind="regression" if kind is float else "classification" if kind is int or names else "multiple_choice",
        settings=settings,
        scores=scores,
        ids=rows["example_id"].to_numpy(dtype=str),
        labels=labels,
        predictions=predictions,
    )


def _values(column: pd.Series, kind: type | None, names: Sequence[str] | None) -> Array:
    if kind is not None:
        empty = str(UNPARSED) if kind is int else "nan"
        numbers = pd.to_numeric(column.where(column != "", empty), errors="coerce")
        return numbers.to_numpy(dtype=np.int64 if kind is int else np.float64)
    if names is None:
        return texts([value or None for value in column])
    known = {name: at for at, name in enumerate(names)}
    return column.map(known).fillna(UNPARSED).to_numpy(dtype=np.int64)
