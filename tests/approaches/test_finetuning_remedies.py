"""Trainings that begin again after a collapse, averages of the last epochs, and what approaches offer against luck."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from finetuning_helpers import cell, handmade_task, prepare, run
from finetuning_models import own_parts, regression_task, session_of

from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.finetuning.full import FullSession
from mlflow_l3d.approaches.finetuning.head import HeadSession, logits_of
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.training import Course, DivergedError, Progress
from mlflow_l3d.approaches.icl.approach import InContextLearning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.factors import TASK_FACTORS, stream_seed
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import f1_macro
from mlflow_l3d.parameters.cures import cured
from mlflow_l3d.testing import check_approach

TASK = handmade_task(100, num_labelled=20, test_size=8)
LAST = {"early_stopping_patience": 0, "epochs": 4}
FULL, LORA = {"trainable": "full", "learning_rate": 1e-3}, {"trainable": "lora", "learning_rate": 1e-2}
COLLAPSING = {"learning_rate": 1e-4, "epochs": 1, "hidden_units": 2, "dropout": 0.5}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def softmax(logits):
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


@pytest.mark.parametrize("last", [1, 3, 4])
def test_the_head_is_evaluated_with_the_mean_of_its_last_weights(last, cache, monkeypatch):
    seen, original = [], HeadSession.epoch

    def spy(self, courses, number, order, weights, rates):
        losses = original(self, courses, number, order, weights, rates)
        for own, *layers in zip(courses, *weights.tensors, strict=True):
            seen.append((own.cell.key, [layer.numpy().astype(np.float64) for layer in layers]))
        return losses

    monkeypatch.setattr(HeadSession, "epoch", spy)
    session = prepare(TASK, cache, **LAST, average_last=last)
    for outcome in run(session, cell(0), cell(1)):
        epochs = [weights for key, weights in seen if key == outcome.key]
        assert len(epochs) == 4
        w1, w2 = (np.mean([weights[layer] for weights in epochs[-last:]], axis=0) for layer in range(2))
        split = TASK.split(cell(0).seeds if outcome.key == cell(0).key else cell(1).seeds)

        def logits_of(positions, w1=w1, w2=w2):
            hidden = np.maximum(np.c_[session.features[positions], np.ones(len(positions))] @ w1, 0)
            return np.c_[hidden, np.ones(len(positions))] @ w2

        assert outcome.scores == pytest.approx(softmax(logits_of(split.test)), abs=1e-5)
        labels = TASK.labels[split.validation]
        validation = f1_macro(labels, logits_of(split.validation).argmax(1), 2)
        assert outcome.metrics["validation_f1_macro"] == pytest.approx(validation)
        assert outcome.metrics["best_epoch"] == 4


@pytest.mark.parametrize("given", [FULL, LORA, {**LORA, "lora_cells": 2}])
def test_a_model_is_evaluated_with_the_mean_of_its_last_weights(given, folders, tmp_path, monkeypatch):
    epochs, tested = [], []
    train, test = FullSession.epoch, FullSession.tested

    def spy(self, courses, epoch, order, weights, *more):
        losses = train(self, courses, epoch, order, weights, *more)
        epochs.append([tensor.detach().clone() for tensor in weights.tensors])
        return losses

    def tested_with(self, courses):
        tested.append([tensor.detach().clone() for tensor in self.model.parameters() if tensor.requires_grad])
        logits = test(self, courses)
        for course in courses:
            assert course.progress.metrics["validation_f1_macro"] == course.progress.average[0]
        return logits

    monkeypatch.setattr(FullSession, "epoch", spy)
    monkeypatch.setattr(FullSession, "tested", tested_with)
    session = session_of(TASK, folders["encoder"], tmp_path, **LAST, **given, average_last=3, max_length=32)
    run(session, *(cell(number) for number in range(session.cells_at_once)))
    assert (len(epochs), len(tested)) == (4, 1)
    moved = 0.0
    for found, *each in zip(tested[0], *epochs, strict=True):
        assert torch.allclose(found, torch.stack(each[-3:]).mean(0), atol=1e-6)
        moved = max(moved, float((each[-1] - found).abs().max()))
    assert moved > 1e-4


def draws(seeds, attempt):
    """Return the seeds of an attempt, as the docs say."""
    for _ in range(attempt):
        seeds = {name: seed if name in TASK_FACTORS else stream_seed(seed, "restart") for name, seed in seeds.items()}
    return seeds


def check_restarts(sessions, count):
    """Check cells against plain trainings of each attempt; return how often they began again."""
    plain, restarted = sessions
    cells = [cell(number) for number in range(count)]
    outcomes, attempts = {outcome.key: outcome for outcome in run(restarted, *cells)}, []
    for one in cells:
        labels = TASK.labels[TASK.split(one.seeds).validation]
        constant = max(f1_macro(labels, np.full_like(labels, number), 2) for number in range(2))
        for attempt in range(3):
            (alone,) = run(plain, replace(one, seeds=draws(one.seeds, attempt)))
            if alone.metrics["validation_f1_macro"] > constant:
                break
        attempts.append(attempt)
        found = outcomes[one.key]
        assert found.predictions.tolist() == alone.predictions.tolist()
        assert found.scores == pytest.approx(alone.scores, abs=1e-5)
        assert found.metrics["restarts"] == attempt
        assert found.curves["validation_f1_macro"] == pytest.approx(alone.curves["validation_f1_macro"])
    return attempts


def test_a_head_that_is_no_better_than_a_constant_begins_again(cache):
    sessions = [prepare(TASK, cache, **COLLAPSING, restarts=restarts) for restarts in (0, 2)]
    assert set(check_restarts(sessions, 12)) == {0, 1, 2}


def member(one, number):
    """Return a training of a soup, as the docs say: the same split and first weights, other orders and dropout."""
    if not number:
        return one
    drawn = {name: stream_seed(one.seeds[name], "soup", str(number)) for name in ("data_order", "model_randomness")}
    return replace(one, seeds={**one.seeds, **drawn})


@pytest.mark.parametrize("more", [{}, {**LAST, "average_last": 2}])
def test_a_soup_of_heads_has_the_mean_of_the_weights_of_its_trainings(more, cache):
    more = {"epochs": 4, "learning_rate": 1e-2, **more}
    plain, soup = (prepare(TASK, cache, **more, soup=members) for members in (1, 3))
    cells = [cell(0), cell(1)]
    courses = [soup.draw(one) for one in cells]
    logits = soup.trained(courses)
    for course, one, found in zip(courses, cells, logits, strict=True):
        alone = [plain.draw(member(one, number)) for number in range(3)]
        assert all(np.array_equal(each.weights[0], course.weights[0]) for each in alone)
        plain.trained(alone)
        means = [torch.stack(layers).mean(0) for layers in zip(*(each.best for each in alone), strict=True)]
        assert max(float((means[0] - each.best[0]).abs().max()) for each in alone) > 1e-3
        assert all(torch.allclose(mean, layer, atol=1e-6) for mean, layer in zip(means, course.best, strict=True))
        inputs = np.c_[plain.features[course.split.test], np.ones(8)].astype(np.float32)
        assert torch.allclose(found, logits_of(torch.from_numpy(inputs), *means), atol=1e-5)
        assert course.progress.f1 == alone[0].progress.f1
        validated = plain.task.labels[course.split.validation]
        inputs = np.c_[plain.features[course.split.validation], np.ones(len(validated))].astype(np.float32)
        score = f1_macro(validated, logits_of(torch.from_numpy(inputs), *means).argmax(1).numpy(), 2)
        assert course.progress.metrics["validation_f1_macro"] == pytest.approx(score)


@pytest.mark.parametrize("given", [FULL, LORA, {**LORA, "lora_cells": 2}])
def test_a_model_is_evaluated_with_the_mean_of_the_weights_of_its_trainings(given, folders, tmp_path, monkeypatch):
    given = {**given, "early_stopping_patience": 0, "epochs": 2, "selection": "last", "max_length": 16}
    tested, test = [], FullSession.tested

    def tested_with(self, courses):
        weights = [tensor.detach().clone() for tensor in self.model.parameters() if tensor.requires_grad]
        tested.extend([layer[at] if len(courses) > 1 else layer for layer in weights] for at in range(len(courses)))
        return test(self, courses)

    monkeypatch.setattr(FullSession, "tested", tested_with)
    plain, soup = (session_of(TASK, folders["encoder"], tmp_path, **given, soup=members) for members in (1, 2))
    cells = [cell(number) for number in range(soup.cells_at_once)]
    outcomes = run(soup, *cells)
    means = list(tested)
    for one, mean, outcome in zip(cells, means, outcomes, strict=True):
        tested.clear()
        (first,) = run(plain, one)
        run(plain, member(one, 1))
        moved = 0.0
        for found, *layers in zip(mean, *tested, strict=True):
            assert torch.allclose(found, torch.stack(layers).mean(0), atol=1e-5)
            moved = max(moved, float((found - layers[0]).abs().max()))
        assert moved > 1e-4
        assert outcome.curves["train_loss"] == pytest.approx(first.curves["train_loss"], abs=1e-5)


@pytest.mark.parametrize("given", [{}, {**LORA, "lora_cells": 2, "max_length": 16}])
def test_a_soup_diverges_with_any_training_and_ends_with_the_first_one(given, folders, tmp_path, monkeypatch):
    given = {**given, "epochs": 2, "soup": 3}
    session = session_of(TASK, folders["encoder"], tmp_path, **given)
    noted, original, cells = [], Course.note, [cell(0), cell(1)]

    def note(self, logits, labels, loss, listener):
        noted.append(self.cell)
        lost = self.cell.seeds == member(cells[1], 1).seeds
        return original(self, logits, labels, float("nan") if lost else loss, listener)

    monkeypatch.setattr(Course, "note", note)
    fine, lost = session.run(cells)
    assert fine.traceback is None
    assert "training diverged: nan or inf in epoch 1" in str(lost.traceback)
    assert [sum(one.seeds == member(cells[1], number).seeds for one in noted) for number in range(3)] == [2, 1, 0]
    noted.clear()
    session.on_epoch_end = lambda *_: True
    run(session, *cells)
    assert [one.seeds for one in noted] == [one.seeds for one in cells]


def test_a_soup_that_is_no_better_than_a_constant_begins_again(cache):
    sessions = [prepare(TASK, cache, **COLLAPSING, soup=2, restarts=restarts) for restarts in (0, 2)]
    assert max(check_restarts(sessions, 12)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("lora", [{"trainable": "full"}, {"trainable": "lora", "lora_cells": 2}])
def test_a_model_that_is_no_better_than_a_constant_begins_again(lora, folders, tmp_path):
    given = {**lora, "epochs": 1, "learning_rate": 1e-6, "max_length": 16}
    sessions = [session_of(TASK, folders["encoder"], tmp_path, **given, restarts=restarts) for restarts in (0, 2)]
    assert max(check_restarts(sessions, 4)) > 0


@pytest.mark.slow
def test_a_cell_begins_again_alone_as_among_others_and_callbacks_hear_one_training(cache):
    hyperparameters = {**COLLAPSING, "epochs": 2, "restarts": 2, "soup": 2}
    check_approach(Finetuning(), TASK, hyperparameters=hyperparameters, cache=cache, configurations=8, tolerance=1e-5)


def course(task, score, **more):
    approach = Finetuning()
    progress = Progress(Recipe(**approach.complete(resolve_hyperparameters(approach, {}))))
    progress.f1, progress.loss, progress.best = [score], [1.0], 0
    return Course(cell(0), task.split(cell(0).seeds), progress, **more)


def test_what_counts_as_a_collapse():
    constant = f1_macro(TASK.labels[TASK.split(cell(0).seeds).validation], np.zeros(4, dtype=np.int64), 2)
    assert course(TASK, constant).collapsed(TASK)
    assert not course(TASK, constant + 0.01).collapsed(TASK)
    assert course(TASK, 1.0, diverged=DivergedError(1, 0.1)).collapsed(TASK)
    assert not course(TASK, 0.0, ended=True).collapsed(TASK)  # told to end: that is what it has
    numbers = regression_task(60)
    assert course(numbers, 0.0).collapsed(numbers)
    assert not course(numbers, 0.1).collapsed(numbers)


@pytest.mark.parametrize("given", [{}, {"trainable": "full"}, {"trainable": "lora"}])
def test_what_cannot_be_is_refused_in_one_line(given, folders, tmp_path):
    with pytest.raises(ParameterError, match=r"^hyperparameters.average_last=3: needs early_stopping_patience=0"):
        session_of(TASK, folders["encoder"], tmp_path, **given, average_last=3)
    with pytest.raises(ParameterError, match=r"^hyperparameters.average_last=9: must be at most epochs=4\.$"):
        session_of(TASK, folders["encoder"], tmp_path, **given, **LAST, average_last=9)
    without = own_parts(handmade_task(60), 10)
    with pytest.raises(ParameterError, match=r"^hyperparameters.restarts=2: needs a validation part, and"):
        session_of(without, folders["encoder"], tmp_path, **given, restarts=2)


def test_keys_have_the_new_hyperparameters_only_if_they_are_used():
    approach = Finetuning()
    plain = approach.complete(resolve_hyperparameters(approach, {}))
    assert not {"restarts", "average_last", "soup"} & set(approach.identity(plain))
    assert approach.identity({**plain, "restarts": 1}) == {**approach.identity(plain), "restarts": 1}


LONGER = {"epochs": 30, "early_stopping_patience": 0, "learning_rate": 3e-3, "restarts": 3}


@pytest.mark.parametrize(
    ("approach", "given", "changes"),
    [
        (Finetuning(), {}, [LONGER, {"early_stopping_patience": 0, "average_last": 5}, {"restarts": 3}, {"soup": 5}]),
        (
            Finetuning(),
            {"trainable": "full", "epochs": 1, "early_stopping_patience": 0, "warmup_share": 0.0, "restarts": 3},
            [{"epochs": 2}, {"epochs": 20, "learning_rate": 5e-6, "warmup_share": 0.1}, {"soup": 5}],
        ),
        (Synthetic(), {"noise": 0.5}, [{"a_data_order": 99.0}, {"noise": 0.0}]),
        (Synthetic(), {f"a_{name}": 1e6 for name in Synthetic.factors}, []),
        (MetaLearning(), {}, [{"epochs": 10}]),
        (MetaLearning(), {"learner": "maml"}, [{"epochs": 34}, {"adaptation_steps": 10}]),
        (InContextLearning(), {"shots": 0}, []),
        (
            InContextLearning(),
            {"prompt_format": "C", "calibration": "none", "temperature": 1.0},
            [{"calibration": "batch"}, {"prompt_format": "A"}, {"selection": "similarity"}, {"temperature": 0.0}],
        ),
    ],
)
def test_remedies_of_approaches_are_allowed_and_change_something(approach, given, changes):
    complete = approach.complete(resolve_hyperparameters(approach, given))
    remedies = approach.remedies(TASK, complete)
    assert [dict(remedy.changes) for remedy in remedies] == changes
    assert all(remedy.words and "=" not in remedy.words for remedy in remedies)
    for remedy in remedies:
        cure = cured(approach, remedy)
        after = cure.complete(resolve_hyperparameters(approach, given))
        assert {name: value for name, value in after.items() if value != complete[name]} == remedy.changes
        assert cure.remedies(TASK, complete) == remedies


def test_an_approach_offers_nothing_by_default():
    assert Approach.remedies(SimpleNamespace(), TASK, {}) == ()
    assert Remedy("training").changes == {}
