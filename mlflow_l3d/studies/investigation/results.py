"""Results that hold the analysis of an investigation: what they give as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import pandas as pd

from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.about import About, fragile_examples
from mlflow_l3d.studies.investigation.report import cite
from mlflow_l3d.studies.investigation.report.factor_tables import factor_frame
from mlflow_l3d.studies.investigation.report.page import investigation_document
from mlflow_l3d.studies.investigation.report.runs import Runs
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tracking import names


@dataclass(frozen=True, kw_only=True, repr=False)
class Analysed(OnOneScreen):
    """A result with an analysis.

    Attributes
    ----------
    run_id
        The parent run.
    analysis
        Importance, consistency and checks.
    about
        Title, origin, notes and settings.
    cells, predicted
        The runs behind it, see :class:`mlflow_l3d.studies.investigation.report.runs.Runs`.
    """

    run_id: str
    analysis: Analysis
    about: About
    cells: pd.DataFrame = field(default_factory=pd.DataFrame, metadata={"file": names.CELLS})
    predicted: Mapping[str, list[list[str]]] = field(default_factory=dict)

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per factor as in the report, in its order and units.

        Parameters
        ----------
        full
            Whether to return every number instead, as the runs have them: scores as fractions.
        """
        return self.analysis.to_frame() if full else factor_frame(Shown(self.analysis))

    @property
    def line(self) -> str:
        """What the terminal says of the runs."""
        raise NotImplementedError

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        paths = partial(design_named(self.analysis.design).paths, self.analysis.importances)
        runs = Runs(self.cells, self.predicted)
        return investigation_document(self.analysis, **vars(self.about), runs=runs, paths=paths, lines=[self.line])

    def cited(self) -> str:
        """Return what a paper says of it: a sentence, a LaTeX table and the literature."""
        return "\n\n".join(text for _, text in cite.parts(Shown(self.analysis), self.about.source))

    def cure(self, **options: Any) -> Any:
        """Return what would leave less luck, see :func:`mlflow_l3d.cure`; `options` are its parameters."""
        verb = verbs()["cure"]
        return getattr(import_module(verb.module), verb.function)(self, **options)

    def description(self, *more: str) -> str:
        """Return what MLflow's UI shows of its run: first of all which luck it is."""
        return self.report().description(*self.about.notes, *more, first=1)

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
    cells, predicted
        As in :class:`Analysed`.
    """

    @property
    def line(self) -> str:
        """What the terminal says of the runs."""
        return f"Evaluation of run {self.run_id}"
