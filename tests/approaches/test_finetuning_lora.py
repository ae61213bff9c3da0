"""Adapters: which weights they are, what draws them, what stays untouched; memory savers that change no number."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from finetuning_helpers import cell, content, handmade_task, run
from finetuning_models import choice_task, regression_task, session_of

from mlflow_l3d.approaches.finetuning import Finetuning, loading
from mlflow_l3d.approaches.finetuning.loading import is_decoder
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.testing import check_approach

SETTINGS = {"num_labelled": 20, "test_size": 8}
TASK = handmade_task(100, **SETTINGS)
KINDS = (handmade_task, regression_task, choice_task)
LORA = {"trainable": "lora", "learning_rate": 1e-2, "max_length": 96, "lora_r": 4}


@pytest.fixture(scope="module", params=["encoder", "decoder", "gpt2"])
def session(request, folders, tmp_path_factory):
    return session_of(TASK, folders[request.param], tmp_path_factory.mktemp("cache"), **LORA)


def trained(session):
    return {name: weight for name, weight in session.model.named_parameters() if weight.requires_grad}


@pytest.mark.slow
def test_only_adapters_and_the_head_are_trained_or_copied(session) -> None:
    adapters, head = set(session.loaded.adapters), set(session.loaded.new)
    assert set(trained(session)) == adapters | head
    assert session.loaded.original == {}
    assert adapters
    assert not adapters & head
    layers = {name.split(".lora_")[0].rpartition(".")[2] for name in adapters}
    assert layers in ({"query", "value"}, {"q_proj", "v_proj"}, {"c_attn"})
    for name, weight in trained(session).items():
        if ".lora_" in name:
            assert 4 in weight.shape


def test_the_base_is_never_written_to(session) -> None:
    before = {name: w.detach().clone() for name, w in session.model.named_parameters() if not w.requires_grad}
    addresses = {name: w.data_ptr() for name, w in session.model.named_parameters()}
    run(session, cell(0), cell(1))
    after = dict(session.model.named_parameters())
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert {name: w.data_ptr() for name, w in after.items()} == addresses


def test_adapters_begin_without_an_effect_and_belong_to_the_initialisation(session) -> None:
    def start(seed):
        session._start(seed)
        return {name: weight.detach().clone() for name, weight in trained(session).items()}

    state = torch.get_rng_state()
    first, again, other = start(0), start(0), start(1)
    assert torch.equal(torch.get_rng_state(), state)
    for name, weight in first.items():
        assert torch.equal(weight, again[name])
        if ".lora_B." in name:
            assert not weight.any()
        elif not name.endswith("bias"):
            assert not torch.equal(weight, other[name])
        if ".lora_A." in name:
            # Uniform in +-1/sqrt(inputs): what peft draws, and what a linear layer is born with.
            bound = 1 / math.sqrt(weight.shape[1])
            assert 0.8 * bound < weight.abs().max() <= bound


def test_model_initialisation_alone_changes_the_first_weights(session, monkeypatch) -> None:
    seen = []
    fit = session.fit

    def spy(*given):
        seen.append({name: weight.detach().numpy().tobytes() for name, weight in trained(session).items()})
        return fit(*given)

    monkeypatch.setattr(session, "fit", spy)
    factors = ("model_initialisation", "data_order", "model_randomness", "label_selection", "data_split")
    run(session, cell(0), *(cell(0, **{factor: 5}) for factor in factors))
    assert seen[0] != seen[1]
    assert seen[2:] == [seen[0]] * 4


@pytest.mark.slow
@pytest.mark.parametrize("model", ["encoder", "decoder"])
def test_keeps_the_contract_of_an_approach(model, folders, tmp_path) -> None:
    given = {**LORA, "epochs": 1, "lora_dropout": 0.3}
    check_approach(Finetuning(), TASK, hyperparameters=given, model=folders[model], cache=tmp_path, configurations=1)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["encoder", "decoder"])
@pytest.mark.parametrize(
    "task", [make(100, num_labelled=40, test_size=8) for make in KINDS], ids=lambda task: task.kind
)
def test_adapters_learn(task, model, folders, tmp_path) -> None:
    given = {**LORA, "epochs": 12, "learning_rate": 3e-2, "lora_dropout": 0, "early_stopping_patience": 0}
    (outcome,) = run(session_of(task, folders[model], tmp_path, **given), cell(0))
    assert outcome.curves["train_loss"][-1] < 0.7 * outcome.curves["train_loss"][0]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"lora_targets": "qproj"}, "lora_targets=qproj: names no linear layer of the model. Use some of:"),
        ({"lora_targets": "q_proj+nothing"}, "lora_targets=nothing: names no linear layer of the model."),
        ({"lora_targets": "score"}, "lora_targets=score: names no linear layer"),
        ({"dropout": 0.1, "quantise": "4bit"}, "hyperparameters.quantise=4bit: is for decoders, and bert is none"),
    ],
)
def test_what_cannot_be_is_one_line(given, line, folders, tmp_path) -> None:
    model = folders["encoder" if "quantise" in given else "decoder"]
    with pytest.raises(ParameterError) as caught:
        session_of(TASK, model, tmp_path, **{**LORA, **given})
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path.parent) not in str(caught.value)


def test_targets_can_be_named(folders, tmp_path) -> None:
    session = session_of(TASK, folders["decoder"], tmp_path, **LORA, lora_targets="mlp.down_proj + k_proj")
    layers = {name.split(".lora_")[0].rpartition("layers.")[2][2:] for name in session.loaded.adapters}
    assert layers == {"mlp.down_proj", "self_attn.k_proj"}


def test_without_peft_the_line_names_the_command(folders, tmp_path, monkeypatch) -> None:
    from mlflow_l3d.approaches.models import pretrained

    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"adapters need the package peft\. Run: pip install peft"):
        session_of(TASK, folders["decoder"], tmp_path, **LORA)


@pytest.mark.slow
@pytest.mark.parametrize("trainable", ["full", "lora"])
@pytest.mark.parametrize("model", ["encoder", "decoder"])
def test_checkpointing_changes_no_prediction(model, trainable, folders, tmp_path) -> None:
    given = LORA if trainable == "lora" else {"learning_rate": 1e-3, "max_length": 96}
    sessions = [
        session_of(TASK, folders[model], tmp_path, **given, gradient_checkpointing=flag) for flag in (False, True)
    ]
    plain, saving = (run(session, cell(0)) for session in sessions)
    assert saving[0].predictions.tolist() == plain[0].predictions.tolist()
    assert saving[0].scores == pytest.approx(plain[0].scores, abs=1e-6)


@pytest.mark.slow
def test_accumulated_gradients_are_those_of_one_large_batch(folders, tmp_path) -> None:
    given = {"learning_rate": 1e-3, "max_length": 96, "dropout": 0, "epochs": 2}
    for model in ("encoder", "decoder"):
        # 16 examples are 2 batches of 6 and one of 4: the last step is a smaller one in both.
        sessions = [
            session_of(TASK, folders[model], tmp_path, **given, batch_size=size, gradient_accumulation=number)
            for size, number in ((6, 1), (2, 3))
        ]
        (whole,), (parts,) = (run(session, cell(0)) for session in sessions)
        assert parts.scores == pytest.approx(whole.scores, abs=1e-5)
        assert parts.curves["train_loss"] == pytest.approx(whole.curves["train_loss"], abs=1e-5)


def test_long_gradients_are_cut(folders, tmp_path, monkeypatch) -> None:
    lengths = []
    cut = torch.nn.utils.clip_grad_norm_

    def spy(weights, most):
        found = cut(weights, most)
        lengths.append(float(torch.sqrt(sum((weight.grad**2).sum() for weight in weights if weight.grad is not None))))
        assert most == 1e-3
        return found

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", spy)
    run(session_of(TASK, folders["encoder"], tmp_path, gradient_clipping=1e-3, max_length=32), cell(0))
    assert lengths
    assert max(lengths) <= 1.0001e-3


@pytest.mark.slow
def test_bfloat16_is_close_to_float32_and_trains_float32_weights(folders, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(loading, "computes_in_bfloat16", lambda _: True)  # also where it is emulated
    for given in ({**LORA}, {"learning_rate": 1e-3, "max_length": 96}):
        sessions = [session_of(TASK, folders["decoder"], tmp_path, **given, dtype=d) for d in ("float32", "bfloat16")]
        (exact,), (rough,) = (run(session, cell(0)) for session in sessions)
        assert {weight.dtype for weight in trained(sessions[1]).values()} == {torch.float32}
        assert rough.scores == pytest.approx(exact.scores, abs=0.05)
        assert content(rough).scores != content(exact).scores


def test_four_bits_on_the_cpu(folders, tmp_path) -> None:
    pytest.importorskip("bitsandbytes")
    from bitsandbytes.nn import Linear4bit

    session = session_of(TASK, folders["decoder"], tmp_path, **LORA, quantise="4bit", dtype="float32")
    assert any(isinstance(module, Linear4bit) for module in session.model.modules())
    first, again = run(session, cell(0), cell(0))
    assert content(first) == content(again)
    assert np.isfinite(first.scores).all()


def test_what_counts_as_a_decoder() -> None:
    from transformers import AutoConfig

    kinds = {"llama": True, "gpt2": True, "qwen2": True, "bert": False, "roberta": False, "xlnet": False, "t5": False}
    assert {kind: is_decoder(AutoConfig.for_model(kind)) for kind in kinds} == kinds
