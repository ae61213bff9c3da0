"""Predictions of the cells of a recorded investigation, as an ablation needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.groups import Examples
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.ablation.numbers import Answers, IntArray, Place, from_predictions, rescored
from mlflow_l3d.studies.comparison.reading import ANSWERS, answers_of_cells, answers_of_parent
from mlflow_l3d.tracking.connection import Client

if TYPE_CHECKING:
    import pyarrow as pa


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
    places = [*map(_place, finished.to_dict("records"))]
    answers = _answers(answers_of_parent(client, run_id, finished), places)
    answers = answers or _answers(answers_of_cells(client, finished), places)
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


def _answers(parts: Iterable[tuple[int, pa.Table]], places: Sequence[Place]) -> Answers | None:
    """Return the predictions of the cells, as small as they can be held; None where a cell has none."""
    examples = Examples()
    predicted: dict[Place, tuple[IntArray, IntArray, IntArray]] = {}
    for number, table in parts:
        ids, *others = (table[name].to_numpy() for name in ANSWERS)
        labels, predictions = map(_small, others)
        predicted[places[number]] = examples.find(ids), labels, predictions  # type: ignore[assignment]
    if not predicted or len(predicted) < len(places):
        return None
    # Examples are numbered in the order of their ids, however the cells are.
    order = np.empty(len(examples), dtype=np.int32)
    order[np.argsort(np.array(examples.ids))] = np.arange(len(examples), dtype=np.int32)
    shared: dict[bytes, np.ndarray] = {}
    cells = {}
    for place in places:
        ids, *others = predicted[place]
        numbers = order[ids]
        cells[place] = (shared.setdefault(numbers.tobytes(), numbers), *others)
    return Answers(cells, len(examples))


def _small(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the smallest type that holds them."""
    if values.dtype.kind not in "iu" or not len(values):
        return values
    return values.astype(np.result_type(*(np.min_scalar_type(int(end)) for end in (values.min(), values.max()))))
