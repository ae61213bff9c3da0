"""Predictions of the cells of a recorded investigation, as an ablation needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.planning.subsets import Answers, IntArray, Place, from_predictions, rescored
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.reader import fetch_artifact, read_predictions

if TYPE_CHECKING:
    from mlflow import MlflowClient

_DIFFERENT: Final = 1e-6
"""Where a recorded metric is further from the one of the recorded predictions, they do not belong together."""


def read_answers(
    client: MlflowClient, run_id: str, cells: pd.DataFrame, scores: Tables, metric: str
) -> tuple[Answers | None, str]:
    """Read the predictions of the cells of an investigation: from the parent's one table, else cell by cell.

    Parameters
    ----------
    client
        Of the tracking server.
    run_id
        The parent.
    cells
        One row a cell, as :class:`mlflow_l3d.tracking.reader.Recorded` holds them.
    scores
        Their scores.
    metric
        What is to be computed anew from fewer examples.

    Returns
    -------
    tuple of Answers or None, and str
        None, and why, where a cell has no predictions, or `metric` is not that of the predictions.
    """
    if metric not in from_predictions():
        return None, f"the metric {metric} cannot be computed from predictions"
    finished = cells[cells["status"].eq("FINISHED") & cells[metric].notna()]
    every = _of_parent(client, run_id, finished)
    if every is None:
        every = [frame for _, frame in read_predictions(client, finished["run_id"].tolist())]
    if not every or any(frame is None for frame in every):
        return None, "not every cell has predictions"
    frames = cast("list[pd.DataFrame]", every)
    known = np.unique(np.concatenate([frame["example_id"].to_numpy() for frame in frames]))
    found: dict[Place, tuple[IntArray, IntArray, IntArray]] = {}
    for cell, frame in zip(finished.to_dict("records"), frames, strict=True):
        place = _place(cell)
        ids, labels, predictions = (frame[name].to_numpy() for name in ("example_id", "label", "prediction"))
        found[place] = np.searchsorted(known, ids).astype(np.int64), labels, predictions
    answers = Answers(found, len(known))
    again = rescored(scores, answers, metric, rank=np.arange(len(known)))
    if not all(np.allclose(a, b, rtol=0, atol=_DIFFERENT, equal_nan=True) for a, b in _pairs(scores, again)):
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


def _of_parent(client: MlflowClient, run_id: str, cells: pd.DataFrame) -> list[pd.DataFrame | None] | None:
    """Return the predictions of the cells from the parent's one table; None where it lacks a cell."""
    with temporary_folder() as folder:
        path = fetch_artifact(client, run_id, names.PREDICTIONS, folder)
        if path is None:
            return None
        table = pd.read_parquet(path)
    keys = list(names.COORDINATES)
    if not {*keys, "example_id", "label", "prediction"} <= set(table):
        return None
    parts = {_key(key): part for key, part in table.groupby(keys, dropna=False, observed=True, sort=False)}
    wanted = [_key(key) for key in cells[keys].itertuples(index=False, name=None)]
    return [parts[key] for key in wanted] if all(key in parts for key in wanted) else None


def _key(values: Iterable[object]) -> tuple[str, ...]:
    texts = []
    for value in values:
        missing = value is None or value is pd.NA or value != value
        texts.append("" if missing else str(value if isinstance(value, str) else int(str(value).removesuffix(".0"))))
    return tuple(texts)
