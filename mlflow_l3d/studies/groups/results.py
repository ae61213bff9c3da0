"""What groups of existing runs say: the result that a run holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.studies.about import About
from mlflow_l3d.studies.groups.numbers.study import GroupsStudy
from mlflow_l3d.studies.groups.report.page import groups_document
from mlflow_l3d.studies.shown import OnOneScreen, built_once


@dataclass(frozen=True, repr=False)
class GroupsEvaluation(OnOneScreen):
    """The groups of existing runs that were evaluated.

    Attributes
    ----------
    run_id
        The run with the result; the empty text if nothing was logged.
    study
        Groups, pairs and settings in numbers, in the unit of the metric.
    counts
        What became of the runs: ``found``, ``used``, ``failed``, ``running``, ``without a score``, and so on.
    examples
        The examples on which runs of the best group differ most, by their ids; None if there are none.
    about
        Title, origin and notes.
    """

    run_id: str
    study: GroupsStudy
    counts: Mapping[str, int]
    examples: pd.DataFrame | None
    about: About

    @property
    def groups(self) -> pd.DataFrame:
        """One row per group, best mean first; see :class:`~mlflow_l3d.studies.groups.numbers.study.GroupsStudy`."""
        return self.study.groups

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per group in the units of the report; `full` returns all, in the unit of the metric."""
        if full:
            return self.groups
        scores = {name: name for name in ("mean", "mean_ci_low", "mean_ci_high", "lowest", "highest")}
        spreads = {name: name for name in ("std", "std_ci_low", "std_ci_high", "luck")}
        return unit_of(self.study.metric).heads(self.groups, scores, spreads)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        return groups_document(self.study, self.counts, self.examples, **vars(self.about))
