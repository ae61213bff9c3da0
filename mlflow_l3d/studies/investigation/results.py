"""Results that hold the analysis of an investigation: what they give as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.about import About, fragile_examples
from mlflow_l3d.studies.investigation.report.factor_tables import factor_frame
from mlflow_l3d.studies.investigation.report.page import investigation_document
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.shown import OnOneScreen
from mlflow_l3d.tasks.base import Task


class Analysed(OnOneScreen):
    """A result with an analysis.

    Attributes
    ----------
    analysis, about
        Its numbers; its title, origin, notes and settings.
    """

    analysis: Analysis
    about: About

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per factor as in the report, in its order and units.

        Parameters
        ----------
        full
            Whether to return every number instead, as the runs have them: scores as fractions.
        """
        return self.analysis.to_frame() if full else factor_frame(Shown(self.analysis))

    def description(self) -> str:
        """Return what MLflow's UI shows of its run: first of all which luck it is."""
        document = self.report()
        assert document is not None
        return document.description(*self.about.notes, first=1)

    def fragile(self, task: Task | None = None, count: int = 20) -> pd.DataFrame:
        """Return the examples on which runs differ most, with their texts, see :func:`fragile_examples`.

        Parameters
        ----------
        task
            Holds the texts, which no run does; by default the task that was investigated, unless it was loaded.
        count
            How many examples at most.

        Raises
        ------
        ParameterError
            If there is no task.
        """
        request: Any = getattr(self, "request", None)
        if (task := task or (request and request.setup.task)) is None:
            fix = "Give the data that were investigated, as mlflow_l3d.make_task returns them."
            raise ParameterError("task", "none", "must hold the texts of the examples, which runs do not", fix)
        return fragile_examples(self.analysis.examples, task, count)


@dataclass(frozen=True, repr=False)
class Evaluation(Analysed):
    """What the runs of an investigation say that were scored again.

    Attributes
    ----------
    run_id
        The parent run.
    analysis
        Importance, consistency and checks.
    about
        Title, origin, notes and settings.
    """

    run_id: str
    analysis: Analysis
    about: About

    def report(self) -> Document:
        """Return the result as people read it."""
        lines = [f"Evaluation of run {self.run_id}"]
        return investigation_document(self.analysis, **vars(self.about), lines=lines)
