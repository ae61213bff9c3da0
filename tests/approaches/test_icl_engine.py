"""The engine of in-context learning against plain forward passes and the models' own `generate`, example by example."""

from __future__ import annotations

import copy
from itertools import pairwise, takewhile
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from icl_engine_models import PAD, SMALL, VOCABULARY, WINDOW, causal, plain_generate, prompts_of, t5

from mlflow_l3d.approaches.failures import LostDeviceError, is_out_of_memory
from mlflow_l3d.approaches.icl.engine import CausalEngine, Seq2SeqEngine, reading
from mlflow_l3d.approaches.icl.engine.base import Batches
from mlflow_l3d.approaches.icl.engine.packed import PackedModel, layer_window, runs_packed
from mlflow_l3d.approaches.icl.engine.reading import build_trie, common_prefix
from mlflow_l3d.approaches.icl.engine.rows import Rows

# Float32: what batches, padding and masks may change in a log-probability.
TOLERANCE = 1e-4
# Those that run packed at the lengths of these tests, and those that must not.
PACKED = ["llama", "llama_eager", "gpt2", "qwen2", "mistral_wide_window", "mistral_narrow_window", "opt"]
PACKED += ["gemma2_wide_window", "mixtral"]
FALLBACK = ["qwen2_mixed_windows", "llama_longrope", "llama_stray_window", "gemma2_narrow_window", "gpt_neo", "bloom"]
FALLBACK += ["mpt", "mamba"]

ANSWERS = [[5], [6, 7], [6, 7, 8], [6], [9, 10, 11, 12], [9, 10, 13], [5]]


@torch.inference_mode()
def plain_scores(model: Any, prompts: list[list[int]], answers: list[list[int]]) -> np.ndarray:
    """One forward pass a prompt and answer, nothing shared, nothing padded."""
    scores = np.zeros((len(prompts), len(answers)))
    for row, prompt in enumerate(prompts):
        for column, answer in enumerate(answers):
            given, first = {"input_ids": torch.tensor([prompt + answer])}, len(prompt) - 1
            if model.config.is_encoder_decoder:
                given, first = (
                    {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([[0, *answer]])},
                    0,
                )
            logits = model(**given).logits[0].double().log_softmax(-1)
            scores[row, column] = sum(float(logits[first + place, token]) for place, token in enumerate(answer))
    return scores


def agree(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()


# The trie


def test_trie_shares_beginnings_and_needs_no_node_for_single_tokens() -> None:
    trie = build_trie(ANSWERS)
    assert trie.tokens.tolist() == [6, 7, 9, 10, 11]
    assert trie.parents.tolist() == [-1, 0, -1, 2, 3]
    assert trie.depths.tolist() == [1, 2, 1, 2, 3]
    assert trie.steps[2] == ((-1, 6), (0, 7), (1, 8))
    assert trie.paths == ((0, 1), (2, 3, 4))
    assert trie.ancestors[4].tolist() == [False, False, True, True, True]
    assert build_trie([[1], [2]]).paths == ((),)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=14))
def test_trie_reads_every_token_of_every_answer(answers: list[list[int]]) -> None:
    trie = build_trie(answers)
    assert [[token for _, token in steps] for steps in trie.steps] == answers
    # Unit log-probabilities add up to the lengths.
    ones = np.ones((2, len(trie.reads[0])))
    assert trie.total(ones).tolist() == [[len(answer) for answer in answers]] * 2
    # A node's own way to the prompt spells what was read before it.
    for answer, steps in zip(answers, trie.steps, strict=True):
        for place, (node, _) in enumerate(steps):
            way = [] if node < 0 else trie.tokens[np.flatnonzero(trie.ancestors[node])].tolist()
            assert way == answer[:place]
    assert {node for path in trie.paths for node in path} == set(range(len(trie.tokens)))


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple), min_size=1, max_size=5))
def test_common_prefix_is_the_longest_that_leaves_a_token(prompts: list[tuple[int, ...]]) -> None:
    length = common_prefix(prompts)
    assert len({prompt[:length] for prompt in prompts}) == 1
    assert all(len(prompt) > length for prompt in prompts)
    longer = length + 1
    assert len({prompt[:longer] for prompt in prompts}) > 1 or min(map(len, prompts)) <= longer


# Which models run packed


@pytest.mark.parametrize("name", PACKED)
def test_trial_accepts_models_that_take_a_mask(name: str) -> None:
    assert runs_packed(causal(name))


@pytest.mark.parametrize("name", ["bloom", "mamba"])
def test_trial_finds_models_that_do_not(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not runs_packed(causal(name))
    (line,) = (record.getMessage() for record in caplog.records if record.name.startswith("mlflow_l3d"))
    assert line.startswith("The model is run in full for every prompt")


def test_trial_finds_positions_that_half_precision_hides(caplog: pytest.LogCaptureFixture) -> None:
    assert not runs_packed(copy.deepcopy(causal("mpt")).to(torch.bfloat16))
    assert "positions from the places" in caplog.text


def test_a_window_is_believed_where_the_model_looks_at_it(caplog: pytest.LogCaptureFixture) -> None:
    for name, found in (("mistral_narrow_window", True), ("llama_stray_window", False)):
        model = causal(name)
        assert runs_packed(model, windowed=True) == found
        assert model.config.sliding_window == WINDOW
    assert "away from those of plain rows" in caplog.text
    assert runs_packed(causal("llama_stray_window"))


def test_an_engine_inside_and_outside_of_autocast() -> None:
    prompts, engine = [[*range(3, 20), own] for own in (20, 21, 22)], CausalEngine(causal("gpt2"), PAD)
    with torch.autocast("cpu", torch.bfloat16):
        engine.score(prompts, ANSWERS)
    expected = CausalEngine(engine.model, PAD).score(prompts, ANSWERS)
    np.testing.assert_array_equal(engine.score(prompts, ANSWERS), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_trial_finds_a_weak_leak(dtype: torch.dtype, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).to(dtype).eval()
    assert runs_packed(model)
    table = model.get_input_embeddings()
    # Every token gets a little of the token before it in its row.
    hook = table.register_forward_hook(lambda module, args, out: out + 0.05 * out.roll(1, 1) * (out.shape[1] > 8))
    assert not runs_packed(model)
    assert "sees its neighbours" in caplog.text
    hook.remove()


def test_a_trial_that_loses_the_device_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(PackedModel, "extend", lost)
    with pytest.raises(LostDeviceError):
        runs_packed(causal("llama"))


def test_windows_of_the_configuration() -> None:
    assert layer_window(causal("llama").config, 10**6) == (True, None)
    assert layer_window(causal("mistral_narrow_window").config, WINDOW) == (True, None)
    assert layer_window(causal("mistral_narrow_window").config, WINDOW + 1) == (True, WINDOW)
    assert layer_window(causal("qwen2").config, 10**6) == (True, None)
    assert layer_window(causal("qwen2_mixed_windows").config, WINDOW) == (True, None)
    assert layer_window(causal("qwen2_mixed_windows").config, WINDOW + 1)[0] is False
    assert layer_window(causal("llama_longrope").config, 9) == (True, None)
    assert layer_window(causal("llama_longrope").config, 10) == (False, None)
    dynamic = {"full_attention": {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0}}
    config = SimpleNamespace(rope_parameters=dynamic, max_position_embeddings=256, get_text_config=lambda **_: config)
    assert [layer_window(config, longest)[0] for longest in (256, 257)] == [True, False]


def test_masks_of_truth_values_for_quantised_models() -> None:
    packed = PackedModel(causal("llama"), None)
    packed.additive = False
    texts, trie = [(3, 4), (5, 6, 7)], build_trie(ANSWERS)
    found = packed.rest(packed.prefix([1, 2], 8), texts, trie, most=10)
    packed.additive = True
    expected = packed.rest(packed.prefix([1, 2], 8), texts, trie, most=10)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


# Scores of causal models


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKED + FALLBACK)
def test_scores_equal_plain_forward_passes(name: str) -> None:
    model = causal(name)
    prompts = prompts_of([1, 7, 3, 7, 12, 2], shared=9)
    agree(CausalEngine(model, PAD).score(prompts, ANSWERS), plain_scores(model, prompts, ANSWERS))


@settings(max_examples=12, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    shared=st.integers(0, 25),
    tokens=st.integers(1, 80),
    answers=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=14),
    name=st.sampled_from(["llama", "gpt2", "mistral_narrow_window"]),
)
def test_scores_for_any_lengths(
    lengths: list[int], shared: int, tokens: int, answers: list[list[int]], name: str
) -> None:
    model = causal(name)
    prompts = prompts_of(lengths, shared, seed=shared)
    engine = CausalEngine(model, PAD, batch_tokens=tokens)
    expected = plain_scores(model, prompts, answers)
    np.testing.assert_allclose(engine.score(prompts, answers), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "gpt2", "bloom"])
@pytest.mark.parametrize(
    "prompts",
    [[[7]], [[7, 8, 9]], [[7], [7]], [[7, 8]] * 3, [[1, 2, 3], [4, 5, 6]], [[1, 2], [1, 2, 3], [1]]],
    ids=["one token", "one prompt", "equal, one token", "equal", "nothing shared", "one begins with another"],
)
def test_awkward_prompts(name: str, prompts: list[list[int]]) -> None:
    model = causal(name)
    engine = CausalEngine(model, PAD)
    agree(engine.score(prompts, ANSWERS), plain_scores(model, prompts, ANSWERS))
    assert engine.generate(prompts, 3, ()) == [plain_generate(model, prompt, 3, set()) for prompt in prompts]


def test_the_kept_prefix_changes_nothing() -> None:
    first, second = prompts_of([2, 5], shared=12), prompts_of([4, 1, 3], shared=12)
    assert first[0][:12] == second[0][:12]
    engine = CausalEngine(causal("llama"), PAD)
    engine.score(first, ANSWERS)
    engine.generate(prompts_of([3, 4], shared=5, seed=9), 4, ())
    engine.score(first, ANSWERS)
    fresh = CausalEngine(causal("llama"), PAD)
    assert (engine.score(second, ANSWERS) == fresh.score(second, ANSWERS)).all()
    assert engine.generate(second, 4, ()) == fresh.generate(second, 4, ())


def test_the_prefix_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = prompts_of([4, 5, 6, 7], shared=40)
    engine = CausalEngine(causal("llama"), PAD, batch_size=2)
    engine.score(prompts[:1], [[1]])
    run: list[int] = []
    original = PackedModel.extend

    def counted(self: PackedModel, rows: Any, block: Any, *arguments: Any) -> Any:
        run.append(block.tokens.size)
        return original(self, rows, block, *arguments)

    monkeypatch.setattr(PackedModel, "extend", counted)
    engine.score(prompts, [[1, 2], [3]])
    engine.score(prompts, [[1, 2], [3]])
    # The prefix, then batches of two prompts with one inner node each; then batches only.
    assert run == [40, 4 + 5 + 2, 6 + 7 + 2, 4 + 5 + 2, 6 + 7 + 2]


def test_reading_in_slices_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(5, 3, 11, generator=torch.Generator().manual_seed(0))
    nodes, tokens = np.array([0, 2, 2]), np.array([1, 10, 0])
    expected = logits.double().log_softmax(-1)[:, nodes, tokens].numpy()
    where = reading.on_device(logits.device, nodes, tokens)
    whole = reading.read_steps(logits, *where)
    monkeypatch.setattr(reading, "_SLICE", 70)
    assert (reading.read_steps(logits, *where) == whole).all()
    np.testing.assert_allclose(reading.log_probabilities(list(whole)), expected, atol=1e-5, rtol=0)


# Generation of causal models


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKED + FALLBACK)
def test_generation_equals_the_models_own(name: str) -> None:
    model = causal(name)
    prompts = prompts_of([1, 7, 3, 7, 12, 2], shared=9)
    free = [plain_generate(model, prompt, 8, set()) for prompt in prompts]
    # Stop tokens that occur, early for some texts and never for others.
    stop = {free[0][1], free[2][3]}
    stopped = [list(takewhile(lambda token: token not in stop, tokens)) for tokens in free]
    assert len({len(tokens) for tokens in stopped}) > 1
    engine = CausalEngine(model, PAD)
    assert engine.generate(prompts, 8, ()) == free
    assert engine.generate(prompts, 8, stop) == stopped
    assert CausalEngine(model, PAD, batch_tokens=10, batch_size=2).generate(prompts, 8, stop) == stopped


@pytest.mark.parametrize("name", ["llama", "bloom"])
def test_what_a_model_came_with_does_not_move_what_it_writes(name: str) -> None:
    model, prompts = causal(name), prompts_of([1, 7, 3], shared=9)
    expected = CausalEngine(model, PAD).generate(prompts, 8, ())
    token = expected[0][0]
    own, odd = model.generation_config, {"repetition_penalty": 1.9, "no_repeat_ngram_size": 1, "forced_eos_token_id": 3}
    model.generation_config = given = transformers.GenerationConfig(**odd, suppress_tokens=[token], eos_token_id=token)
    try:
        assert CausalEngine(model, PAD).generate(prompts, 8, ()) == expected
        assert model.generation_config is given
    finally:
        model.generation_config = own


# Encoder-decoder models


@pytest.mark.slow
@pytest.mark.parametrize("gated", [False, True])
def test_encoder_decoder_equals_plain(gated: bool) -> None:
    model = t5(gated)
    prompts = prompts_of([1, 7, 3, 7, 12, 2], shared=9)
    expected = plain_scores(model, prompts, ANSWERS)
    for tokens, size in [(4096, 0), (1, 0), (30, 2)]:
        engine = Seq2SeqEngine(model, PAD, batch_tokens=tokens, batch_size=size)
        agree(engine.score(prompts, ANSWERS), expected)
    stop = {1}
    free = [plain_generate(model, prompt, 8, stop) for prompt in prompts]
    assert Seq2SeqEngine(model, PAD).generate(prompts, 8, stop) == free
    stop = {1, free[0][1]}
    stopped = [plain_generate(model, prompt, 8, stop) for prompt in prompts]
    assert Seq2SeqEngine(model, PAD, batch_size=4).generate(prompts, 8, stop) == stopped


def test_an_encoder_decoder_with_absolute_positions() -> None:
    torch.manual_seed(5)
    halves = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}
    sizes = {f"{part}_{what}": size for part in ("encoder", "decoder") for what, size in halves.items()}
    sizes |= {"vocab_size": VOCABULARY, "d_model": 32, "max_position_embeddings": 128, "decoder_start_token_id": 0}
    ends = {"forced_bos_token_id": None, "forced_eos_token_id": None}
    model = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, **ends, init_std=0.3)).eval()
    prompts = prompts_of([1, 7, 3, 12], shared=4)
    engine = Seq2SeqEngine(model, 1)
    agree(engine.score(prompts, ANSWERS), plain_scores(model, prompts, ANSWERS))
    assert engine.generate(prompts, 6, {2}) == [plain_generate(model, prompt, 6, {2}) for prompt in prompts]


# Memory


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    calls = []

    def work(batch: Any) -> None:
        calls.append(list(batch))
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        Batches(10).run(range(4), [1] * 4, work)
    assert calls == [[0, 1, 2, 3]]
    assert is_out_of_memory(MemoryError())


@given(st.lists(st.integers(1, 30), max_size=20), st.integers(1, 40), st.integers(0, 5), st.booleans())
def test_batches_keep_order_and_bounds(costs: list[int], tokens: int, size: int, padded: bool) -> None:
    made: list[list[int]] = []

    def work(batch: Any) -> Any:
        made.append(list(batch))
        return batch

    order = range(len(costs))
    assert Batches(tokens, size).run(order, costs, work, padded=padded) == list(order)
    assert Batches(tokens, size).run(order[::-1], costs, iter, padded=padded) == list(order)
    assert [item for batch in made for item in batch] == list(range(len(costs)))
    for batch in made:
        own = [costs[item] for item in batch]
        assert len(batch) == 1 or (max(own) * len(own) if padded else sum(own)) <= tokens
        assert not size or len(batch) <= size
    # None could have been longer.
    for batch, after in pairwise(made):
        own = [costs[item] for item in (*batch, after[0])]
        assert len(batch) == size or (max(own) * len(own) if padded else sum(own)) > tokens


@pytest.mark.parametrize("kind", ["causal", "seq2seq"])
def test_nothing_to_do(kind: str) -> None:
    engine: Any = CausalEngine(causal("llama"), PAD) if kind == "causal" else Seq2SeqEngine(t5(), PAD)
    assert engine.score([], [[1], [2]]).shape == (0, 2)
    assert engine.score([[1], [2]], []).shape == (2, 0)
    assert engine.generate([], 3, ()) == []


def test_an_empty_row_has_no_keys() -> None:
    assert Rows.empty().owners.shape == (1, 0)
