"""Fixtures of reports."""

from collections.abc import Callable

import pytest
from hand_made_analyses import make_analysis, make_importance

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.results import Analysis


@pytest.fixture(scope="session")
def importance() -> Callable[..., Importance]:
    return make_importance


@pytest.fixture(scope="session")
def analysis() -> Callable[..., Analysis]:
    return make_analysis
