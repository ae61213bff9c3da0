"""The result of a search, and the files that its run holds of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.parameters.search_document import search_document
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.about import About
from mlflow_l3d.studies.files import save_report, write_json, write_table
from mlflow_l3d.studies.result_file import LEFT_OUT, write_result
from mlflow_l3d.studies.search.numbers import SearchResult
from mlflow_l3d.studies.search.report import search_report
from mlflow_l3d.studies.search.request import SearchRequest
from mlflow_l3d.studies.shown import OnOneScreen, built_once
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
    about
        Its title, origin, notes and settings.
    request
        Of the search; None if it was loaded.
    """

    run_id: str
    hyperparameters: Mapping[str, Value]
    result: SearchResult
    about: About
    request: SearchRequest | None = field(default=None, metadata=LEFT_OUT)

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per trial in the units of the report; `full` returns all, with scores as fractions."""
        trials = self.result.trials
        shown = trials[["level", "number", "state", "score", "score_std", *self.result.searched]]
        heads = {"score": self.result.metric.name}, {"score_std": "std"}
        return trials if full else unit_of(self.result.metric).heads(shown, *heads)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        lines = [f"MLflow run {self.run_id}; search.html is among its artifacts"]
        return search_report(self.result, source=self.about.source, settings=self.about.settings, lines=lines)


def about_search(request: SearchRequest, run_id: str, address: str) -> About:
    """Return what its report says of a search in addition to its numbers; `address` as for a source."""
    more = {
        "samplers": ", ".join(f"{sampler} ({stage})" for stage, sampler in request.samplers.items()),
        "pruner": request.pruner,
        "configurations a trial": str(request.search_seeds),
        "root seed": str(request.root_seed),
    }
    about = request.about(run_id, address, more)
    # the page shows them next to those that were found
    settings = {name: value for name, value in about.settings.items() if name != "hyperparameters"}
    return replace(about, settings=settings)


def write_search(folder: Path, request: SearchRequest, search: HyperparameterSearch) -> None:
    """Write the found hyperparameters, everything to repeat the search, trials, the result and its page.

    Parameters
    ----------
    folder
        Where the files go; it exists.
    request, search
        The request and its result.
    """
    result = search.result
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
    write_result(folder, search)
    save_report(folder, names.SEARCH_REPORT, search.report())
