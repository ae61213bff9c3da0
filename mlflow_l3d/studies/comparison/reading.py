"""Reads the independent runs of parents, and their predictions, column by column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.comparison.system import Predictions, System, systems
from mlflow_l3d.designs.analyse import Planned
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.studies.comparison.parents import Parent
from mlflow_l3d.studies.files import temporary_folder
from mlflow_l3d.studies.investigation.evaluate import check_metric, planned_by
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.reader import fetch_artifact, read_investigation, read_predictions

if TYPE_CHECKING:
    from mlflow import MlflowClient

SEED: Final = "seed."
_COLUMNS: Final = ("example_id", "label", "prediction")


class Runs(NamedTuple):
    """The independent runs of one parent: golden ones, or base runs of the radial design.

    Attributes
    ----------
    scores
        Shape (L,).
    seeds
        Factor -> shape (L,).
    predictions
        None where a run has none.
    failed
        Runs without a score.
    classes
        How many the task tells apart; 0 where that is not known.
    examples
        Test examples of a run; None where the parent does not say.
    cells, planned
        All cells of the plan, those of the tables included, and what is known of it.
    """

    scores: npt.NDArray[np.float64]
    seeds: Mapping[str, npt.NDArray[Any]]
    predictions: Predictions | None
    failed: int
    classes: int
    examples: int | None
    cells: pd.DataFrame
    planned: Planned


def systems_of(found: Mapping[str, Runs], metric: Metric) -> tuple[list[System], list[str]]:
    """Return the systems that runs of one task are, by their names, and what a reader must know about them.

    Raises
    ------
    ParameterError
        If the test sets are different ones.
    """
    notes = [
        f"{name}: {own.failed} of {own.failed + len(own.scores)} runs failed and are left out."
        for name, own in found.items()
        if own.failed
    ]
    for name, own in found.items():
        chance = metric.chance_level(own.classes)
        below = 0 if chance is None else int((own.scores < chance).sum())
        if 0 < below <= len(own.scores) / 2:
            notes.append(
                f"{name}: {below} of {len(own.scores)} runs score below chance. Few such runs move a mean far, and of "
                "20 runs the interval may then hold the truth in nine of ten cases only."
            )
    predictions = [own.predictions for own in found.values() if own.predictions is not None]
    read, why = systems(
        list(found),
        [own.scores for own in found.values()],
        [own.seeds for own in found.values()],
        predictions if len(predictions) == len(found) else None,
        metric,
        classes=max(own.classes for own in found.values()) or None,
        examples=max(own.examples or 0 for own in found.values()),
    )
    if why:
        notes.append(f"The luck of the test examples is not counted: {why}. Intervals hold for these test examples.")
    return read, notes


def read_runs(client: MlflowClient, parent: Parent, metric: Metric) -> Runs:
    """Read the independent runs of one parent, or raise a ParameterError where it has none, or no such metric."""
    with temporary_folder() as folder:
        path = fetch_artifact(client, parent.run_id, names.CELLS, folder)
        every = read_investigation(parent.run_id, client).cells if path is None else pd.read_parquet(path)
        planned = planned_by(parent.run)
        every = every.assign(**{name: None for name in names.COORDINATES if name not in every})  # a study of seeds
        every = planned.select(every)
        phase = "golden" if every["phase"].eq("golden").any() else "base"
        cells = every[every["phase"].eq(phase)]
        if cells.empty:
            fix = "Runs that are drawn independently are needed: golden_runs=N, not pooled."
            raise ParameterError("runs", parent.run_id, "has no golden runs", fix)
        check_metric(cells.dropna(axis=1, how="all"), metric)
        kept = cells[cells["status"].eq("FINISHED") & cells[metric.name].notna()]
        kept = kept.sort_values("index" if phase == "golden" else "row", kind="stable").reset_index(drop=True)
        return Runs(
            kept[metric.name].to_numpy(dtype=np.float64),
            {
                str(name).removeprefix(SEED): kept[name].to_numpy()
                for name in kept
                if str(name).startswith(SEED) and kept[name].notna().all()
            },
            _graded(_of_parent(client, parent.run_id, kept, phase, folder) or _of_cells(client, kept), metric),
            len(cells) - len(kept),
            parent.classes or 0,
            (parent.document.get("task") or {}).get("test_size"),
            every,
            planned,
        )


def _of_parent(client: MlflowClient, run_id: str, cells: pd.DataFrame, phase: str, folder: Path) -> Predictions | None:
    """Read the predictions from the parent's one table; None where it lacks a run, or runs have no keys."""
    import pyarrow.parquet as pq

    path = fetch_artifact(client, run_id, names.PREDICTIONS, folder)
    if path is None or cells["cell_key"].isna().any():
        return None
    known = pq.read_schema(path).names
    if not {"cell_key", *_COLUMNS} <= set(known):
        return None
    only = [("phase", "=", phase)] if "phase" in known else None
    table = pq.read_table(path, columns=["cell_key", *_COLUMNS], filters=only)
    keys = table["cell_key"].to_pandas().astype("category").cat
    place = {key: number for number, key in enumerate(cells["cell_key"])}
    run = np.array([place.get(key, -1) for key in keys.categories], dtype=np.int64)[keys.codes.to_numpy()]
    chosen = np.flatnonzero(run >= 0) if (run < 0).any() else slice(None)
    if np.bincount(run[chosen], minlength=len(cells)).min(initial=2) < 2:
        return None
    return Predictions(run[chosen], *(table[name].to_numpy()[chosen] for name in _COLUMNS))


def _graded(found: Predictions | None, metric: Metric) -> Predictions | None:
    """Return texts as right (0, as every label), wrong (1) or none (-1) for a metric of classes; all else as it is."""
    if found is None or found.label.dtype != object or not metric.scores_classes:
        return found
    right = np.where(found.prediction == found.label, 0, np.where(pd.isna(found.prediction), -1, 1))
    return found._replace(label=np.zeros(len(right), dtype=np.int64), prediction=right)


def _of_cells(client: MlflowClient, cells: pd.DataFrame) -> Predictions | None:
    """Read the predictions run by run; None where one has none, or fewer than two."""
    parts: list[list[npt.NDArray[Any]]] = []
    for number, (_, table) in enumerate(read_predictions(client, cells)):
        if table is None or len(table) < 2:
            return None
        parts.append([np.full(len(table), number), *(table[name].to_numpy() for name in _COLUMNS)])
    return Predictions(*(np.concatenate(part) for part in zip(*parts, strict=True))) if parts else None
