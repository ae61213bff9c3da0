"""Predictions of the cells of a recorded investigation, as an ablation needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.groups import Examples
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.ablation.numbers import Answers, IntArray, Place, from_predictions, rescored
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client
from mlflow_l3d.tracking.earlier.predictions import has_reference, test_rows
from mlflow_l3d.tracking.earlier.reader import fetch_artifact, read_predictions

if TYPE_CHECKING:
    import pyarrow as pa

_Key = tuple[str, ...]
_Part = tuple[_Key, "pa.Table"]
_ANSWERS: Final = ["example_id", "label", "prediction"]
_ROWS: Final = 1 << 16
"""Predictions that are read at once."""


def read_answers(
    client: Client, run_id: str, cells: pd.DataFrame, scores: Tables, metric: Metric
) -> tuple[Answers | None, str]:
    """Read the predictions of the cells of an investigation: from the parent's one table, else cell by cell.

    Parameters
    ----------
    client
        Of the tracking server.
    run_id
        The parent.
    cells
        One row per cell, as :class:`mlflow_l3d.tracking.earlier.reader.Recorded` holds them.
    scores
        Their scores.
    metric
        What is to be computed again from fewer examples.

    Returns
    -------
    tuple of Answers or None, and str
        None, and why, where a cell has no predictions, or `metric` is not that of the predictions.
    """
    if metric.name not in from_predictions():
        return None, f"the metric {metric} cannot be computed from predictions"
    finished = cells[cells["status"].eq("FINISHED") & cells[metric.name].notna()]
    keys = [_key(key) for key in finished[list(names.COORDINATES)].itertuples(index=False, name=None)]
    places = dict(zip(keys, map(_place, finished.to_dict("records")), strict=True))
    answers = _answers(_of_parent(client, run_id), places) or _answers(_of_cells(client, finished, keys), places)
    if answers is None:
        return None, "not every cell has predictions"
    again = rescored(scores, answers, metric, rank=np.arange(answers.examples))
    # A recorded metric that is further from the one of the recorded predictions does not belong to them.
    if not all(np.allclose(a, b, rtol=0, atol=1e-6, equal_nan=True) for a, b in _pairs(scores, again)):
        return None, f"the recorded {metric} is not that of the recorded predictions"
    return answers, ""


def _pairs(one: Tables, other: Tables) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    yield one.golden, other.golden
    yield one.base, other.base
    for name, table in one.tables.items():
        yield table, other.tables[name]


def _place(cell: Mapping[object, object]) -> Place:
    def number(name: str) -> int:
        value = cell[name]
        return int(str(value)) if pd.notna(value) else 0  # type: ignore[call-overload]

    if cell["phase"] == "golden":
        return Place(None, number("index"))
    if cell["phase"] == "base":
        return Place(None, number("row"))
    return Place(str(cell["factor"]), number("row"), number("column"))


def _answers(parts: Iterator[_Part], places: Mapping[_Key, Place]) -> Answers | None:
    """Return the predictions of the cells, as small as they can be held; None where a cell has none."""
    examples = Examples()
    predicted: dict[Place, tuple[IntArray, IntArray, IntArray]] = {}
    for key, table in parts:
        if key in places:
            ids, *others = (table[name].to_numpy() for name in _ANSWERS)
            labels, predictions = map(_small, others)
            predicted[places[key]] = examples.find(ids), labels, predictions  # type: ignore[assignment]
    if not predicted or len(predicted) < len(places):
        return None
    # Examples are numbered in the order of their ids, however the cells are.
    number = np.empty(len(examples), dtype=np.int32)
    number[np.argsort(np.array(examples.ids))] = np.arange(len(examples), dtype=np.int32)
    shared: dict[bytes, np.ndarray] = {}
    cells = {}
    for place in places.values():
        ids, *others = predicted[place]
        numbers = number[ids]
        cells[place] = (shared.setdefault(numbers.tobytes(), numbers), *others)
    return Answers(cells, len(examples))


def _small(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the smallest type that holds them."""
    if values.dtype.kind not in "iu" or not len(values):
        return values
    return values.astype(np.result_type(*(np.min_scalar_type(int(end)) for end in (values.min(), values.max()))))


def _of_cells(client: Client, cells: pd.DataFrame, keys: Sequence[_Key]) -> Iterator[_Part]:
    """Yield the predictions of the cells from their own runs, until one has none."""
    with closing(read_predictions(client, cells)) as read:
        for key, (_, table) in zip(keys, read, strict=True):
            if table is None:
                return
            yield key, table


def _of_parent(client: Client, run_id: str) -> Iterator[_Part]:
    """Yield the predictions of the cells from the parent's one table, if it has one, some of them at a time."""
    import pyarrow.parquet as pq

    keys = list(names.COORDINATES)
    with temporary_folder() as folder:
        path = fetch_artifact(client, run_id, names.PREDICTIONS, folder)
        if path is None:
            return
        with pq.ParquetFile(path) as file:
            if not {*keys, *_ANSWERS} <= set(file.schema_arrow.names):
                return
            marks = [names.REFERENCE] if has_reference(file.schema_arrow) else []
            for groups in _together([file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]):
                table = test_rows(file.read_row_groups(groups, [*keys, *_ANSWERS, *marks], use_threads=False))
                frame = table.select(keys).to_pandas()
                answers = table.select(_ANSWERS)
                for key, rows in frame.groupby(keys, dropna=False, observed=True, sort=False).indices.items():
                    yield _key(key), answers.take(rows)


def _together(rows: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of row groups that are read in one call; no cell lies in two of them."""
    begun, held = 0, 0
    for at, count in enumerate(rows):
        held += count
        if held >= _ROWS or at == len(rows) - 1:
            yield list(range(begun, at + 1))
            begun, held = at + 1, 0


def _key(values: Iterable[object]) -> _Key:
    texts = []
    for value in values:
        missing = value is None or value is pd.NA or value != value
        texts.append("" if missing else str(value if isinstance(value, str) else int(str(value).removesuffix(".0"))))
    return tuple(texts)
