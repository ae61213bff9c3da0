"""Predictions of the cells of a recorded investigation, as an ablation needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.comparison.system import ANSWERS
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.ablation.numbers import Answers, Place, from_predictions, rescored
from mlflow_l3d.studies.comparison.reading import answers_of_cells, answers_of_parent
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
    every, computed = (
        np.concatenate([*map(np.ravel, (each.golden, each.base, *each.tables.values()))]) for each in (scores, again)
    )
    if not np.allclose(every, computed, rtol=0, atol=1e-6, equal_nan=True):
        return None, f"the recorded {metric} is not that of the recorded predictions"
    return answers, ""


def _place(cell: Mapping[Any, Any]) -> Place:
    row, column, index = (0 if pd.isna(cell[name]) else int(cell[name]) for name in ("row", "column", "index"))
    if cell["phase"] == "golden":
        return Place(None, index)
    return Place(None, row) if cell["phase"] == "base" else Place(str(cell["factor"]), row, column)


def _answers(parts: Iterable[tuple[int, pa.Table]], places: Sequence[Place]) -> Answers | None:
    """Return the predictions of the cells; None where a cell has none."""
    predicted = {places[number]: [table[name].to_numpy() for name in ANSWERS] for number, table in parts}
    if not predicted or len(predicted) < len(places):
        return None
    # Examples are numbered in the order of their ids, however the cells are.
    ids = [predicted[place][0] for place in places]
    examples, numbers = np.unique(np.concatenate(ids), return_inverse=True)
    of_cells = np.split(numbers, np.cumsum([*map(len, ids)])[:-1])
    cells = {place: (chosen, *predicted[place][1:]) for place, chosen in zip(places, of_cells, strict=True)}
    return Answers(cells, len(examples))
