"""The artifacts of one seeds study, and of several that are compared over tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_l3d.studies.files import write_json, write_tables
from mlflow_l3d.tracking import names

if TYPE_CHECKING:
    from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks
    from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy


def write_scores(
    folder: Path,
    study: SeedsStudy,
    cells: pd.DataFrame,
    predictions: pd.DataFrame | None,
    *,
    title: str,
    notes: Sequence[str],
    settings: Mapping[str, str],
) -> str:
    """Write tables, picture and report: what can be made of runs alone, ours or a stranger's.

    Return the answers as Markdown, for the description of the run in MLflow's UI.
    """
    from mlflow_l3d.studies.seeds.report.page import seeds_document

    cells.to_parquet(folder / names.CELLS, index=False)
    if predictions is not None:
        predictions.to_parquet(folder / names.PREDICTIONS, index=False)
    examples = None if study.examples is None else study.examples.frame.head(2000)
    write_tables(folder, {names.CELLS_TABLE: study.to_frame(), names.EXAMPLES: examples})
    about = {name: getattr(study, name) for name in ("task", "model", "kind", "metric", "training_size", "seeds")}
    document = {**about, "metric": study.metric.name, "metrics": study.metrics()}
    write_json(folder / names.SEEDS, {**document, "scores": study.scores.reset_index()}, indent=2)
    report = seeds_document(study, title=title, notes=notes, settings=settings)
    report.save(folder, names.REPORT)
    return "\n\n".join([*(answer.markdown() for answer in report.answers), *notes])[:5000]


def write_over_tasks(folder: Path, models: Sequence[ModelOverTasks], *, title: str) -> list[str]:
    """Write the tables, pictures and page of several studies; return the names of what MLflow shows as tables.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    models
        One record a model.
    title
        Title of the page.
    """
    from mlflow_l3d.studies.seeds.report.page import over_tasks_document

    rows = pd.concat([model.rows for model in models], ignore_index=True)
    rows.to_csv(folder / "tasks.csv", index=False)
    for number, model in enumerate(models):
        ending = f"-{number}" if len(models) > 1 else ""
        model.matrix.to_csv(folder / f"seed_by_task{ending}.csv")
    over_tasks_document(models, title=title).save(folder, names.REPORT)
    return write_tables(folder, {"tasks.json": rows})
