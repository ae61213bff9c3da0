"""Fixtures of reports."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hand_made_analyses import make_analysis, make_importance, nothing

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis


def make_path(record: Importance) -> pd.DataFrame:
    """Build a path that ends at the record's own numbers."""
    rows = np.arange(1, record.table.shape[0] + 1)
    wide = 1 / rows
    return pd.DataFrame(
        {
            "rows": rows,
            "importance": record.importance + wide - wide[-1],
            "importance_corrected": record.importance_corrected + wide - wide[-1],
            "importance_corrected_ci_low": record.importance_corrected_ci_low - wide,
            "importance_corrected_ci_high": record.importance_corrected_ci_high + wide,
        }
    )


SIX = ("label_selection", "data_split", "data_order", "sample_choice", "model_initialisation", "model_randomness")


@pytest.fixture(scope="session")
def importance() -> Callable[..., Importance]:
    return make_importance


@pytest.fixture(scope="session")
def empty() -> Callable[..., Importance]:
    return nothing


@pytest.fixture(scope="session")
def analysis() -> Callable[..., Analysis]:
    return make_analysis


@pytest.fixture(scope="session")
def path() -> Callable[..., pd.DataFrame]:
    return make_path


@pytest.fixture(scope="session")
def six() -> Analysis:
    return make_analysis([make_importance(name, seed=at, rows=6, columns=4) for at, name in enumerate(SIX)])
