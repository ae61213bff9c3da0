"""Files of a finished study: JSON, and tables that MLflow's UI shows."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_l3d.report.page import Document
from mlflow_l3d.report.picture import picture
from mlflow_l3d.tracking import names

_ROWS_AT_ONCE = 500


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def save_report(folder: Path, name: str, report: Document) -> None:
    """Write the page of a result under a name, and its first screen as a picture, which MLflow's UI shows."""
    report.save(folder, name)
    (folder / names.SUMMARY).write_text(picture(report), encoding="utf-8")


def json_types(value: Any) -> Any:
    """Return a value as JSON types, at any depth: a frame as its rows, null for missing or infinite numbers."""
    if value is None or type(value) in (str, int, bool):  # most are: what follows takes much longer
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, pd.DataFrame):
        value = value.astype(object).to_dict("records")
    if isinstance(value, Mapping):
        return {str(key): json_types(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_types(each) for each in value]
    return value


def write_json(path: Path, content: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Write content as :func:`json_types` returns it."""
    text = json.dumps(json_types(content), indent=indent, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame as an artifact in the form of MLflow's ``log_table``, which its UI shows as a table.

    A few rows at a time: as text a frame is many times as large.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"columns": {json.dumps(list(frame.columns))}, "data": [')
        for start in range(0, len(frame), _ROWS_AT_ONCE):
            rows = frame.iloc[start : start + _ROWS_AT_ONCE].astype(object).to_numpy().tolist()
            file.write((", " if start else "") + json.dumps(json_types(rows), allow_nan=False)[1:-1])
        file.write("]}")


def write_tables(folder: Path, frames: Mapping[str, pd.DataFrame | None]) -> list[str]:
    """Write the frames that there are by their names, see :func:`write_table`; return these names."""
    found = {name: frame for name, frame in frames.items() if frame is not None}
    for name, frame in found.items():
        write_table(folder / name, frame)
    return list(found)
