"""Code that comes with a model: never run unless asked for."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from icl_helpers import outcome
from icl_tiny_models import byte_tokenizer, llama, refusal, save

from mlflow_l3d.approaches.icl.approach import revision_of
from mlflow_l3d.approaches.icl.models import load_model

CODE = """
from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM

Path({mark!r}).touch()


class OwnConfig(LlamaConfig):
    model_type = "own_llama"


class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig

    def forward(self, *arguments, **keywords):
        found = super().forward(*arguments, **keywords)
        found.logits = -found.logits
        return found
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the copies of models' code out of the user's cache."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder with code of its own: a LLaMA whose logits have the other sign."""
    folder = Path(save(tmp_path / "own", llama(max_position_embeddings=4096), byte_tokenizer()))
    settings = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "own_code.OwnConfig", "AutoModelForCausalLM": "own_code.OwnForCausalLM"}
    settings |= {"model_type": "own_llama", "architectures": ["OwnForCausalLM"], "auto_map": names}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "own_code.py").write_text(CODE.format(mark=str(tmp_path / "ran")))
    return folder


def predictions(model: Path, cache: Path, **given: Any) -> Any:
    found = outcome(str(model), cache, chat="auto", **given)
    assert found.error is None
    return found.predictions


def test_code_of_a_model_is_not_run_unless_asked_for(own: Path, tmp_path: Path) -> None:
    text = refusal(predictions, own, tmp_path)
    assert text == (
        "hyperparameters.trust_remote_code=false: own works only with the code that comes with it, which is not run. "
        "Read that code; the value true runs it on this machine."
    )
    assert not (tmp_path / "ran").exists()
    found = load_model(str(own), "cpu", cache=tmp_path, trust=True)
    assert (tmp_path / "ran").exists()
    ids = torch.tensor([[0, 5, 9, 77]])
    torch.testing.assert_close(found.model(ids).logits, -llama()(ids).logits, rtol=0, atol=1e-6)


def test_a_trusted_model_answers_cells(own: Path, tmp_path: Path) -> None:
    assert set(predictions(own, tmp_path, trust_remote_code="true")) <= {0, 1}


def test_a_native_class_is_taken_where_code_is_not_trusted(own: Path, tmp_path: Path) -> None:
    settings = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps(settings | {"model_type": "llama"}))
    found = load_model(str(own), "cpu", cache=tmp_path)
    assert type(found.model).__name__ == "LlamaForCausalLM"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("trust", [False, True])
def test_a_tokenizer_with_code(own: Path, tmp_path: Path, trust: bool) -> None:
    settings = json.loads((own / "tokenizer_config.json").read_text())
    names = {"AutoTokenizer": [None, "own_tokenizer.Own"]}
    settings |= {"auto_map": names, "tokenizer_class": "Own"}
    (own / "tokenizer_config.json").write_text(json.dumps(settings))
    mark = tmp_path / "tokenizer ran"
    code = f"from pathlib import Path\nfrom transformers import PreTrainedTokenizerFast\nPath({str(mark)!r}).touch()\n"
    (own / "own_tokenizer.py").write_text(code + "class Own(PreTrainedTokenizerFast):\n    pass\n")
    model_settings = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps(model_settings | {"model_type": "llama", "auto_map": {}}))
    if trust:
        assert load_model(str(own), "cpu", cache=tmp_path, trust=True).tokenizer("a")["input_ids"]
        assert mark.exists()
    else:
        assert "trust_remote_code=false: own works only with" in refusal(load_model, str(own), "cpu", cache=tmp_path)
        assert not mark.exists()


def test_code_in_another_repository_is_refused(own: Path, tmp_path: Path) -> None:
    settings = json.loads((own / "config.json").read_text())
    names = {"AutoConfig": "someone/else--own_code.OwnConfig"}
    (own / "config.json").write_text(json.dumps(settings | {"auto_map": names}))
    text = refusal(load_model, str(own), "cpu", cache=tmp_path, trust=True)
    assert "the code of own lies in another repository (someone/else), whose revision nothing pins" in text
    assert "trust_remote_code=false" in refusal(load_model, str(own), "cpu", cache=tmp_path)


def test_the_code_is_part_of_what_identifies_the_model(own: Path, tmp_path: Path) -> None:
    other = shutil.copytree(own, tmp_path / "other")
    assert revision_of(str(other)) == revision_of(str(own))
    (other / "own_code.py").write_text((own / "own_code.py").read_text().replace("= -found", "= 2 * found"))
    assert revision_of(str(other)) != revision_of(str(own))


def test_code_that_fails(own: Path, tmp_path: Path) -> None:
    (own / "own_code.py").write_text("raise RuntimeError('first\\nsecond')")
    text = refusal(load_model, str(own), "cpu", cache=tmp_path, trust=True)
    assert text == "model=own: transformers cannot load it (first)."
