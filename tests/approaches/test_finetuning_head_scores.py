"""Heads that give scores, on features of which the best answer is known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from finetuning_helpers import cell, changes, handmade_task, run
from test_finetuning_head import DRAWS, FEEDS

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.finetuning.head.session import HeadSession
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.metrics.regression import pearson

COUNT, WIDTH = 1300, 12
RNG = np.random.default_rng(4)
FEATURES = RNG.normal(size=(COUNT, WIDTH)).astype(np.float32)
LABELS = 30 + 5 * FEATURES @ RNG.normal(size=WIDTH) + 2 * RNG.normal(size=COUNT)


def session(labels=LABELS, **given) -> HeadSession:
    """Open a session on 1,000 training and validation examples, without an encoder."""
    plain = handmade_task(COUNT, num_labelled=1000, test_size=100)
    task = replace(plain, labels=labels, class_names=(), kind="regression", metric="pearson")
    defaults = {name: declared.default for name, declared in HYPERPARAMETERS.items()}
    chosen = {"learning_rate": 3e-3, "hidden_units": 32, "epochs": 30, "batch_size": 32, **given}
    return HeadSession(task, FEATURES, Recipe(**Finetuning().complete(defaults | chosen)), "cpu")


def test_outcome_is_one_of_numbers() -> None:
    opened = session(epochs=2)
    (outcome,) = run(opened, cell(0))
    test = opened.task.split(cell(0).seeds).test
    assert np.array_equal(outcome.labels, LABELS[test])
    assert (outcome.predictions.dtype, outcome.predictions.shape) == (np.float64, test.shape)
    assert outcome.scores is None
    assert set(outcome.curves) == {"train_loss", "validation_pearson", "validation_loss"}
    assert len(outcome.curves["validation_pearson"]) == 2


def test_a_linear_problem_comes_near_its_ridge_regression() -> None:
    opened = session(dropout=0)
    (outcome,) = run(opened, cell(0))
    split = opened.task.split(cell(0).seeds)
    x, y = FEATURES[split.train].astype(np.float64), LABELS[split.train]
    centred = x - x.mean(0)
    slope = np.linalg.solve(centred.T @ centred + np.eye(WIDTH), centred.T @ (y - y.mean()))
    ridge = y.mean() + (FEATURES[split.test] - x.mean(0)) @ slope
    errors = [np.sqrt(np.mean((own - outcome.labels) ** 2)) for own in (ridge, outcome.predictions)]
    assert errors[1] < 1.25 * errors[0]
    assert pearson(ridge, outcome.predictions) > 0.98
    assert errors[1] < 0.25 * np.std(outcome.labels)


def test_the_unit_of_the_labels_decides_nothing() -> None:
    ours, theirs = (run(session(labels, epochs=8), cell(0), cell(1)) for labels in (LABELS, 1000 * LABELS - 7e4))
    for own, other in zip(ours, theirs, strict=True):
        assert other.predictions == pytest.approx(1000 * own.predictions - 7e4, rel=1e-3, abs=1)
        assert other.metrics["best_epoch"] == own.metrics["best_epoch"]
        assert other.curves["train_loss"] == pytest.approx(np.multiply(1e6, own.curves["train_loss"]), rel=1e-3)


def test_equal_training_labels_are_predicted_again() -> None:
    opened = session(np.full(COUNT, 7.0))
    (outcome,) = run(opened, cell(0))
    assert outcome.predictions == pytest.approx(7.0, abs=0.1)
    assert outcome.metrics["validation_pearson"] == 0


@pytest.mark.parametrize("factor", FEEDS)
def test_a_factor_changes_what_it_feeds_and_nothing_else(factor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = session(epochs=2, early_stopping_patience=0)
    assert changes(opened, factor, DRAWS, monkeypatch) == FEEDS[factor]
