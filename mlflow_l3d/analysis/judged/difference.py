"""Whether one system is better than another by the judgements of one scorer, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.judged.results import JudgedDifference


def difference(
    a: pd.DataFrame,
    b: pd.DataFrame,
    *,
    smallest_effect: float | None = None,
    higher_is_better: bool = True,
    level: float = LEVEL,
) -> JudgedDifference:
    """Return the difference of two systems, `a` less `b`, from their judgements by one scorer."""
    raise NotImplementedError


def differences(several: Sequence[JudgedDifference]) -> list[JudgedDifference]:
    """Return the same differences, p-values and intervals adjusted for their number, verdicts taken anew."""
    raise NotImplementedError
