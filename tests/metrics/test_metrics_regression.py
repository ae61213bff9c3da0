"""Scores of predicted numbers: scipy's and scikit-learn's, undefined cases, bad input."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, mean_squared_error, root_mean_squared_error

from mlflow_l3d.metrics.known import scores_of


@given(st.lists(st.tuples(st.integers(0, 25), st.integers(-50, 50)), min_size=2, max_size=40))
@settings(max_examples=60, deadline=None)
def test_equal_to_scipy_and_scikit_learn(pairs):
    labels, predictions = np.array(pairs, dtype=float).T / 5
    found = scores_of(labels, predictions, "regression")
    assert found["rmse"] == pytest.approx(root_mean_squared_error(labels, predictions))
    assert found["mse"] == pytest.approx(mean_squared_error(labels, predictions))
    assert found["mae"] == pytest.approx(mean_absolute_error(labels, predictions))
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        assert found["pearson"] == found["spearman"] == 0
        return
    assert found["pearson"] == pytest.approx(scipy.stats.pearsonr(labels, predictions).statistic, abs=1e-9)
    assert found["spearman"] == pytest.approx(scipy.stats.spearmanr(labels, predictions).statistic, abs=1e-9)


@pytest.mark.parametrize(
    ("labels", "predictions", "match"),
    [
        ([], [], "at least one"),
        ([1.0], [1.0, 2.0], "equally many"),
        ([np.nan], [1.0], "finite"),
        (["a"], [1.0], "numbers"),
    ],
)
def test_bad_input(labels, predictions, match):
    with pytest.raises(ValueError, match=match):
        scores_of(labels, predictions, "regression")
