"""How often k answers to a row all pass (pass^k), or one of them does (pass@k)."""

from __future__ import annotations

import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import LEVEL
from mlflow_l3d.analysis.judged.results import PassK


def pass_k(successes: npt.ArrayLike, attempts: npt.ArrayLike, k: int, *, level: float = LEVEL) -> PassK:
    """Return pass^k and pass@k from successes and attempts per row."""
    raise NotImplementedError


def pass_table(table: pd.DataFrame, kmax: int | None = None, *, level: float = LEVEL) -> pd.DataFrame:
    """Return one line per k from 1 to `kmax` (the most answers of a row): the fields of PassK."""
    raise NotImplementedError
