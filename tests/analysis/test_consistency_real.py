"""Real runs on real sentences: a linear model trained on different small samples of SST-2."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_oracle import consistency_matrixwise
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import RidgeClassifier

from mlflow_l3d.analysis.consistency.examples import example_votes

RUNS = 12


@pytest.fixture
def runs(data_folder):
    """Predictions of models that saw 100 or 1,000 sentences, and the labels of 400 others."""
    frame = pd.read_parquet(data_folder / "sst2.parquet", columns=["text", "label"]).iloc[:5400]
    features = HashingVectorizer(n_features=2**12).transform(frame["text"])
    labels = frame["label"].to_numpy().astype(np.int64)
    test = slice(5000, 5400)
    rng = np.random.default_rng(0)

    def predictions(size):
        samples = [rng.choice(5000, size=size, replace=False) for _ in range(RUNS)]
        return np.array([RidgeClassifier().fit(features[s], labels[s]).predict(features[test]) for s in samples])

    return predictions(100), predictions(1000), labels[test]


def test_more_labelled_examples_make_single_predictions_more_stable(runs):
    few, many, labels = runs
    unstable, stable = consistency_matrixwise(few, labels), consistency_matrixwise(many, labels)
    assert stable.accuracy_mean > unstable.accuracy_mean > 0.5
    assert stable.consistency_ci_low > unstable.consistency_ci_high
    assert stable.fleiss_kappa > unstable.fleiss_kappa > 0
    for found in (unstable, stable):
        expected = found.accuracy_mean - (1 - found.consistency) / 2
        assert found.correct_consistency == pytest.approx(expected)
    kinds = [example_votes(predictions, labels, np.arange(len(labels))) for predictions in (few, many)]
    assert kinds[1].robust_share > kinds[0].robust_share
    assert kinds[1].fragile_share < kinds[0].fragile_share
