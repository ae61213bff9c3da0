import numpy as np
import pytest
import torch
from finetuning_helpers import cell, content, handmade_task, prepare, run

from mlflow_l3d.approaches.finetuning import Finetuning, head
from mlflow_l3d.approaches.finetuning.training import f1_macro
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.packaged import rotten_tomatoes

TASK = handmade_task()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


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
    together = {outcome.key: content(outcome) for outcome in run(session, *cells)}
    assert len({outcome.scores for outcome in together.values()}) == 4
    backwards = {outcome.key: content(outcome) for outcome in run(session, *cells[::-1])}
    other = prepare(TASK, cache, learning_rate=3e-3)
    torch.manual_seed(11)
    alone = content(run(other, cells[2])[0])
    assert together == backwards
    assert alone == together[cells[2].key]


def test_global_generators_and_threads_stay_as_they_are(session):
    torch_state, numpy_state, threads = torch.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()  # noqa: NPY002
    for _ in session.run([cell(0), cell(1)]):
        assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def observed(session, chosen, monkeypatch):
    """Run one cell; return what each factor fed, as bytes, and the scores."""
    fed = {"batch_order": [], "initial_head": [], "dropout_masks": []}
    with monkeypatch.context() as patch:
        for name, seen in fed.items():
            original = getattr(head, name)

            def spy(*given, original=original, seen=seen):
                drawn = original(*given)
                seen.append(b"".join(array.tobytes() for array in (drawn if isinstance(drawn, tuple) else (drawn,))))
                return drawn

            patch.setattr(head, name, spy)
        (outcome,) = run(session, chosen)
    split = TASK.split(chosen.seeds)
    parts = {name: getattr(split, name).tobytes() for name in ("train", "validation", "test")}
    return {name: b"".join(seen) for name, seen in fed.items()} | parts, outcome.scores.tobytes()


FEEDS = {
    "label_selection": {"train", "validation", "test"},
    "data_split": {"train", "validation", "test"},
    "data_order": {"batch_order"},
    "model_initialisation": {"initial_head"},
    "model_randomness": {"dropout_masks"},
}


@pytest.mark.parametrize("factor", FEEDS)
def test_a_factor_changes_what_it_feeds_and_nothing_else(cache, monkeypatch, factor):
    small = handmade_task(num_labelled=60, test_size=16)
    session = prepare(small, cache, epochs=3, early_stopping_patience=0)
    monkeypatch.setattr("test_finetuning_head.TASK", small)
    before, scores = observed(session, cell(0), monkeypatch)
    after, other_scores = observed(session, cell(0, **{factor: 5}), monkeypatch)
    assert {name for name in before if before[name] != after[name]} == FEEDS[factor]
    assert scores != other_scores
    assert set(FEEDS) == set(Finetuning.factors)


def test_seeds_reach_the_draws(session, monkeypatch):
    """Each draw is made from the seed of the factor that its documentation names."""
    seeds = []
    for name in ("batch_order", "initial_head", "dropout_masks"):
        original = getattr(head, name)
        monkeypatch.setattr(
            head, name, lambda *given, name=name, f=original: seeds.append((name, given[0])) or f(*given)
        )
    chosen = cell(3)
    run(session, chosen)
    assert set(seeds) == {
        ("batch_order", chosen.seeds["data_order"]),
        ("initial_head", chosen.seeds["model_initialisation"]),
        ("dropout_masks", chosen.seeds["model_randomness"]),
    }


def test_without_dropout_model_randomness_changes_nothing(cache):
    session = prepare(TASK, cache, dropout=0, epochs=2)
    first, second = run(session, cell(0), cell(0, model_randomness=9))
    assert first.scores.tobytes() == second.scores.tobytes()


def test_a_cell_that_raises_does_not_stop_the_others(session, monkeypatch):
    original = session.train

    def train(chosen, split):
        if chosen.index == 1:
            raise ZeroDivisionError("oh")
        return original(chosen, split)

    monkeypatch.setattr(session, "train", train)
    outcomes = list(session.run([cell(0), cell(1), cell(2)]))
    assert [outcome.error for outcome in outcomes] == [None, "ZeroDivisionError: oh", None]
    assert "Traceback" in outcomes[1].traceback
    assert outcomes[1].predictions is None


def test_a_diverged_cell_is_an_outcome_with_its_cause(session):
    session.features = np.full_like(session.features, np.inf)
    (outcome,) = session.run([cell(0)])
    assert outcome.error.startswith("training diverged: nan or inf in epoch 1 at learning_rate=0.003.")


def test_no_validation_examples(tmp_path, cache):
    session = prepare(handmade_task(num_labelled=2, test_size=20), cache, epochs=2)
    (outcome,) = run(session, cell(0))
    assert outcome.metrics.keys() == {"best_epoch", "train_loss"}
    assert outcome.metrics["best_epoch"] == 2


def test_real_sentences(tmp_path):
    whole = rotten_tomatoes({})
    kept = np.sort(np.random.default_rng(0).permutation(len(whole))[:500])
    texts = (tuple(whole.texts[0][i] for i in kept),)
    task = type(whole)("part", texts, whole.labels[kept], whole.class_names, whole.example_ids[kept])
    outcomes = run(prepare(task, tmp_path, max_length=32), *[cell(i) for i in range(4)])
    scores = [f1_macro(outcome.labels, outcome.predictions, 2) for outcome in outcomes]
    assert np.mean(scores) > 0.6


def test_three_text_columns_are_too_many(cache):
    with pytest.raises(ParameterError, match="text_column=3: must be one column, or two for sentence pairs"):
        prepare(handmade_task(20, columns=3), cache)
