import numpy as np
import pytest
import torch
from finetuning_helpers import cell, check_generators, handmade_task, run, spent
from finetuning_models import session_of, tiny_bert
from icl_tiny_models import byte_tokenizer, save
from transformers import FNetConfig, FNetModel

from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.finetuning import Finetuning, full, training
from mlflow_l3d.approaches.models import pretrained
from mlflow_l3d.errors import ParameterError

pytestmark = pytest.mark.slow

TASK = handmade_task(100, num_labelled=16, test_size=8)
SETTINGS = {"trainable": "full", "epochs": 1, "max_length": 16}
FOUND = models.resolve(Finetuning.default_model)


def initial_weights(model, new):
    """Return the weights named in `new` as they are now, as arrays of their own."""
    state = model.state_dict()
    return {name: state[name].detach().float().cpu().numpy().copy() for name in new}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def session(encoder, tmp_path_factory):
    return session_of(TASK, encoder, tmp_path_factory.mktemp("cache"), **SETTINGS)


def test_only_the_classification_layer_is_new(session):
    assert session.loaded.new == ("classifier.bias", "classifier.weight")
    assert set(session.loaded.original) == set(session.model.state_dict()) - set(session.loaded.new)


def test_each_cell_starts_from_the_pretrained_weights(session, encoder):
    reference, _ = pretrained.load_classifier(models.resolve(encoder), 2, 0.1)
    pristine = {name: tensor.clone() for name, tensor in session.loaded.original.items()}
    run(session, cell(0))
    trained = session.model.state_dict()
    assert any(not torch.equal(trained[name], pristine[name]) for name in pristine)
    full.initialise(session.model, session.loaded.original, session.loaded.new, 0)
    state = session.model.state_dict()
    for name, tensor in reference.state_dict().items():
        if name not in session.loaded.new:
            assert torch.equal(state[name], tensor)
            assert torch.equal(session.loaded.original[name], pristine[name])


def test_new_weights_are_drawn_on_the_host_wherever_the_model_is(encoder):
    drawn = []
    for device in ("cpu", "meta"):
        model, new = pretrained.load_classifier(models.resolve(encoder), 2, 0.1)
        original = {name: tensor for name, tensor in model.to(device).state_dict().items() if name not in new}

        def spied(model=model, new=new, fill=model.initialize_weights):
            fill()
            drawn.append(initial_weights(model, new))

        model.initialize_weights = spied
        full.initialise(model, original, new, 7)
        assert {tensor.device.type for tensor in model.parameters()} == {device}
    assert all(np.array_equal(drawn[0][name], drawn[1][name]) for name in new)
    assert np.ptp(drawn[0]["classifier.weight"]) > 0


def test_new_weights_are_drawn_as_the_model_draws_them(session):
    def draw(seed):
        full.initialise(session.model, session.loaded.original, session.loaded.new, seed)
        return initial_weights(session.model, session.loaded.new)

    state = torch.get_rng_state()
    first, again, other = draw(0), draw(0), draw(1)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(first["classifier.weight"], again["classifier.weight"])
    assert not np.array_equal(first["classifier.weight"], other["classifier.weight"])
    assert not first["classifier.bias"].any()
    assert first["classifier.weight"].std() == pytest.approx(session.model.config.initializer_range, rel=0.1)


def test_global_generators_and_threads_stay_as_they_are(session):
    check_generators(session, cell(2))


def test_the_best_epoch_is_what_is_evaluated(encoder, tmp_path):
    given = {"epochs": 3, "learning_rate": 3e-4, "early_stopping_patience": 0}
    session = session_of(TASK, encoder, tmp_path, **SETTINGS | given)
    validation = session.task.split(cell(0).seeds).validation
    states, logits = [], session.logits

    def spy(parts, *more):
        found = logits(parts, *more)
        if np.array_equal(parts, [validation]):
            states.append(session.model.classifier.weight.detach().clone())
        return found

    session.logits = spy
    ranks = iter([(0.2, 1.0), (0.9, 1.0), (0.1, 1.0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "validate", lambda *_: next(ranks))
        (outcome,) = run(session, cell(0))
    assert outcome.metrics["best_epoch"] == 2
    assert torch.equal(session.model.classifier.weight, states[1])
    assert not torch.equal(states[1], states[2])


def test_dropout_is_what_was_asked_for(encoder, tmp_path):
    model, _ = pretrained.load_classifier(FOUND, 2, 0.25)
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.25}
    model, _ = pretrained.load_classifier(FOUND, 2, 0.1, head_dropout=0.3)
    assert model.dropout.p == 0.3
    assert {module.p for module in model.bert.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}
    session = session_of(TASK, encoder, tmp_path, **SETTINGS, dropout=0)
    first, second = run(session, cell(0), cell(0, model_randomness=3))
    assert first.scores.tobytes() == second.scores.tobytes()


def test_a_head_that_is_trained_already(encoder, tmp_path):
    model, _ = pretrained.load_classifier(models.resolve(encoder), 2, 0.1)
    model.save_pretrained(tmp_path)
    saved = models.resolve(str(tmp_path))
    with pytest.raises(ParameterError, match="has a trained head for 2 classes already") as caught:
        pretrained.load_classifier(saved, 2, 0.1)
    assert str(tmp_path) not in str(caught.value)
    _, new = pretrained.load_classifier(saved, 3, 0.1)
    assert new == ["classifier.bias", "classifier.weight"]


def test_a_config_that_transformers_does_not_know(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no_such_type"}')
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ParameterError, match="transformers cannot load it as an encoder") as caught:
        pretrained.load_encoder(models.resolve(str(tmp_path)))
    assert "\n" not in str(caught.value)


def test_an_encoder_that_reads_padding_is_refused(tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "vocab_size": 258}
    folder = str(save(tmp_path, FNetModel(FNetConfig(**sizes)), byte_tokenizer(pad_token="</s>")))
    for given in (SETTINGS, {**SETTINGS, "trainable": "head"}):
        with pytest.raises(ParameterError, match="takes no attention mask"):
            session_of(TASK, folder, tmp_path, **given)


def test_a_training_that_does_not_fit_takes_less_memory_for_the_same_result(encoder, tmp_path, monkeypatch, caplog):
    given = {**SETTINGS, "learning_rate": 1e-3, "batch_size": 6}
    plain, twice, never = (session_of(TASK, encoder, tmp_path, **given) for _ in range(3))
    (whole,) = run(plain, cell(0))
    spent(twice, monkeypatch, lambda model, _: model.is_activation_checkpointing)
    (saving,) = run(twice, cell(0))
    assert saving.predictions.tolist() == whole.predictions.tolist()
    assert saving.scores == pytest.approx(whole.scores, abs=1e-6)
    spent(never, monkeypatch, lambda _, examples: examples < 6)
    (failed,) = never.run([cell(0)])
    assert failed.error.startswith("memory is spent with batch_size=6. Use a smaller batch_size with")
    # They share one model, so that the second knows already.
    assert sum("activations are computed twice" in line for line in caplog.messages) == 1


def test_without_dropout_a_batch_is_computed_in_parts(encoder, tmp_path, monkeypatch):
    given = {**SETTINGS, "learning_rate": 1e-3, "batch_size": 6, "dropout": 0}
    plain, parts = (session_of(TASK, encoder, tmp_path, **given) for _ in range(2))
    (whole,) = run(plain, cell(0))
    spent(parts, monkeypatch, lambda model, examples: model.is_activation_checkpointing and examples <= 2)
    (accumulated,) = run(parts, cell(0))
    assert parts.batch == 2
    assert accumulated.scores == pytest.approx(whole.scores, abs=1e-5)
    assert accumulated.curves["train_loss"] == pytest.approx(whole.curves["train_loss"], abs=1e-5)
