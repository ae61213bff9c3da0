"""Whether judges agree, and which rows change their verdict."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL


def judge_agreement(
    table: pd.DataFrame, *, weights: Literal["quadratic", "none"] = "quadratic", level: float = LEVEL
) -> pd.DataFrame:
    """Return one line per pair of judges and one for all: first, second, answers, equal, kappa, low, high, note."""
    raise NotImplementedError


def unstable_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose verdict changes, worst first: row, answers, judgements, mean, over_repeats, over_judges."""
    raise NotImplementedError
