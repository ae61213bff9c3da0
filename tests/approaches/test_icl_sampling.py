"""Sampling of generated answers: the draw itself, the engines against a loop of plain forwards, and the approach."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from icl_engine_models import PAD, causal, prompts_of, t5
from icl_helpers import APPROACH, cell, complete, outcome, small_task
from icl_tiny_models import byte_tokenizer, llama, save

from mlflow_l3d.approaches.icl.decisions import token_draws
from mlflow_l3d.approaches.icl.engine import CausalEngine, Sampling, Seq2SeqEngine, reading
from mlflow_l3d.approaches.icl.engine.reading import next_tokens
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.testing.approaches import check_approach

BELOW_ONE = np.nextafter(1.0, 0.0)


def model(name: str) -> Any:
    """Return a tiny random model: the first two run packed, then two that fall back, then an encoder-decoder."""
    return t5() if name == "t5" else causal(name)


def engine(name: str, **bounds: int) -> Any:
    kind = Seq2SeqEngine if name == "t5" else CausalEngine
    return kind(model(name), PAD, **bounds)


@torch.inference_mode()
def shares(name: str, prompt: list[int], written: list[int], temperature: float) -> np.ndarray:
    """Return the exact distribution of the next token, from one plain forward pass."""
    if name == "t5":
        ids = torch.tensor([[PAD, *written]])
        logits = model(name)(input_ids=torch.tensor([prompt]), decoder_input_ids=ids).logits[0, -1]
    else:
        logits = model(name)(input_ids=torch.tensor([prompt + written])).logits[0, -1]
    wide = logits.numpy().astype(np.float64)
    weights = np.exp((wide - wide.max()) / temperature)
    return weights / weights.sum()


def clocks(uniform: float, count: int) -> np.ndarray:
    """Return exponential numbers from SplitMix64, whose state is the scrambled number."""
    mask, numbers = 2**64 - 1, []

    def scramble(state: int) -> int:
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        return state ^ (state >> 31)

    state = scramble(int(uniform * 2**53))
    for _ in range(count):
        state = state + 0x9E3779B97F4A7C15 & mask
        numbers.append(-np.log(((scramble(state) >> 12) + 0.5) / 2**52))
    return np.array(numbers)


def loop(name: str, prompt: list[int], temperature: float, uniforms: np.ndarray) -> list[int]:
    """Draw one text token by token, each behind a full forward pass."""
    written: list[int] = []
    for uniform in uniforms:
        weights = shares(name, prompt, written, temperature)
        token = int(np.argmax(weights / clocks(uniform, len(weights))))
        written.append(token)
    return written


def draw(logits: Any, uniforms: Any, temperature: float = 1.0) -> list[int]:
    numbers = np.asarray(uniforms, dtype=np.float64)[:, None]
    table = torch.as_tensor(logits).expand(len(numbers), -1)
    return next_tokens(table, 0, Sampling(temperature, numbers)).tolist()


# The draw


def test_clocks_are_those_of_the_published_generator() -> None:
    # First numbers of SplitMix64 from state 0, of which 0 is the scrambled form.
    first = np.array([0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F], dtype=np.uint64) >> np.uint64(12)
    np.testing.assert_allclose(np.exp(-clocks(0.0, 3)), (first + 0.5) / 2**52, rtol=1e-12)
    uniforms = np.array([0.0, 0.3, 0.9, BELOW_ONE])
    found = reading._clocks(torch.from_numpy(uniforms), 50).numpy()
    np.testing.assert_allclose(found, [clocks(uniform, 50) for uniform in uniforms], rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-80, 80, width=32), min_size=1, max_size=30),
    st.floats(1e-300, 100),
    st.lists(st.floats(0, BELOW_ONE), min_size=1, max_size=5),
)
def test_the_first_clock_wins(logits: list[float], temperature: float, uniforms: list[float]) -> None:
    wide = np.asarray(logits, dtype=np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        weights = np.exp((wide - wide.max()) / temperature)
    for token, uniform in zip(draw(np.asarray(logits, np.float32), uniforms, temperature), uniforms, strict=True):
        speeds = weights / clocks(uniform, len(weights))
        assert speeds[token] >= speeds.max() * (1 - 1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("uniforms", [token_draws(2, 20_000, 1)[:, 0], (np.arange(20_000) + 0.5) / 20_000])
def test_tokens_have_their_shares(dtype: Any, uniforms: np.ndarray) -> None:
    from scipy.stats import chisquare

    logits = torch.randn(50, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype) * 2
    logits[[3, 49]] = -torch.inf
    exact = (logits.double() / 1.7).softmax(-1).numpy()
    counts = np.bincount(draw(logits, uniforms, 1.7), minlength=50)
    assert counts[[3, 49]].sum() == 0
    kept = exact > 0
    assert chisquare(counts[kept], 20_000 * exact[kept]).pvalue > 0.01


@pytest.mark.slow
def test_last_digits_of_logits_do_not_matter() -> None:
    generator = torch.Generator().manual_seed(6)
    logits = 3 * torch.randn(20, 50_000, generator=generator)
    noise = 6e-5 * torch.randn(20, 50_000, generator=generator)
    # That of the same text in another batch, as large a vocabulary, many rare tokens.
    drawn, draws = Sampling(1.0, token_draws(0, 20, 10)), range(10)
    found = [next_tokens(logits, step, drawn).tolist() for step in draws]
    assert [next_tokens(logits + noise, step, drawn).tolist() for step in draws] == found
    assert len({token for row in found for token in row}) > 100


def test_small_temperatures_are_greedy() -> None:
    logits = torch.randn(30, 17, generator=torch.Generator().manual_seed(2))
    uniforms = token_draws(3, 30, 1)
    for temperature in (1e-3, 1e-300):
        found = next_tokens(logits, 0, Sampling(temperature, uniforms))
        assert found.tolist() == next_tokens(logits, 0, None).tolist() == logits.argmax(-1).tolist()


def test_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, drawn = torch.randn(9, 11, generator=torch.Generator().manual_seed(0)), Sampling(2.0, token_draws(0, 9, 3))
    whole = next_tokens(logits, 2, drawn).tolist()
    for size in (1, 25):
        monkeypatch.setattr(reading, "_SLICE", size)
        assert next_tokens(logits, 2, drawn).tolist() == whole
    rows = np.array([7, 2])
    assert next_tokens(logits[[7, 2]], 2, drawn, rows).tolist() == [whole[7], whole[2]]


# The engines


@pytest.mark.parametrize(
    "name", ["llama", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "bloom", "mamba", "t5"))]
)
def test_engines_draw_what_a_loop_of_forwards_draws(name: str) -> None:
    prompts = prompts_of([1, 7, 3, 7, 12], shared=9)
    uniforms, temperature = token_draws(11, len(prompts), 6), 1.3
    free = [loop(name, prompt, temperature, own) for prompt, own in zip(prompts, uniforms, strict=True)]
    stop = {free[0][1], free[2][3]}
    stopped = [list(takewhile(lambda token: token not in stop, tokens)) for tokens in free]
    assert len({len(tokens) for tokens in stopped}) > 1
    drawn = Sampling(temperature, uniforms)
    assert engine(name).generate(prompts, 6, (), sampling=drawn) == free
    assert free != engine(name).generate(prompts, 6, ())
    for bounds in ({}, {"batch_size": 3}, {"batch_tokens": 10}):
        assert engine(name, **bounds).generate(prompts, 6, stop, sampling=drawn) == stopped


@pytest.mark.parametrize("name", ["llama", "bloom", "t5"])
def test_logits_that_are_no_numbers_are_an_error(name: str) -> None:
    own = engine(name)
    own.generate([[1, 2]], 1, ())

    def spoil(module: Any, arguments: Any, output: Any) -> Any:
        output.logits = output.logits * torch.nan
        return output

    handle = model(name).register_forward_hook(spoil)
    try:
        with pytest.raises(FloatingPointError, match="logits are not numbers"):
            own.generate([[1, 2]], 2, (), sampling=Sampling(1.0, token_draws(0, 1, 2)))
    finally:
        handle.remove()


# The approach


@pytest.fixture(scope="module")
def leaning(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Save a model that writes hardly anything but the words a (about a quarter of the time) and b."""
    tiny, tokenizer = llama(max_position_embeddings=4096, initializer_range=0.2), byte_tokenizer()
    words = tokenizer.convert_tokens_to_ids(["a", "b"])
    with torch.no_grad():
        # No layer writes into dimension 0, which is large in every state and stands for the two words.
        tiny.model.embed_tokens.weight[:, 0] = 5.0
        for layer in tiny.model.layers:
            layer.self_attn.o_proj.weight[0] = 0.0
            layer.mlp.down_proj.weight[0] = 0.0
        tiny.lm_head.weight[words[1]] = -tiny.lm_head.weight[words[0]]
        tiny.lm_head.weight[:, 0] = -6.0
        tiny.lm_head.weight[words, 0] = 1.0
    return str(save(tmp_path_factory.mktemp("leaning"), tiny, tokenizer))


GENERATE = {"decision": "generate", "shots": 1, "chat": "none", "verbaliser": "a;b", "max_new_tokens": 1}


def answered(leaning: str, cache: Path, *, randomness: int = 0, **given: Any) -> Outcome:
    found = outcome(leaning, cache, cell(model_randomness=randomness), **{**GENERATE, **given})
    assert found.error is None
    return found


def test_model_randomness_draws_the_answers(leaning: str, tmp_path: Path) -> None:
    first = answered(leaning, tmp_path, temperature=1)
    assert first.predictions is not None
    assert set(first.predictions) >= {0, 1}
    assert first.scores is None
    assert first.metrics["unparsed_share"] == np.mean(first.predictions < 0)
    again = answered(leaning, tmp_path, temperature=1, batch_size=2)
    np.testing.assert_array_equal(again.predictions, first.predictions)
    other = answered(leaning, tmp_path, randomness=1, temperature=1)
    np.testing.assert_array_equal(other.example_ids, first.example_ids)
    assert (other.predictions != first.predictions).any()


def test_greedy_answers_ignore_model_randomness(leaning: str, tmp_path: Path) -> None:
    greedy, cold, warm = (answered(leaning, tmp_path, temperature=value) for value in (0, 1e-6, 1))
    np.testing.assert_array_equal(answered(leaning, tmp_path, randomness=1).predictions, greedy.predictions)
    np.testing.assert_array_equal(cold.predictions, greedy.predictions)
    assert (warm.predictions != greedy.predictions).any()


def test_temperature_makes_model_randomness_a_factor() -> None:
    for temperature, inactive in [(0, {"model_randomness"}), (0.5, set())]:
        found = APPROACH.inactive_factors(complete(decision="generate", temperature=temperature))
        assert set(found) - {*APPROACH.on_request} == inactive


@pytest.mark.slow
def test_keeps_the_contract_of_an_approach(leaning: str, tmp_path: Path) -> None:
    # Without examples: so small a model writes the same whatever their order.
    settings = GENERATE | {"temperature": 1.0, "shots": 0}
    check_approach(APPROACH, small_task(), hyperparameters=settings, model=leaning, cache=tmp_path, configurations=3)


def test_draws_depend_on_the_seed_alone() -> None:
    np.testing.assert_array_equal(token_draws(5, 3, 4), token_draws(5, 6, 4)[:3])
    assert (token_draws(5, 3, 4) != token_draws(6, 3, 4)).all()
