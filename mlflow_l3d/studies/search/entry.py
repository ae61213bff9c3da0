"""The entry point `search`: two levels of trials, a comparison on configurations not searched on, and what is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.studies.run_guard import failing
from mlflow_l3d.studies.search.run import SearchRun
from mlflow_l3d.studies.search.specification import SearchSpecification, specify_search
from mlflow_l3d.tracking.connection import own_settings, scrub_environment
from mlflow_l3d.tracking.searches import find

if TYPE_CHECKING:
    from mlflow_l3d.approaches.base import Approach
    from mlflow_l3d.approaches.hyperparameters import Value
    from mlflow_l3d.tasks.base import Task


@dataclass(frozen=True)
class HyperparameterSearch:
    """A finished search.

    Attributes
    ----------
    run_id
        The parent run.
    hyperparameters
        The best ones, complete.
    result
        Levels, trials, importances and the comparison on other configurations.
    specification
        What was searched.
    """

    run_id: str
    hyperparameters: Mapping[str, Value]
    result: SearchResult
    specification: SearchSpecification

    def summary(self) -> str:
        """Return the text that the command line prints at the end."""
        from mlflow_l3d.report.search.text import summary

        return summary(self.result, lines=[f"MLflow run {self.run_id}; search.html is among its artifacts"])


def search(
    *,
    approach: Approach | str | None = None,
    task: Task | str | None = None,
    progress: bool = False,
    **parameters: object,
) -> HyperparameterSearch:
    """Search hyperparameters on two levels (Pecher et al. 2024, Appendix D), before an investigation.

    Parameters
    ----------
    approach, task
        A name, or an object of your own.
    progress
        Whether to show a progress bar on stderr.
    **parameters
        As on the command line, see :data:`mlflow_l3d.parameters.table.SEARCH`.

    Returns
    -------
    HyperparameterSearch
        Its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        With one line that says what to change.
    """
    named = {name: value for name, value in (("approach", approach), ("task", task)) if isinstance(value, str)}
    project_run = scrub_environment()
    with own_settings():
        with failing(project_run):
            specification = specify_search(
                {**parameters, **named},
                approach=None if isinstance(approach, str) else approach,
                task=None if isinstance(task, str) else task,
                searches=find,
            )
        with _short_turns():
            run_id, result = SearchRun(specification, progress=progress).run(project_run)
    return HyperparameterSearch(run_id, result.best, result, specification)


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns ten times as often: else every small call of a trial waits 5 ms for one that uploads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, 5e-4))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
