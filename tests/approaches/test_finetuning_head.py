from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from finetuning_helpers import cell, changes, content, handmade_task, prepare, run, short_reviews
from finetuning_models import regression_task

from mlflow_l3d.approaches import chunks, stack
from mlflow_l3d.approaches.finetuning import Finetuning, head, training
from mlflow_l3d.approaches.finetuning.head import HeadSession
from mlflow_l3d.approaches.finetuning.recipe import HYPERPARAMETERS, Recipe
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import f1_macro
from mlflow_l3d.metrics.regression import pearson
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.testing.approaches import check_approach

TASK = handmade_task()
DRAWS = {
    "batch_order": (training, "batch_order"),
    "initial_head": (head, "initial_head"),
    "dropout": (stack, "dropout_factors"),
}


@pytest.fixture
def session(cache):
    opened = prepare(TASK, cache, learning_rate=3e-3)
    yield opened
    opened.close()


def test_outcome_is_that_of_the_test_part(session):
    chosen = cell(0)
    (outcome,) = run(session, chosen)
    test = TASK.split(chosen.seeds).test
    assert outcome.key == chosen.key
    assert np.array_equal(outcome.example_ids, TASK.example_ids[test])
    assert np.array_equal(outcome.labels, TASK.labels[test])
    assert outcome.scores.dtype == np.float32
    assert outcome.predictions.dtype == np.int64
    np.testing.assert_allclose(outcome.scores.sum(1), 1, rtol=1e-5)
    assert np.array_equal(outcome.predictions, outcome.scores.argmax(1))
    assert outcome.duration_seconds > 0
    best = int(outcome.metrics["best_epoch"]) - 1
    assert outcome.metrics["validation_f1_macro"] == outcome.curves["validation_f1_macro"][best]
    assert f1_macro(outcome.labels, outcome.predictions, 2) > 0.9


def test_same_cell_alone_among_others_and_in_another_session(session, cache):
    cells = [cell(i) for i in range(4)]
    together = {outcome.key: outcome for outcome in run(session, *cells)}
    assert len({outcome.scores.tobytes() for outcome in together.values()}) == 4
    backwards = run(session, *cells[::-1])
    other = prepare(TASK, cache, learning_rate=3e-3)
    torch.manual_seed(11)
    for outcome in (*backwards, *run(other, cells[2])):
        same(outcome, together[outcome.key])
    again = run(prepare(TASK, cache, learning_rate=3e-3), *cells)
    assert [content(outcome) for outcome in again] == [content(together[chosen.key]) for chosen in cells]


def same(one, other):
    assert np.array_equal(one.predictions, other.predictions)
    np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-5)
    assert one.metrics == pytest.approx(other.metrics, abs=1e-5)
    assert one.metrics["best_epoch"] == other.metrics["best_epoch"]


def test_chunks_are_as_large_as_they_pay(session, cache):
    assert session.cells_at_once == 8
    assert prepare(TASK, cache, hidden_units=8192).cells_at_once == 1
    step, held = head.bytes_per_cell(384, 2, 800, session.recipe)
    weights = 4 * (385 * 128 + 129 * 2)
    assert 4 * weights < step < 4.2 * weights
    assert held > step + weights + 4 * 800 * 128
    _, of_many = head.bytes_per_cell(384, 2, 100_000, session.recipe)
    assert chunks.cells_at_once(step, of_many, "cpu", cache=2**30, memory=head.MEMORY) == 9


def test_the_wall_clock_is_shared_by_the_epochs(cache):
    outcomes = run(prepare(TASK, cache, learning_rate=0.03, early_stopping_patience=1), *[cell(i) for i in range(8)])
    epochs = [len(outcome.curves["train_loss"]) for outcome in outcomes]
    assert len(set(epochs)) > 1
    seconds = [outcome.duration_seconds for outcome in outcomes]
    np.testing.assert_allclose(seconds, np.array(epochs) * sum(seconds) / sum(epochs))


FEEDS = {
    "label_selection": {"train", "validation", "test"},
    "data_split": {"train", "validation", "test"},
    "data_order": {"batch_order"},
    "model_initialisation": {"initial_head"},
    "model_randomness": {"dropout"},
}


@pytest.mark.parametrize("factor", FEEDS)
def test_a_factor_changes_what_it_feeds_and_nothing_else(cache, monkeypatch, factor):
    session = prepare(handmade_task(num_labelled=60, test_size=16), cache, epochs=3, early_stopping_patience=0)
    assert changes(session, factor, DRAWS, monkeypatch) == FEEDS[factor]
    assert set(FEEDS) == set(Finetuning.factors)


def test_seeds_reach_the_draws(session, monkeypatch):
    """Each draw is made from the seed of the factor that its documentation names."""
    seeds = []
    for name, where in {"batch_order": training, "initial_head": head, "cell_dropout": head}.items():
        original = getattr(where, name)
        monkeypatch.setattr(
            where, name, lambda *given, name=name, f=original: seeds.append((name, *np.ravel(given[0]))) or f(*given)
        )
    chosen = cell(3)
    run(session, chosen)
    assert set(seeds) == {
        ("batch_order", chosen.seeds["data_order"]),
        ("initial_head", chosen.seeds["model_initialisation"]),
        ("cell_dropout", chosen.seeds["model_randomness"]),
    }


def test_a_diverged_cell_is_an_outcome_with_its_cause_and_the_others_are_unharmed(session, monkeypatch):
    original = head.initial_head

    def huge(seed, *given):
        first, second = original(seed, *given)
        return (first * np.inf, second) if seed == cell(1).seeds["model_initialisation"] else (first, second)

    whole = run(session, *[cell(i) for i in range(3)])
    monkeypatch.setattr(head, "initial_head", huge)
    outcomes = list(session.run([cell(i) for i in range(3)]))
    assert [outcome.key for outcome in outcomes] == [outcome.key for outcome in whole]
    assert outcomes[1].error.startswith("training diverged: nan or inf in epoch 1 at learning_rate=0.003.")
    assert 0 < outcomes[1].duration_seconds < outcomes[0].duration_seconds
    for number in (0, 2):
        same(outcomes[number], whole[number])


def test_scores_that_are_not_finite_are_an_error(session):
    """The test examples are none that the training looks at."""
    test = TASK.split(cell(0).seeds).test
    session.features = np.array(session.features)
    session.features[test[0]] = np.nan
    (outcome,) = session.run([cell(0)])
    assert outcome.error == "the scores of the test examples are nan or inf. Use a lower learning rate."


class Uneven(Task):
    """A task whose splits have unequal sizes."""

    def split(self, seeds):
        whole = super().split(seeds)
        fewer = seeds["data_split"] % 3
        return Split(whole.train[fewer:], whole.validation[fewer:], whole.test[: len(whole.test) - fewer])


def test_splits_of_unequal_sizes(cache):
    task = Uneven(TASK.name, TASK.texts, TASK.labels, TASK.class_names, TASK.example_ids, TASK.settings, "uneven")
    session = prepare(task, cache, epochs=2)
    cells = [cell(i) for i in range(6)]
    assert len({len(task.split(chosen.seeds).train) for chosen in cells}) == 3
    together = run(session, *cells)
    assert [outcome.key for outcome in together] == [chosen.key for chosen in cells]
    session.cells_at_once = 1
    for one, other in zip(run(session, *cells), together, strict=True):
        same(one, other)


def test_no_validation_examples(tmp_path, cache):
    (outcome,) = run(prepare(handmade_task(num_labelled=2, test_size=20), cache, epochs=2), cell(0))
    assert outcome.metrics.keys() == {"best_epoch", "train_loss"}
    assert outcome.metrics["best_epoch"] == 2


@pytest.mark.slow
def test_real_sentences(cache):
    outcomes = run(prepare(short_reviews(), cache, max_length=32), *[cell(i) for i in range(4)])
    assert np.mean([f1_macro(outcome.labels, outcome.predictions, 2) for outcome in outcomes]) > 0.7


def test_three_text_columns_are_too_many(cache):
    with pytest.raises(ParameterError, match="text_column=3: must be one column, or two for sentence pairs"):
        prepare(handmade_task(20, columns=3), cache)


@pytest.mark.slow
@pytest.mark.parametrize("make", [handmade_task, regression_task])
@pytest.mark.parametrize("given", [{}, {"dropout": 0}], ids=["head", "head without dropout"])
def test_keeps_the_contract_of_an_approach(given, make, cache):
    task = make(100, num_labelled=12, test_size=20)
    check_approach(Finetuning(), task, hyperparameters=given, cache=cache, configurations=1, tolerance=1e-5)


# Heads that give scores, on features of which the best answer is known in closed form.

COUNT, WIDTH = 1300, 12
RNG = np.random.default_rng(4)
FEATURES = RNG.normal(size=(COUNT, WIDTH)).astype(np.float32)
LABELS = 30 + 5 * FEATURES @ RNG.normal(size=WIDTH) + 2 * RNG.normal(size=COUNT)


def scores_session(labels=LABELS, **given) -> HeadSession:
    """Open a session on 1,000 training and validation examples, without an encoder."""
    plain = handmade_task(COUNT, num_labelled=1000, test_size=100)
    task = replace(plain, labels=labels, class_names=(), kind="regression", metric="pearson")
    defaults = {name: declared.default for name, declared in HYPERPARAMETERS.items()}
    chosen = {"learning_rate": 3e-3, "hidden_units": 32, "epochs": 30, "batch_size": 32, **given}
    return HeadSession(task, FEATURES, Recipe(**Finetuning().complete(defaults | chosen)), "cpu")


def test_outcome_is_one_of_numbers() -> None:
    opened = scores_session(epochs=2)
    (outcome,) = run(opened, cell(0))
    test = opened.task.split(cell(0).seeds).test
    assert np.array_equal(outcome.labels, LABELS[test])
    assert (outcome.predictions.dtype, outcome.predictions.shape) == (np.float64, test.shape)
    assert outcome.scores is None
    assert set(outcome.curves) == {"train_loss", "validation_pearson", "validation_loss"}
    assert len(outcome.curves["validation_pearson"]) == 2


def test_a_linear_problem_comes_near_its_ridge_regression() -> None:
    opened = scores_session(dropout=0)
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
    units = LABELS, 1000 * LABELS - 7e4
    ours, theirs = (run(scores_session(labels, epochs=8), cell(0), cell(1)) for labels in units)
    for own, other in zip(ours, theirs, strict=True):
        assert other.predictions == pytest.approx(1000 * own.predictions - 7e4, rel=1e-3, abs=1)
        assert other.metrics["best_epoch"] == own.metrics["best_epoch"]
        assert other.curves["train_loss"] == pytest.approx(np.multiply(1e6, own.curves["train_loss"]), rel=1e-3)


def test_equal_training_labels_are_predicted_again() -> None:
    (outcome,) = run(scores_session(np.full(COUNT, 7.0)), cell(0))
    assert outcome.predictions == pytest.approx(7.0, abs=0.1)
    assert outcome.metrics["validation_pearson"] == 0


@pytest.mark.parametrize("factor", FEEDS)
def test_a_factor_changes_what_it_feeds_for_scores_and_nothing_else(
    factor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = scores_session(epochs=2, early_stopping_patience=0)
    assert changes(opened, factor, DRAWS, monkeypatch) == FEEDS[factor]


@pytest.mark.slow
def test_texts_that_are_cut_are_counted_and_named(cache):
    texts = ("internationalisation " * 14, *TASK.texts[0][1:])  # 14 words are more than 24 tokens
    given = replace(TASK, texts=(texts,))
    for _ in ("new features", "those in the cache"):
        (outcome,) = run(prepare(given, cache, max_length=24), cell(0))
        assert outcome.metrics["truncated_share"] == 1 / len(texts)
    (remark,) = Finetuning().remarks(pd.DataFrame([outcome.metrics]))
    assert remark.startswith(f"{100 / len(texts):.1f} % of the examples are longer than max_length")
    (whole,) = run(prepare(TASK, cache), cell(0))
    assert Finetuning().remarks(pd.DataFrame([whole.metrics])) == ()
