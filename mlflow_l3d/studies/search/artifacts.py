"""The artifacts that a finished search leaves on its parent run."""

from __future__ import annotations

from pathlib import Path

from mlflow_l3d.parameters.search_document import search_document
from mlflow_l3d.studies.files import write_json, write_table
from mlflow_l3d.studies.search.numbers import SearchResult
from mlflow_l3d.studies.search.request import SearchRequest
from mlflow_l3d.tracking import names


def write_search(folder: Path, request: SearchRequest, result: SearchResult) -> None:
    """Write the found hyperparameters, everything to repeat the search, trials, plots and the page.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    request, result
        Of the search.
    """
    from mlflow_l3d.studies.search.report.page import search_report

    hyperparameters = search_document(
        request.setup.subject,
        result.best,
        score=result.best_score,
        metric=result.metric.name,
        search_run_id=result.run_id,
        searched_on=request.searched_on,
    )
    write_json(folder / names.HYPERPARAMETERS, hyperparameters, indent=2)
    document = {**request.document(), "result": result.document()}
    write_json(folder / names.SEARCH_DOCUMENT, document, indent=2)
    write_table(folder / names.TRIALS, result.trials)
    more = {
        "samplers": ", ".join(f"{sampler} ({stage})" for stage, sampler in request.samplers.items()),
        "pruner": request.pruner,
        "configurations a trial": str(request.search_seeds),
        "root seed": str(request.root_seed),
    }
    settings = request.settings(more, result.run_id)
    del settings["hyperparameters"]  # the page shows them next to those that were found
    report = search_report(result, settings=settings)
    (folder / names.SEARCH_REPORT).write_text(report.to_html(), encoding="utf-8")
    for picture in report.pictures:
        if picture.name != "importances":  # of which the page has the only copy
            picture.save(folder)
