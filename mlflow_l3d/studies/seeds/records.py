"""What a parent run of seeds holds: read from the records of its runs, described by its document, and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.execution.environment import deferred_interrupts
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.files import save_report, temporary_folder, write_json, write_result, write_tables
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy, seeds_study
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.predictions import read_rows
from mlflow_l3d.tracking.recorder import RunRecorder


def recorded_cells(recorder: RunRecorder[Any], cells: Iterable[Cell]) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return one row per cell of the spool, and the predictions of those that did not fail (None if there are none)."""
    with deferred_interrupts():
        run_ids = recorder.run_ids()
    spool, rows, tables = recorder.spool, [], []
    for cell in cells:
        record, path, seed = spool.record(cell.key), spool.predictions(cell.key), cell.seeds["seed"]
        row = {"phase": cell.phase, "index": cell.index, "seed.seed": seed, "run_id": run_ids.get(cell.key)}
        row |= {"cell_key": cell.key, "status": record.status}
        rows.append({**row, **({} if record.error else record.metrics)})
        if path is not None and not record.error:
            tables.append(read_rows(path, reference=True).to_pandas().assign(seed=seed, cell_key=cell.key))
    return pd.DataFrame(rows), pd.concat(tables, ignore_index=True) if tables else None


def recorded_study(
    document: Mapping[str, Any], cells: pd.DataFrame, predictions: pd.DataFrame | None, metric: Metric | str | None
) -> SeedsStudy:
    """Return the study that the document of a parent run describes.

    Parameters
    ----------
    document
        The content of ``investigation.json``.
    cells
        One row per finished run: ``seed.seed``, ``cell_key`` and metrics.
    predictions
        One row per prediction, with the ``seed.seed`` of its run.
    metric
        As for :func:`~mlflow_l3d.studies.seeds.numbers.study.seeds_study`.
    """
    task, runs = document["task"], {run["cell_key"]: run for run in document.get("runs", ())}
    numbers = {key: run["number"] for key, run in runs.items()}
    seeds = cells["cell_key"].map(numbers) if runs else cells["seed.seed"]
    if runs and predictions is not None:
        predictions = predictions.assign(seed=predictions["cell_key"].map(numbers))
    settings = [runs[key]["settings"] for key in cells["cell_key"]] if document.get("by_settings") else None
    return seeds_study(
        cells.assign(seed=seeds.astype(int)),
        predictions,
        metric=metric,
        kind=task["kind"],
        task=str(task["name"]),
        model=str(document["model"]["name"]),
        benchmark=str(task.get("benchmark") or ""),
        training_size=task.get("train_examples"),
        others=document.get("metrics", ()),
        classes=len(task.get("classes", ())) or None,
        recorded=None if settings is None else pd.DataFrame(settings),
        repeats=document.get("repeats", False),
    )


def write_runs(folder: Path, cells: pd.DataFrame, predictions: pd.DataFrame | None) -> None:
    """Write the cells and the predictions of all runs, which other commands read."""
    cells.drop(columns=["artifact_uri", "experiment_id"], errors="ignore").to_parquet(folder / names.CELLS, index=False)
    if predictions is not None:
        predictions.to_parquet(folder / names.PREDICTIONS, index=False)


def write_scores(
    folder: Path, study: SeedsStudy, cells: pd.DataFrame, predictions: pd.DataFrame | None, report: Document
) -> None:
    """Write tables and report: what can be made of runs alone, ours or a stranger's."""
    write_runs(folder, cells, predictions)
    examples = None if study.examples is None else study.examples.frame.head(2000)
    write_tables(folder, {names.CELLS_TABLE: study.to_frame(), names.EXAMPLES: examples})
    document = {name: getattr(study, name) for name in ("task", "model", "kind", "training_size", "seeds")}
    document |= {"metric": study.metric.name, "metrics": study.metrics()}
    write_json(folder / names.SEEDS, {**document, "scores": study.scores.reset_index()}, indent=2)
    save_report(folder, names.REPORT, report)


@contextmanager
def finishing(recorder: RunRecorder[Any], result: Any, document: Mapping[str, Any], *, failed: int) -> Iterator[Path]:
    """Yield the folder for tables and report of a parent run; then write what the study found, and end the run.

    Parameters
    ----------
    recorder
        That of the parent run.
    result
        What the study returns: `study`, `about` and a report.
    document
        The specification.
    failed
        How many runs are missing.
    """
    with temporary_folder() as folder:
        write_json(folder / names.INVESTIGATION, document, indent=2)
        yield folder
        write_result(folder, result)
        recorder.log_metrics({**result.study.metrics(), "cells_failed": float(failed)}, len(document["seeds"]))
        recorder.wait()
        recorder.finish(folder, complete=failed == 0, description=result.report().description(*result.about.notes))
