"""What a finished search leaves on its parent run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_l3d.analysis.search import SearchResult, StageSummary
from mlflow_l3d.parameters.search_document import search_document
from mlflow_l3d.studies.investigation.artifacts import write_table
from mlflow_l3d.studies.search.samplers import Stage
from mlflow_l3d.studies.search.specification import SearchSpecification
from mlflow_l3d.tracking import names

if TYPE_CHECKING:
    from optuna import Study


def write_search(
    folder: Path, specification: SearchSpecification, result: SearchResult, studies: Mapping[Stage, Study]
) -> None:
    """Write the artifacts of a search: the found hyperparameters, everything to repeat it, trials, plots and the page.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    specification, result
        What was searched and found.
    studies
        Stage -> its Optuna study.
    """
    from mlflow_l3d.report.search.page import drawn, render
    from mlflow_l3d.report.style import save_png

    found = search_document(
        specification.setup.subject,
        result.best,
        score=result.best_score,
        metric=result.metric,
        search_run_id=result.run_id,
        searched_on=specification.searched_on,
    )
    _write(folder / names.HYPERPARAMETERS, found)
    _write(folder / names.SEARCH_DOCUMENT, {**specification.document(), "result": result_document(result)})
    write_table(folder / names.TRIALS, result.trials)
    curves = {
        str(stage): {trial.number: trial.intermediate_values for trial in study.get_trials(deepcopy=False)}
        for stage, study in studies.items()
    }
    figures = drawn(result, curves)
    for kind in ("history", "slice", "parallel_coordinate"):
        if kind in figures:
            save_png(figures[kind], folder / f"{kind}.png")
    settings = {name: value for name, value in shown_settings(specification).items() if value}
    page = render(result, figures, settings=settings)
    (folder / names.SEARCH_REPORT).write_text(page, encoding="utf-8")


def description(result: SearchResult) -> str:
    """Return the answers as Markdown, for the description of the run in MLflow's UI."""
    from mlflow_l3d.report.search.words import search_answers

    return "\n\n".join(
        f"**{answer.question}**: {answer.short}. {' '.join(answer.sentences)}" for answer in search_answers(result)
    )


def result_document(result: SearchResult) -> dict[str, Any]:
    """Return what was found as JSON types; a number that is not known is null."""
    return {
        "hyperparameters": dict(result.best),
        "score": _finite(result.best_score),
        "default_score": _finite(result.default_score),
        "levels": [_stage(stage) for stage in result.stages],
        "importances": dict(result.importances),
        "held_out": None
        if result.held_out is None
        else {
            name: _finite(value) if isinstance(value, float) else value
            for name, value in asdict(result.held_out).items()
        },
        "validation_examples": result.validation_examples,
        "notes": list(result.notes),
        "seconds": _finite(result.seconds),
    }


def shown_settings(specification: SearchSpecification) -> dict[str, str]:
    """Return what the page says of how it was searched."""
    setup = specification.setup
    return {
        "task": setup.task.name,
        "approach": f"{setup.approach.name} (version {setup.approach.version})",
        "model": setup.model,
        "metric": specification.metric,
        "samplers": f"{specification.samplers['coarse']} (coarse), {specification.samplers['fine']} (fine)",
        "pruner": specification.pruner,
        "configurations a trial": str(specification.search_seeds),
        "root seed": str(specification.root_seed),
        "device": setup.device,
    }


def _stage(stage: StageSummary) -> dict[str, Any]:
    document = {**asdict(stage), "best_score": _finite(stage.best_score)}
    del document["scales"]
    return document


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
