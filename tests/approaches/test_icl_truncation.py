"""Prompts beyond what a model reads, or was trained on."""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import icl_helpers
import numpy as np
import pandas as pd
import pytest
import torch
from icl_helpers import APPROACH, complete, log_likelihoods
from icl_tiny_models import ALPHABET, byte_tokenizer, llama, save, t5
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    LlamaConfig,
    MptConfig,
    MptForCausalLM,
    MT5Config,
    T5Config,
    UMT5Config,
)

from mlflow_l3d.approaches.icl.encoding import PLACEHOLDER, prompts_ids
from mlflow_l3d.approaches.icl.engine import CausalEngine
from mlflow_l3d.approaches.icl.local_session import cut_shares
from mlflow_l3d.approaches.icl.models import LoadedModel, is_bounded
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.testing import one_cell

CELL = one_cell(APPROACH.factors)
TINY: dict[str, Any] = {"hidden_size": 32, "vocab_size": 100}


def outcome(model: str, cache: Path, **given: Any) -> Outcome:
    found = icl_helpers.outcome(model, cache, CELL, **given)
    assert found.error is None
    return found


@pytest.mark.parametrize(
    ("config", "bounded"),
    [
        (T5Config(n_positions=512), False),
        (MT5Config(), False),
        (UMT5Config(), False),
        (BloomConfig(), False),
        (FalconConfig(alibi=True), False),
        (FalconConfig(), True),
        (LlamaConfig(), True),
        (MptConfig(), True),
    ],
    ids=lambda value: getattr(value, "model_type", str(value)),
)
def test_which_models_have_a_place_for_each_token(config: Any, bounded: bool) -> None:
    assert is_bounded(config) is bounded


def test_alibi_reaches_beyond_what_a_model_was_trained_on_and_mpt_has_a_table() -> None:
    torch.manual_seed(0)
    bloom = BloomForCausalLM(BloomConfig(**TINY, n_layer=2, n_head=4, seq_length=20)).eval()
    prompts, answers = [[5, *range(9, 60), number] for number in (7, 8)], [[3], [4, 6]]
    found = CausalEngine(bloom, 0).score(prompts, answers)
    expected = [log_likelihoods(bloom, prompt, answers) for prompt in prompts]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    mpt = MptForCausalLM(MptConfig(d_model=32, n_heads=4, n_layers=1, max_seq_len=20, vocab_size=100)).eval()
    with pytest.raises(RuntimeError, match="must match"), torch.inference_mode():
        mpt(torch.tensor([list(range(30))]))


def test_prompts_are_cut_as_the_tokenizer_does_it(seq2seq: LoadedModel) -> None:
    letters = [2 + ALPHABET.index(letter) for letter in "abcdef"]
    whole = seq2seq.tokenizer("abcdef")["input_ids"]
    assert whole == [*letters, 1]
    assert prompts_ids(seq2seq, ["abcdef", "ab"], False, side="right", most=4) == [[*letters[:3], 1], [*letters[:2], 1]]
    assert prompts_ids(seq2seq, ["abcdef"], False, side="left", most=4) == [[*letters[3:], 1]]
    assert prompts_ids(seq2seq, ["abcdef"], False) == [whole]
    assert seq2seq.tokenizer("abcdef")["input_ids"] == whole


@pytest.mark.parametrize(
    ("side", "most", "cut", "lost"),
    [
        # Two prompts: 10 letters before a text of 10 or 3 letters, 3 behind it, and T5's end token, which is kept.
        ("right", 24, 0, 0),
        ("right", 23, 0.5, 0),
        ("right", 21, 0.5, 0),
        ("right", 20, 0.5, 0.5),
        ("right", 14, 1, 0.5),
        ("right", 13, 1, 1),
        ("left", 24, 0, 0),
        ("left", 17, 0.5, 0),
        ("left", 14, 1, 0),
        ("left", 13, 1, 0.5),
        ("left", 7, 1, 0.5),
        ("left", 6, 1, 1),
    ],
)
def test_shares_that_are_known(seq2seq: LoadedModel, side: str, most: int, cut: float, lost: float) -> None:
    long, short = "x" * 10, "yyy"
    before, behind = "e: z. T: ", " A:"
    make = lambda text: f"{before}{text}{behind}"  # noqa: E731
    prompts = [f"S{make(text)}" for text in (long, short)]
    whole = prompts_ids(seq2seq, prompts, False)
    assert [len(ids) for ids in whole] == [24, 17]
    kept = prompts_ids(seq2seq, prompts, False, side=side, most=most)
    # Without examples a prompt begins otherwise.
    found = cut_shares(seq2seq, whole, kept, [make(long), make(short)], make(PLACEHOLDER), chat=False, side=side)
    assert found == {"truncated_share": cut, "truncated_input_share": lost}


def test_the_answer_of_a_causal_model_keeps_its_place() -> None:
    loaded = LoadedModel(None, byte_tokenizer(), True, 64, False, "tiny", "its configuration")
    assert loaded.most_tokens([[3], [3] * 4]) == 61
    assert loaded.most_tokens([], new_tokens=10) == 55
    assert loaded.most_tokens([], new_tokens=100) == 1
    assert replace(loaded, continues=False).most_tokens([[3] * 9]) == 64
    shorter = replace(loaded, tokenizer=byte_tokenizer(model_max_length=40))
    assert shorter.most_tokens([[3]]) == 40


def test_a_prompt_without_its_text_has_one_answer_for_all(
    seq2seq: LoadedModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(1)
    model = t5()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.4)
    tokenizer = deepcopy(seq2seq.tokenizer)
    tokenizer.model_max_length = 120
    folder = str(save(tmp_path / "t5", model, tokenizer))
    with caplog.at_level(logging.WARNING, "mlflow_l3d"):
        whole = outcome(folder, tmp_path)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.endswith(" t5 was trained on 120 (model_max_length of its tokenizer).")
    assert "truncated_share" not in whole.metrics
    caplog.clear()
    right, left = outcome(folder, tmp_path, truncation="right"), outcome(folder, tmp_path, truncation="left")
    assert not caplog.records
    assert whole.metrics["prompt_tokens"] > right.metrics["prompt_tokens"] == left.metrics["prompt_tokens"] == 120
    assert right.metrics["truncated_share"] == left.metrics["truncated_share"] == 1
    assert (right.metrics["truncated_input_share"], left.metrics["truncated_input_share"]) == (1, 0)
    spread = {
        name: float(np.ptp(one.scores, axis=0).max()) for name, one in zip("wrl", (whole, right, left), strict=True)
    }
    assert spread["r"] == 0
    assert min(spread["w"], spread["l"]) > 1e-4
    remarks = APPROACH.remarks(pd.DataFrame([right.metrics, left.metrics]))
    assert remarks == ("Truncation cut 100.0 % of the prompts, and in 50.0 % the text that is asked about.",)
    assert APPROACH.remarks(pd.DataFrame([whole.metrics])) == ()
    (slow,) = APPROACH.remarks(pd.DataFrame([whole.metrics, {**whole.metrics, "packed": 0.0}]))
    assert slow.startswith("Packed rows were not possible in 50 % of cells")


def test_a_bounded_model_reads_what_is_left(tmp_path: Path) -> None:
    folder = str(save(tmp_path, llama(max_position_embeddings=120, initializer_range=0.4), byte_tokenizer()))
    for decision in ("score", "generate"):
        found = outcome(folder, tmp_path, truncation="left", decision=decision, max_new_tokens=3)
        assert found.metrics["truncated_share"] == 1
        assert found.metrics["truncated_input_share"] == 0
        assert found.metrics["prompt_tokens"] < 120


def test_the_default_is_no_part_of_a_key() -> None:
    assert "truncation" not in APPROACH.identity(complete())
    assert APPROACH.identity(complete(truncation="left"))["truncation"] == "left"
