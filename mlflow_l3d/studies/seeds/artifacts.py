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
) -> None:
    """Write tables, picture and report of a study from its runs, also of other code."""
    from mlflow_l3d.report.style import save_png
    from mlflow_l3d.studies.seeds.report.figures import seed_figure
    from mlflow_l3d.studies.seeds.report.page import study_page

    cells.to_parquet(folder / names.CELLS, index=False)
    if predictions is not None:
        predictions.to_parquet(folder / names.PREDICTIONS, index=False)
    examples = None if study.examples is None else study.examples.frame.head(2000)
    write_tables(folder, {names.CELLS_TABLE: study.to_frame(), names.EXAMPLES: examples})
    about = ("task", "model", "kind", "metric", "training_size", "seeds")
    document = {**{name: getattr(study, name) for name in about}, "metrics": study.metrics()}
    write_json(folder / names.SEEDS, {**document, "scores": study.scores.reset_index()}, indent=2)
    figure = seed_figure(study)
    save_png(figure, folder / "seeds.png")
    page = study_page(study, figure, title=title, notes=notes, settings=settings)
    (folder / names.REPORT).write_text(page, encoding="utf-8")


def write_over_tasks(folder: Path, models: Sequence[ModelOverTasks], *, title: str) -> list[str]:
    """Write the tables, pictures and page of several studies; return the files that MLflow shows as tables.

    Parameters
    ----------
    folder
        An existing folder.
    models
        One record per model.
    title
        Title of the page.
    """
    from mlflow_l3d.report.style import save_png
    from mlflow_l3d.studies.seeds.report.figures import seed_heatmap, size_figure
    from mlflow_l3d.studies.seeds.report.page import over_tasks_page

    rows = pd.concat([one.rows for one in models], ignore_index=True)
    rows.to_csv(folder / "tasks.csv", index=False)
    for at, one in enumerate(models):
        ending = f"-{at}" if len(models) > 1 else ""
        one.matrix.to_csv(folder / f"seed_by_task{ending}.csv")
        save_png(seed_heatmap(one.matrix, one.better_seed, title=one.model), folder / f"seed_by_task{ending}.png")
        save_png(size_figure(one.rows, one.correlations, title=one.model), folder / f"training_size{ending}.png")
    (folder / names.REPORT).write_text(over_tasks_page(models, title=title), encoding="utf-8")
    return write_tables(folder, {"tasks.json": rows})
