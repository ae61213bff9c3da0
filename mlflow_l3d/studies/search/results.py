"""The result of a search, and the files that its run holds of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.parameters.search_document import search_document
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.files import write_json, write_table
from mlflow_l3d.studies.result_file import LEFT_OUT
from mlflow_l3d.studies.search.numbers import SearchResult
from mlflow_l3d.studies.search.report.page import search_report
from mlflow_l3d.studies.search.request import SearchRequest
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tracking import names


@dataclass(frozen=True, repr=False)
class HyperparameterSearch(OnOneScreen):
    """A finished search.

    Attributes
    ----------
    run_id
        The parent run.
    hyperparameters
        The best ones, complete.
    result
        Stages, trials, importances and the comparison on other configurations.
    source
        Its origin, for the report.
    request
        Of the search; None if it was loaded.
    """

    run_id: str
    hyperparameters: Mapping[str, Value]
    result: SearchResult
    source: Source
    request: SearchRequest | None = field(default=None, metadata=LEFT_OUT)

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per trial in the units of the report; `full` returns all, with scores as fractions."""
        trials = self.result.trials
        shown = trials[["level", "number", "state", "score", "score_std", *self.result.searched]]
        heads = {"score": self.result.metric.name}, {"score_std": "std"}
        return trials if full else unit_of(self.result.metric).heads(shown, *heads)

    def report(self) -> Document:
        """Return the result as people read it."""
        lines = [f"MLflow run {self.run_id}; search.html is among its artifacts"]
        return search_report(self.result, source=self.source, lines=lines)


def write_search(folder: Path, request: SearchRequest, result: SearchResult, source: Source) -> Document:
    """Write the found hyperparameters, everything to repeat the search, trials and the page, which is returned.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    request, result, source
        Of the search.
    """
    hyperparameters = search_document(
        request.setup.subject,
        result.best,
        score=result.best_score,
        metric=result.metric.name,
        search_run_id=result.run_id,
        searched_on=request.searched_on,
    )
    write_json(folder / names.HYPERPARAMETERS, hyperparameters, indent=2)
    write_json(folder / names.SEARCH_DOCUMENT, {**request.document(), "result": result.document()}, indent=2)
    write_table(folder / names.TRIALS, result.trials)
    more = {
        "samplers": ", ".join(f"{sampler} ({stage})" for stage, sampler in request.samplers.items()),
        "pruner": request.pruner,
        "configurations a trial": str(request.search_seeds),
        "root seed": str(request.root_seed),
    }
    settings = request.settings(more, result.run_id)
    del settings["hyperparameters"]  # the page shows them next to those that were found
    report = search_report(result, source=source, settings=settings)
    report.save(folder, names.SEARCH_REPORT)
    return report
