"""vLLM as the engine, on a pretended one: what it is asked, and that its answers are those of our own engine.

The pretended `vllm` has the parts of its interface that are used and runs a tiny model of `transformers`; vLLM itself
needs a GPU and has not been run.
"""

import os
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from icl_helpers import APPROACH, complete
from icl_tiny_models import byte_tokenizer, llama, save, t5

from mlflow_l3d.approaches.icl.engine import CausalEngine, Sampling
from mlflow_l3d.approaches.icl.engine import vllm as ours
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.approaches.icl.session import PromptSession
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import one_cell

PROMPTS = [[5, 6, 7, 8], [5, 6, 9], [5, 6, 7, 8, 9, 10]]
ANSWERS = [[20], [21, 22], [21, 23, 24], [20, 25], [21]]


@dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int = 16
    seed: int | None = None
    logprob_token_ids: list[int] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    detokenize: bool = True


class LLM:
    made: ClassVar = []

    def __init__(self, **settings):
        self.made.append(settings)
        self.model, self.asked = llama(max_position_embeddings=settings.get("max_model_len", 64)), []

    def generate(self, prompts, sampling_params, *, use_tqdm):
        assert not use_tqdm
        return [self.one(p["prompt_token_ids"], s) for p, s in zip(prompts, sampling_params, strict=True)]

    def one(self, tokens, settings):
        self.asked.append(tuple(tokens))
        generator = None if settings.seed is None else torch.Generator().manual_seed(settings.seed)
        new, logprobs = [], []
        while len(new) < settings.max_tokens:
            logits = self.model(torch.tensor([[*tokens, *new]])).logits[0, -1].log_softmax(-1)
            assert len(settings.logprob_token_ids or ()) <= 128
            logprobs.append({i: SimpleNamespace(logprob=float(logits[i])) for i in settings.logprob_token_ids or ()})
            if settings.temperature:
                shares = (logits / settings.temperature).softmax(-1)
                new.append(int(torch.multinomial(shares, 1, generator=generator)))
            else:
                new.append(int(logits.argmax()))
            if new[-1] in (settings.stop_token_ids or ()):
                break
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=new, logprobs=logprobs)])


@pytest.fixture
def vllm(monkeypatch):
    module = ModuleType("vllm")
    module.LLM, module.SamplingParams = LLM, SamplingParams
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(ours, "version", lambda _: "0.99.1")
    monkeypatch.setattr(LLM, "made", [])
    for name in ("VLLM_BATCH_INVARIANT", "VLLM_ENABLE_V1_MULTIPROCESSING", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "")  # whatever is set is put back
        monkeypatch.delenv(name)
    return module


@pytest.fixture
def engines(vllm):
    with torch.inference_mode():
        yield ours.VllmEngine(LLM()), CausalEngine(llama(), 0)


def test_scores_are_those_of_our_engine(engines):
    theirs, own = engines
    np.testing.assert_allclose(theirs.score(PROMPTS, ANSWERS), own.score(PROMPTS, ANSWERS), atol=1e-5)
    # Behind each prompt itself, and behind 20, 21 and 21 23.
    assert len(theirs.model.asked) == len(PROMPTS) * 4


def test_more_classes_than_are_told_at_once(engines):
    theirs, own = engines
    answers = [[token] for token in range(200)]
    np.testing.assert_allclose(theirs.score(PROMPTS, answers), own.score(PROMPTS, answers), atol=1e-5)
    assert len(theirs.model.asked) == len(PROMPTS) * 2


def test_greedy_texts_are_those_of_our_engine(engines):
    theirs, own = engines
    whole = own.generate(PROMPTS, 6, [])
    stop = {whole[0][3]}
    assert theirs.generate(PROMPTS, 6, stop) == own.generate(PROMPTS, 6, stop)
    assert theirs.generate([], 6, stop) == []


def test_a_drawn_text_depends_on_its_own_numbers_alone(engines):
    theirs, _ = engines
    uniforms = np.random.default_rng(0).random((3, 8))
    texts = theirs.generate(PROMPTS, 8, [], sampling=Sampling(1.0, uniforms))
    backwards = theirs.generate(PROMPTS[::-1], 8, [], sampling=Sampling(1.0, uniforms[::-1]))
    assert backwards == texts[::-1]
    assert theirs.generate(PROMPTS, 8, [], sampling=Sampling(1.0, 1 - uniforms)) != texts


@pytest.fixture
def folder(tmp_path):
    return str(save(tmp_path / "tiny", llama(max_position_embeddings=2048), byte_tokenizer()))


def session(folder, tmp_path, device="cuda:0", **given):
    recipe = Recipe.of(complete(**{"engine": "vllm", "shots": 1, **given}))
    return PromptSession(generate(60), recipe, folder, device, tmp_path / "cache")


def test_a_cell_is_answered_as_by_our_engine(vllm, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_L3D_SHARERS", "3")
    cell = one_cell(APPROACH.factors, 1)
    (theirs,) = session(folder, tmp_path).run([cell])
    (own,) = session(folder, tmp_path, device="cpu", engine="auto").run([cell])
    assert theirs.error is None
    np.testing.assert_array_equal(theirs.predictions, own.predictions)
    np.testing.assert_allclose(theirs.scores, own.scores, atol=1e-4)
    assert "packed" not in theirs.metrics
    (made,) = LLM.made
    assert (made["model"], made["revision"], made["max_model_len"]) == (folder, None, 2048)
    assert made["gpu_memory_utilization"] == pytest.approx(0.3)
    assert not made["trust_remote_code"]
    assert (os.environ["VLLM_BATCH_INVARIANT"], os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"]) == ("1", "0")


def test_the_key_says_which_vllm(vllm, monkeypatch, folder):
    given = complete(engine="vllm")
    assert APPROACH.dependencies(given, folder) == {"vllm": "0.99.1", "vllm_batch_invariant": "1"}
    assert APPROACH.identity(given)["engine"] == "vllm"
    assert "engine" not in APPROACH.identity(complete())
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "0")
    assert APPROACH.dependencies(given, folder)["vllm_batch_invariant"] == "0"


def test_another_card_than_the_first(vllm, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    session(folder, tmp_path, device="cuda:1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(ParameterError, match="CUDA_VISIBLE_DEVICES"):
        session(folder, tmp_path, device="cuda:1", dtype="float32")


def test_what_does_not_go_together(vllm, folder, tmp_path, monkeypatch):
    for given, said in (
        ({"device": "cpu"}, "device=cpu is none"),
        ({"quantise": "4bit"}, "quantise=4bit: is for bitsandbytes"),
        ({"batch_size": 3}, "batch_size=3: has no effect"),
    ):
        with pytest.raises(ParameterError, match=said):
            session(folder, tmp_path, **given)
    seq2seq = str(save(tmp_path / "t5", t5(), byte_tokenizer()))
    with pytest.raises(ParameterError, match="causal models only"):
        session(seq2seq, tmp_path)
    monkeypatch.setattr(vllm, "SamplingParams", SimpleNamespace)
    with pytest.raises(L3DError, match=r"vllm 0\.99\.1 cannot score given tokens"):
        session(folder, tmp_path)


def test_without_vllm():
    with pytest.raises(L3DError, match=r"needs vllm\. Run: pip install vllm"):
        APPROACH.dependencies(complete(engine="vllm"), "smollm2-135m-instruct")
