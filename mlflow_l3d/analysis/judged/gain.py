"""What one more row, repeat, judge or prompt gains, and how to spend a budget."""

from __future__ import annotations

import pandas as pd

from mlflow_l3d.analysis.judged.results import Components


def gain(
    components: Components, *, rows: int | None = None, answers: int | None = None, judgements: int | None = None
) -> pd.DataFrame:
    """Return the standard error of the mean: now, with one more of each, and for a budget spent best."""
    raise NotImplementedError
