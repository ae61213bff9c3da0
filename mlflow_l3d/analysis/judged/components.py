"""Which luck the judgements of one scorer have: variance components of rows, answers, judges and further factors."""

from __future__ import annotations

import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.judged.results import Components


def components(table: pd.DataFrame, *, level: float = LEVEL) -> Components:
    """Return the variance components of one scorer's judgements."""
    raise NotImplementedError
