"""Many rows at once: how texts are laid out, what a token sees, and that rows change nothing but the time."""

from __future__ import annotations

from functools import cache
from itertools import takewhile

import icl_engine_models
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from icl_engine_models import PAD, VOCABULARY, plain_generate, recorded
from icl_engine_models import causal as model
from icl_tiny_models import llama, t5

from mlflow_l3d.approaches.icl.engine import CausalEngine, Sampling, Seq2SeqEngine, causal, rows
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.reading import AnswerTrie, build_trie, on_device
from mlflow_l3d.approaches.icl.engine.rows import NOBODY, SHARED, lay_out

ANSWERS = [[5], [6, 7], [6, 7, 8], [9, 10, 11, 12], [9, 10, 13]]
LENGTHS = [1, 7, 3, 7, 12, 2, 9, 4, 4, 15, 1, 6]


def prompts_of(lengths: list[int], shared: int) -> list[list[int]]:
    return icl_engine_models.prompts_of(lengths, shared, seed=shared)


@cache
def continued(name: str, prompt: tuple[int, ...], new: int) -> list[int]:
    return plain_generate(model(name), list(prompt), new, set())


def alone(name: str, prompt: list[int], new: int, stop: set[int]) -> list[int]:
    return list(takewhile(lambda token: token not in stop, continued(name, tuple(prompt), new)))


def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows be no longer than their prefix, so that a few short texts make several."""
    monkeypatch.setattr(rows, "_NARROWEST", 1)


# Layout


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
    st.integers(0, 50),
    st.integers(1, 100),
    st.none() | st.just(build_trie(ANSWERS)),
    st.integers(1, 60),
)
def test_every_text_lies_in_one_row(
    lengths: list[int], start: int, most: int, trie: AnswerTrie | None, narrowest: int
) -> None:
    inner = 0 if trie is None else len(trie.tokens)
    texts = [[100 * number + place for place in range(length)] for number, length in enumerate(lengths)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_NARROWEST", narrowest)
        block = lay_out(texts, trie, start, most)
    assert sorted(block.texts[block.texts >= 0]) == list(range(len(texts)))
    slots = block.texts.shape[1]
    fills = (block.owners != NOBODY).sum(axis=1)
    assert fills.sum() == sum(lengths) + inner * len(texts)
    assert fills.max() <= max(most, max(lengths) + inner)
    # No slot is empty in all rows.
    assert (block.texts >= 0).sum(axis=1).max() == slots
    for row, slot in np.argwhere(block.texts >= 0):
        text = block.texts[row, slot]
        mine = np.flatnonzero(block.owners[row] == text)
        assert (block.owners == text).sum() == len(mine) == lengths[text] + inner
        words = mine[block.nodes[row, mine] < 0]
        assert block.tokens[row, words].tolist() == texts[text]
        assert block.positions[row, words].tolist() == list(range(start, start + lengths[text]))
        # What is read lies at the end, for every row at the same places.
        last = block.tokens.shape[1] - (slots - slot) * (1 + inner)
        assert words[-1] == last
        if trie is not None:
            nodes = slice(last + 1, last + 1 + inner)
            assert block.nodes[row, nodes].tolist() == list(range(inner))
            assert block.tokens[row, nodes].tolist() == trie.tokens.tolist()
            assert (block.positions[row, nodes] == start + lengths[text] - 1 + trie.depths).all()


def test_one_long_text_does_not_make_every_row_long() -> None:
    block = lay_out([[1] * 300, *[[1] * 5] * 40], None, 10, 512)
    assert block.tokens.size <= 1.15 * 500


def test_masks_of_a_gpu_begin_each_row_where_its_kernels_want_it() -> None:
    packed, sees = PackedModel(model("llama"), None), torch.ones(3, 5, 21, dtype=torch.bool)
    on_cpu = packed._mask(sees)
    packed.device = torch.device("meta")
    mask = packed._mask(sees.to("meta"))
    assert mask.shape == on_cpu.shape == (3, 1, 5, 21)
    assert mask.stride()[2] % 16 == mask.stride()[0] % 16 == 0
    assert on_cpu.is_contiguous()


@pytest.mark.parametrize("window", [None, 4])
def test_a_token_sees_the_prefix_and_its_own_way(window: int | None) -> None:
    packed, trie = PackedModel(model("llama"), window), build_trie(ANSWERS)
    texts = [[1] * length for length in (2, 5, 1, 4, 3)]
    block = lay_out(texts, trie, 3, 20)
    prefix = np.full((len(block.tokens), 3), SHARED)
    owners = np.concatenate([prefix, block.owners], axis=1)
    positions = np.concatenate([np.tile(np.arange(3), (len(prefix), 1)), block.positions], axis=1)
    arrays = on_device(packed.device, owners, positions, block.nodes, np.pad(trie.ancestors, (0, 1)))
    sees = packed._sees(*arrays[:3], arrays[3].bool()).numpy()
    assert len(block.tokens) > 1
    for row, token in np.argwhere(block.owners >= 0):
        text, node = block.owners[row, token], block.nodes[row, token]
        for key in range(owners.shape[1]):
            if key < 3:
                expected = True
            elif owners[row, key] != text:
                expected = False
            elif block.nodes[row, key - 3] >= 0:
                expected = node >= 0 and trie.ancestors[node, block.nodes[row, key - 3]]
            else:
                expected = positions[row, key] <= block.positions[row, token]
            if window is not None:
                expected = expected and block.positions[row, token] - positions[row, key] < window
            assert sees[row, token, key] == expected
    # Attention over nothing would not be a number.
    assert sees.any(axis=-1).all()


# Results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("llama", 0),
        ("mistral_narrow_window", 9),
        pytest.param("gpt2", 0, marks=pytest.mark.slow),
        *(pytest.param(name, 9, marks=pytest.mark.slow) for name in ("gpt2", "llama", "llama_eager")),
    ],
)
def test_many_rows_write_what_the_model_writes_alone(name: str, shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = prompts_of(LENGTHS, shared)
    free = [alone(name, prompt, 8, set()) for prompt in prompts]
    # One text ends at once, others later or never.
    stop = {free[0][0], free[2][3], free[4][5]}
    stopped = [alone(name, prompt, 8, stop) for prompt in prompts]
    assert min(map(len, stopped)) == 0
    assert len({len(tokens) for tokens in stopped}) > 2
    expected = CausalEngine(model(name), PAD, batch_size=1).score(prompts, ANSWERS)
    narrow(monkeypatch)
    for tokens in (12, 30, 400):
        engine = CausalEngine(model(name), PAD, batch_tokens=tokens)
        assert engine._packed(30) is not None
        assert engine.generate(prompts, 8, stop) == stopped
        assert engine.generate(prompts, 8, ()) == free
        whole = [_until(each, stop) for each in free]
        assert engine.generate(prompts, 8, (), ended=lambda ids: ids[-1] in stop) == whole
        np.testing.assert_allclose(engine.score(prompts, ANSWERS), expected, atol=1e-4, rtol=0)


def _until(tokens: list[int], stop: set[int]) -> list[int]:
    """Return the tokens up to the first of `stop`, which a text that has ended keeps."""
    end = next((place for place, token in enumerate(tokens) if token in stop), len(tokens))
    return tokens[: end + 1]


@pytest.mark.parametrize("kind", ["plain", "seq2seq"])
def test_a_text_that_has_ended_is_run_no_further(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = t5() if kind == "seq2seq" else llama()
    engine = Seq2SeqEngine(whole, PAD) if kind == "seq2seq" else CausalEngine(whole, PAD)
    monkeypatch.setattr(CausalEngine, "_packed", lambda *_: None)
    prompts = [[5, 6, 7, 8], [9, 6, 9, 3], [12, 6, 7, 30]]
    free = engine.generate(prompts, 8, ())
    stop, passes = {free[0][1], free[1][3]}, []
    whole.register_forward_hook(lambda *_: passes.append(1))
    found = engine.generate(prompts[:2], 8, (), ended=lambda ids: ids[-1] in stop)
    assert found == [_until(each, stop) for each in free[:2]]
    assert len(passes) <= 5


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=9),
    shared=st.integers(0, 12),
    tokens=st.integers(1, 80),
    stop=st.sets(st.integers(0, VOCABULARY - 1), max_size=25),
    kept=st.integers(1, 200),
)
def test_rows_of_any_kind_draw_what_single_texts_draw(
    lengths: list[int], shared: int, tokens: int, stop: set[int], kept: int
) -> None:
    prompts = prompts_of(lengths, shared)
    drawn = Sampling(1.2, np.random.default_rng(shared).random((len(prompts), 6)))
    single = CausalEngine(model("llama"), PAD, batch_size=1).generate(prompts, 6, stop, sampling=drawn)
    with pytest.MonkeyPatch.context() as patch:
        narrow(patch)
        patch.setattr(causal, "CACHED_TOKENS", kept)
        engine = CausalEngine(model("llama"), PAD, batch_tokens=tokens)
        assert engine.generate(prompts, 6, stop, sampling=drawn) == single


# What is run


def test_all_rows_take_a_step_together(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts, engine = prompts_of([6] * 12, shared=12), CausalEngine(model("llama"), PAD, batch_tokens=24)
    narrow(monkeypatch)
    engine.score(prompts[:1], [[1]])
    runs = recorded(monkeypatch)
    engine.generate(prompts, 4, ())
    assert runs == [("texts", (2, 12))] * 3 + [("step", (6, 2))] * 3


def test_short_rows_share_the_copy_of_a_long_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts, engine = prompts_of([4] * 14, shared=24), CausalEngine(model("llama"), PAD, batch_tokens=8)
    expected = [alone("llama", prompt, 4, set()) for prompt in prompts]
    engine.score(prompts[:1], [[1]])
    runs = recorded(monkeypatch)
    assert engine.generate(prompts, 4, ()) == expected
    # Seven rows of eight tokens, three of which are as long as the prefix.
    assert runs == [("texts", (1, 8))] * 7 + [("step", (3, 6))] * 3


def test_rows_that_have_ended_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    # Equal texts end together: the last four fill rows of their own.
    first, last = prompts_of([6, 6], shared=12)
    prompts = [first] * 8 + [last] * 4
    written = alone("llama", last, 6, set())
    stop = {written[2]}
    assert not stop & {*alone("llama", first, 6, set()), *written[:2]}
    expected = [alone("llama", prompt, 6, stop) for prompt in prompts]
    narrow(monkeypatch)
    engine = CausalEngine(model("llama"), PAD)
    engine.score(prompts[:1], [[1]])
    monkeypatch.setattr(rows, "_packs", lambda *_: [[0, 1, 2, 8], [3, 4, 5, 9], [6, 7], [10, 11]])
    runs = recorded(monkeypatch)
    assert engine.generate(prompts, 6, stop) == expected
    assert [shape for kind, shape in runs if kind == "step"] == [(4, 4)] * 2 + [(3, 3)] * 3


@pytest.mark.parametrize("bound", ["batch_size", "texts", "kept tokens", "kept bytes"])
def test_bounds_hold(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = prompts_of([6] * 11, shared=12)
    narrow(monkeypatch)
    engine = CausalEngine(model("llama"), PAD, batch_size=5 if bound == "batch_size" else None)
    if bound == "texts":
        monkeypatch.setattr(causal, "TEXTS", 5)
    if bound == "kept tokens":
        # Six of their own, three of four new ones, half of a row's prefix.
        monkeypatch.setattr(causal, "CACHED_TOKENS", 5 * (6 + 3 + 6))
    if bound == "kept bytes":
        # Two layers of keys and values, two heads of eight numbers of four bytes.
        monkeypatch.setattr(causal, "CACHED_BYTES", 5 * (6 + 3 + 6) * 2 * 2 * 2 * 8 * 4)
    engine.score(prompts[:1], [[1]])
    expected = [alone("llama", prompt, 4, set()) for prompt in prompts]
    runs = recorded(monkeypatch)
    assert engine.generate(prompts, 4, ()) == expected
    running = [rows * texts for kind, (rows, texts) in runs if kind == "step"]
    assert max(running) <= 6
    assert len(running) == 3 * 3
