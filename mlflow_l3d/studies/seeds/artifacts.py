"""What a finished study of seeds leaves on its parent run, and what several of them leave together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from mlflow_l3d.studies.investigation.artifacts import write_table
from mlflow_l3d.tracking import names

if TYPE_CHECKING:
    from mlflow_l3d.analysis.seeds.over_tasks import ModelOverTasks
    from mlflow_l3d.analysis.seeds.study import SeedsStudy
    from mlflow_l3d.studies.seeds.specification import SeedsSpecification

_MOST_EXAMPLES: Final = 2000


def write_study(
    folder: Path,
    specification: SeedsSpecification,
    study: SeedsStudy,
    cells: pd.DataFrame,
    predictions: pd.DataFrame | None,
) -> None:
    """Write the artifacts of a study of seeds.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    specification, study
        What was studied, and what came out.
    cells
        One row a seed.
    predictions
        One row a prediction, of all seeds.
    """
    _write_json(folder / names.INVESTIGATION, specification.document())
    settings = {
        "task": f"{specification.setup.task.name} ({specification.setup.task.kind.replace('_', ' ')})",
        "approach": f"{specification.setup.approach.name} (version {specification.setup.approach.version})",
        "model": specification.setup.model,
        "metric": specification.metric,
        "seeds": ", ".join(map(str, specification.seeds)),
        "hyperparameters": ", ".join(f"{name}={value}" for name, value in specification.setup.hyperparameters.items()),
        "device": specification.setup.device,
    }
    notes = [*specification.setup.task.notes, *specification.setup.origin.notes]
    write_scores(folder, study, cells, predictions, title=specification.title, notes=notes, settings=settings)


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
    """Write tables, picture and report: what can be made of runs alone, ours or a stranger's."""
    from mlflow_l3d.report.seeds.figures import seed_figure
    from mlflow_l3d.report.seeds.page import study_page
    from mlflow_l3d.report.style import save_png

    cells.to_parquet(folder / names.CELLS, index=False)
    write_table(folder / names.CELLS_TABLE, study.to_frame())
    if predictions is not None:
        predictions.to_parquet(folder / names.PREDICTIONS, index=False)
    if study.examples is not None:
        write_table(folder / names.EXAMPLES, study.examples.frame.head(_MOST_EXAMPLES))
    document = {
        "task": study.task,
        "model": study.model,
        "kind": study.kind,
        "metric": study.metric,
        "training_size": study.training_size,
        "seeds": list(study.seeds),
        "metrics": study.metrics(),
        "scores": json.loads(study.scores.reset_index().to_json(orient="records")),
    }
    _write_json(folder / names.SEEDS, document)
    figure = seed_figure(study)
    save_png(figure, folder / "seeds.png")
    page = study_page(study, figure, title=title, notes=notes, settings=settings)
    (folder / names.REPORT).write_text(page, encoding="utf-8")


def write_over_tasks(folder: Path, found: Sequence[ModelOverTasks], *, title: str) -> list[str]:
    """Write the tables, pictures and page of several studies; return the names of what MLflow shows as tables.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    found
        One record a model.
    title
        Of the page.
    """
    from mlflow_l3d.report.seeds.figures import seed_heatmap, size_figure
    from mlflow_l3d.report.seeds.page import over_tasks_page
    from mlflow_l3d.report.style import save_png

    rows = pd.concat([one.rows for one in found], ignore_index=True)
    rows.to_csv(folder / "tasks.csv", index=False)
    write_table(folder / "tasks.json", rows)
    for at, one in enumerate(found):
        ending = f"-{at}" if len(found) > 1 else ""
        one.matrix.to_csv(folder / f"seed_by_task{ending}.csv")
        save_png(seed_heatmap(one.matrix, one.better_seed, title=one.model), folder / f"seed_by_task{ending}.png")
        save_png(size_figure(one.rows, one.correlations, title=one.model), folder / f"training_size{ending}.png")
    (folder / names.REPORT).write_text(over_tasks_page(found, title=title), encoding="utf-8")
    return ["tasks.json"]


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
