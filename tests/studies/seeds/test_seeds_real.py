"""A real study at small size: linear models on six published sets under ten seeds, on their own parts."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from seeds_cases import long_frame
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier, SGDRegressor

from mlflow_l3d.designs.layout import PAPER_SEEDS
from mlflow_l3d.studies.seeds.numbers import seeds_study
from mlflow_l3d.studies.seeds.numbers.over_tasks import over_tasks

pytestmark = pytest.mark.slow

SETS = {
    "sst2": ("text",),
    "cola": ("text",),
    "mrpc": ("sentence1", "sentence2"),
    "rte": ("sentence1", "sentence2"),
    "wic": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
}


@pytest.fixture(scope="module")
def studies():

    folder = os.environ.get("L3D_TEST_DATA")
    if not folder:
        pytest.skip("L3D_TEST_DATA is not set")
    return [one_study(Path(folder), name, columns) for name, columns in SETS.items()]


def one_study(folder, name, columns):
    frame = pd.read_parquet(folder / f"{name}.parquet", columns=[*columns, "label", "split"])
    train, test = frame[frame["split"] == "train"].head(1500), frame[frame["split"] == "validation"].head(600)
    vectors = HashingVectorizer(n_features=2**10)

    def features(part):
        return vectors.transform(part[list(columns)].agg(" | ".join, axis=1))

    kind = "regression" if name == "stsb" else "classification"
    model = SGDRegressor if kind == "regression" else SGDClassifier
    known, asked = features(train), features(test)
    predictions = np.array(
        [
            model(max_iter=5, tol=None, random_state=seed).fit(known, train["label"]).predict(asked)
            for seed in PAPER_SEEDS
        ]
    )
    return seeds_study(
        pd.DataFrame({"seed": PAPER_SEEDS}),
        long_frame(predictions, test["label"].to_numpy(), PAPER_SEEDS),
        kind=kind,
        task=name,
        model="linear",
        metric="matthews_corrcoef" if name == "cola" else None,
        training_size=len(train),
    )


def test_seeds_move_predictions_more_than_scores(studies):
    for study in studies[:5]:
        con = study.pairs["consistency"]
        assert 0 < study.own.var < 1 - con.mean
        assert con.mean_ci_low < con.mean < con.mean_ci_high
        assert study.spreads["accuracy"].mean - (1 - con.mean) / 2 == pytest.approx(
            study.pairs["correct_consistency"].mean
        )
    assert studies[5].pairs["consistency_pearson"].mean > studies[5].pairs["consistency_ccc"].mean > 0.5


def test_balanced_classes_make_recall_the_accuracy_as_in_the_paper(studies):
    """All of WiC's dev part is balanced; so nearly is the part of it here."""
    spreads = studies[4].spreads
    assert spreads["recall_macro"].mean == pytest.approx(spreads["accuracy"].mean, abs=0.01)


def test_ten_seeds_of_a_linear_model_hold_no_better_one(studies):
    found = over_tasks(studies)[0]
    assert found.better_seed.tasks == tuple(SETS)
    assert not found.better_seed.found
