"""Tiny random models of many families, and what they write alone, for the tests of the engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
import transformers

from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.rows import SHARED, Block, Rows

VOCABULARY = 60
PAD = 0
WINDOW = 8
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    # Larger weights than a fresh model has: differences between texts, not rounding, decide.
    "initializer_range": 0.3,
}


TINY = {name: SMALL[name] for name in ("vocab_size", "hidden_size", "initializer_range")}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4}
LONG_ROPE = {"rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0] * 4, "long_factor": [3.0] * 4}
LONG_ROPE |= {"original_max_position_embeddings": 9}
LOCAL = [[["global", "local"], 1]]


def _gpt2(**more: Any) -> Any:
    return transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=256, initializer_range=0.3, **more
    )


CAUSAL = {
    "llama": lambda: transformers.LlamaConfig(**SMALL),
    "llama_eager": lambda: transformers.LlamaConfig(**SMALL, attn_implementation="eager"),
    "gpt2": _gpt2,
    "qwen2": lambda: transformers.Qwen2Config(**SMALL),
    "qwen2_mixed_windows": lambda: transformers.Qwen2Config(
        **SMALL, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1
    ),
    "mistral_wide_window": lambda: transformers.MistralConfig(**SMALL, sliding_window=128),
    "mistral_narrow_window": lambda: transformers.MistralConfig(**SMALL, sliding_window=WINDOW),
    "llama_longrope": lambda: transformers.LlamaConfig(**SMALL, rope_parameters=LONG_ROPE),
    "opt": lambda: transformers.OPTConfig(
        **TINY, **HEADS, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=256, init_std=0.3
    ),
    "gemma2_wide_window": lambda: transformers.Gemma2Config(**SMALL, head_dim=8, sliding_window=128),
    "gemma2_narrow_window": lambda: transformers.Gemma2Config(**SMALL, head_dim=8, sliding_window=WINDOW),
    "mixtral": lambda: transformers.MixtralConfig(**SMALL, num_local_experts=2),
    "gpt_neo": lambda: transformers.GPTNeoConfig(
        **TINY, num_layers=2, num_heads=4, attention_types=LOCAL, window_size=WINDOW, max_position_embeddings=256
    ),
    "bloom": lambda: transformers.BloomConfig(**TINY, n_layer=2, n_head=4),
    "mpt": lambda: transformers.MptConfig(**TINY, d_model=32, n_layers=2, n_heads=4, max_seq_len=256),
    "llama_stray_window": lambda: transformers.LlamaConfig(**SMALL, sliding_window=WINDOW),
    "mamba": lambda: transformers.MambaConfig(**TINY, num_hidden_layers=2, state_size=4),
}


@cache
def causal(name: str) -> Any:
    torch.manual_seed(3)
    config = CAUSAL[name]()
    config.bos_token_id = config.eos_token_id = None
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.bos_token_id = None
    return model


@cache
def t5(gated: bool = False) -> Any:
    torch.manual_seed(4)
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    kind = {"feed_forward_proj": "gated-gelu" if gated else "relu", "tie_word_embeddings": not gated}
    config = transformers.T5Config(**sizes, **kind, decoder_start_token_id=0, initializer_factor=1.0)
    return transformers.T5ForConditionalGeneration(config).eval()


def prompts_of(lengths: list[int], shared: int, seed: int = 0) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    prefix = generator.integers(1, VOCABULARY, shared).tolist()
    return [prefix + generator.integers(1, VOCABULARY, length).tolist() for length in lengths]


def plain_generate(model: Any, prompt: list[int], new: int, stop: set[int]) -> list[int]:
    ids = torch.tensor([prompt])
    options = {"eos_token_id": sorted(stop)} if stop else {}
    output = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new, pad_token_id=PAD, **options
    )[0].tolist()
    tokens = output[1:] if model.config.is_encoder_decoder else output[len(prompt) :]
    return tokens[: next((place for place, token in enumerate(tokens) if token in stop), len(tokens))]


def recorded(monkeypatch: Any) -> list[tuple[str, tuple[int, int]]]:
    """Return a list to which every run of rows behind a prefix adds what it is and its shape."""
    runs: list[tuple[str, tuple[int, int]]] = []
    original = PackedModel.extend

    def extend(self: PackedModel, past: Rows, block: Block, *arguments: Any) -> Any:
        if (block.owners != SHARED).all():
            runs.append(("step" if (past.owners >= 0).any() else "texts", block.tokens.shape))
        return original(self, past, block, *arguments)

    monkeypatch.setattr(PackedModel, "extend", extend)
    return runs
