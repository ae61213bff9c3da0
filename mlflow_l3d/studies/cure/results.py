"""What a cure returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.cure.numbers.verified import CureAnswer
from mlflow_l3d.studies.cure.report.page import cure_document, prediction_rows
from mlflow_l3d.studies.shown import OnOneScreen, built_once


@dataclass(frozen=True, kw_only=True, repr=False)
class Cure(OnOneScreen):
    """What would leave less luck, and what did.

    Attributes
    ----------
    run_id, parent_run_id
        Its MLflow run, and the run whose luck is looked at.
    answer
        What it found.
    source, settings
        The origin of the parent run, and the given values.
    """

    run_id: str
    parent_run_id: str
    answer: CureAnswer
    source: Source
    settings: Mapping[str, str]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per remedy, best first: what is predicted, and achieved if it was verified; as fractions."""
        return pd.DataFrame(prediction_rows(self.answer))

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        return cure_document(self.answer, source=self.source, run_id=self.run_id, settings=self.settings)
