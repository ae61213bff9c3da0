"""Sessions that are watched: what a watcher is told, and how a training ends that is told to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from finetuning_helpers import cell, content, golden, handmade_task, opened, run
from finetuning_models import session_of, tiny_bert
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches.base import should_stop, validation_scores
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.metrics.known import of_kind, scores_of

TASK = handmade_task(60, num_labelled=16, test_size=8)


@dataclass
class Watcher:
    """Notes what it is told; wants the cells of `ends` to end after so many epochs."""

    ends: Mapping[str, int] = field(default_factory=dict)
    seen: dict[str, list[tuple[int, Mapping[str, float]]]] = field(default_factory=dict)

    def __call__(self, key: str, epoch: int, scores: Mapping[str, float]) -> bool:
        self.seen.setdefault(key, []).append((epoch, dict(scores)))
        return epoch + 1 == self.ends.get(key)

    def curve(self, key: str, name: str) -> list[float]:
        return [scores[name] for _, scores in self.seen[key]]


def watched_run(session, ends, *cells):
    """Run cells that a watcher is told of; return the watcher and their outcomes."""
    session.on_epoch_end = watcher = Watcher(ends)
    try:
        return watcher, run(session, *cells)
    finally:
        session.on_epoch_end = None


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 5), st.integers(1, 40), st.integers(0, 2**32))
def test_scores_are_those_of_the_analysis(classes: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=n)])
    predictions = np.where(rng.random(len(labels)) < 0.5, labels, rng.integers(classes, size=len(labels)))
    every = scores_of(labels, predictions)
    expected = {name: every[name] for name in (metric.name for metric in of_kind("classification", secondary=False))}
    found = validation_scores(labels, predictions, classes)
    assert found == pytest.approx({f"validation_{name}": value for name, value in expected.items()})


def test_one_class_has_no_correlation() -> None:
    labels = np.array([0, 1, 0])
    assert validation_scores(labels, np.zeros(3, dtype=np.int64), 2)["validation_matthews_corrcoef"] == 0


def test_nobody_is_told_of_nothing() -> None:
    watcher = Watcher({"key": 1})
    nothing = np.empty(0, dtype=np.int64)
    assert should_stop(watcher, "key", 0, torch.empty(0, 2), nothing) is False
    assert should_stop(None, "key", 0, torch.ones(1, 2), np.array([0])) is False
    assert watcher.seen == {}


@pytest.fixture(scope="module", params=["full", "head"])
def session(request, tmp_path_factory):
    epochs = {"full": 3, "head": 6}[request.param]
    given = {"trainable": request.param, "epochs": epochs, "learning_rate": 3e-3}
    given |= {"max_length": 12, "early_stopping_patience": 0}
    model = tiny_bert(tmp_path_factory.mktemp("model")) if request.param == "full" else Finetuning.default_model
    found = session_of(TASK, model, tmp_path_factory.mktemp("cache"), **given)
    assert found.on_epoch_end is None
    return found


@pytest.mark.slow
def test_a_cell_that_is_told_to_end_ends_alone(session) -> None:
    whole = run(session, cell(0), cell(1))
    watcher, (ended, other) = watched_run(session, {whole[0].key: 2}, cell(0), cell(1))
    assert len(ended.curves["train_loss"]) == len(watcher.seen[ended.key]) == 2
    assert ended.curves["validation_f1_macro"] == list(whole[0].curves["validation_f1_macro"][:2])
    assert ended.metrics["best_epoch"] <= 2
    assert ended.metrics["validation_f1_macro"] == max(ended.curves["validation_f1_macro"])
    assert len(ended.predictions) == len(whole[0].predictions)
    assert content(other).predictions == content(whole[1]).predictions
    assert len(other.curves["train_loss"]) == session.recipe.epochs
    assert watcher.curve(other.key, "validation_f1_macro") == list(other.curves["validation_f1_macro"])


@pytest.fixture(scope="module", params=["protonet", "maml", "reptile"])
def meta_session(request, tmp_path_factory):
    given = {"learner": request.param, "shots": 2, "adaptation_shots": 3, "tasks": 2, "steps": 3, "epochs": 4}
    given |= {"hidden_units": 8, "max_length": 12, "dropout": 0.1}
    given |= {"inner_steps": 2} if request.param == "reptile" else {"queries": 2}
    return opened(MetaLearning(), TASK, tmp_path_factory.mktemp("meta-cache"), **given)


@pytest.mark.slow
def test_a_watched_learner_is_adapted_after_every_epoch_and_trains_as_before(meta_session) -> None:
    cells = [golden(MetaLearning.factors, number) for number in range(3)]
    unwatched = run(meta_session, *cells)
    watcher, watched = watched_run(meta_session, {cells[1].key: 2}, *cells)
    for number in (0, 2):
        assert content(watched[number]).predictions == content(unwatched[number]).predictions
        assert watched[number].scores == pytest.approx(unwatched[number].scores, abs=1e-5)
        assert len(watched[number].curves["train_loss"]) == 4
        assert [epoch for epoch, _ in watcher.seen[cells[number].key]] == [0, 1, 2, 3]
    assert [epoch for epoch, _ in watcher.seen[cells[1].key]] == [0, 1]
    assert watched[1].curves["train_loss"] == pytest.approx(unwatched[1].curves["train_loss"][:2])
    for outcome in watched:
        told = watcher.curve(outcome.key, "validation_f1_macro")
        assert outcome.metrics["validation_f1_macro"] == told[-1]
        assert outcome.metrics["diverged_step"] == 0
        assert len(outcome.predictions) == 8


def test_a_learner_that_is_told_to_end_is_what_one_of_fewer_epochs_is(meta_session) -> None:
    ended = golden(MetaLearning.factors)
    _, (cut,) = watched_run(meta_session, {ended.key: 3}, ended)
    recipe = meta_session.recipe
    meta_session.recipe = replace(recipe, epochs=3)
    try:
        (whole,) = run(meta_session, ended)
    finally:
        meta_session.recipe = recipe
    assert content(cut) == content(whole)
