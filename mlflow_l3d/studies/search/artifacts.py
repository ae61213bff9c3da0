"""What a finished search leaves on its parent run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.parameters.search_document import search_document
from mlflow_l3d.studies.files import write_json, write_table
from mlflow_l3d.studies.search.request import SearchRequest
from mlflow_l3d.tracking import names


def write_search(folder: Path, request: SearchRequest, result: SearchResult) -> None:
    """Write the artifacts of a search: the found hyperparameters, everything to repeat it, trials, plots and the page.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    request, result
        What was searched and found.
    """
    from mlflow_l3d.report.search.page import drawn, render
    from mlflow_l3d.report.style import save_png

    found = search_document(
        request.setup.subject,
        result.best,
        score=result.best_score,
        metric=result.metric.name,
        search_run_id=result.run_id,
        searched_on=request.searched_on,
    )
    write_json(folder / names.HYPERPARAMETERS, found, indent=2)
    document = {**request.document(), "result": result_document(result)}
    write_json(folder / names.SEARCH_DOCUMENT, document, indent=2)
    write_table(folder / names.TRIALS, result.trials)
    figures = drawn(result)
    for kind in ("history", "slice"):
        if kind in figures:
            save_png(figures[kind], folder / f"{kind}.png")
    more = {
        "samplers": ", ".join(f"{sampler} ({stage})" for stage, sampler in request.samplers.items()),
        "pruner": request.pruner,
        "configurations a trial": str(request.search_seeds),
        "root seed": str(request.root_seed),
    }
    settings = request.settings(more, result.run_id)
    del settings["hyperparameters"]  # the page shows them beside those that were found
    page = render(result, figures, settings=settings)
    (folder / names.SEARCH_REPORT).write_text(page, encoding="utf-8")


def description(result: SearchResult) -> str:
    """Return the answers as Markdown, for the description of the run in MLflow's UI."""
    from mlflow_l3d.report.search.words import search_answers

    return "\n\n".join(
        f"**{answer.question}**: {answer.short}. {' '.join(answer.sentences)}" for answer in search_answers(result)
    )


def result_document(result: SearchResult) -> dict[str, Any]:
    """Return what was found for :func:`mlflow_l3d.studies.files.write_json`."""
    levels = [asdict(stage) for stage in result.stages]
    for level in levels:
        del level["scales"]
    same = ("default_score", "importances", "validation_examples", "notes", "seconds")
    return {
        "hyperparameters": result.best,
        "score": result.best_score,
        "levels": levels,
        "held_out": None if result.held_out is None else asdict(result.held_out),
        **{name: getattr(result, name) for name in same},
    }
