"""Attention in bfloat16 on a CPU as plain products, which models of `transformers` can be told to use."""

from __future__ import annotations

from typing import Any, Final

import torch

PRODUCTS: Final = "l3d_products"
_OTHERS: Final = ("position_bias", "softcap", "s_aux", "cache")
"""What layers may ask for, next to dropout, that is left to torch's kernel."""


def use_products(model: Any) -> None:
    """Let a model on a CPU attend in bfloat16 as two plain products, if it would leave the kernel to torch.

    torch's own kernel computes there no faster than in float32, unless the CPU has AMX: 512 tokens that see 2,810 keys
    in 9 heads take it 42 ms on one thread with AVX512-BF16 in either type, where the products and the softmax between
    them take 17.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    if getattr(model.config, "_attn_implementation", None) != "sdpa":
        return
    AttentionInterface.register(PRODUCTS, attend_by_products)
    AttentionMaskInterface.register(PRODUCTS, eager_mask)
    model.set_attn_implementation(PRODUCTS)


def attend_by_products(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, **asked: Any
) -> tuple[torch.Tensor, None]:
    """Return what the queries read, shape (rows, N, heads, width), and no weights.

    Parameters
    ----------
    module
        The layer.
    query
        Shape (rows, heads, N, width).
    key, value
        Shape (rows, groups, K, width): so many heads share one of them as `groups` goes into heads.
    mask
        Added to the scores; broadcasts to (rows, heads, N, K).
    asked
        `scaling`, what scores are multiplied by; by default the square root of one over the width. What else layers
        ask for, such as dropout and biases of positions, is left to torch's kernel.
    """
    if mask is None or asked.get("dropout") or any(asked.get(name) is not None for name in _OTHERS):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, mask, **asked)
    rows, heads, new, width = query.shape
    groups, keys = key.shape[1:3]
    scale = width**-0.5 if asked.get("scaling") is None else asked["scaling"]
    with torch.autocast("cpu", enabled=False):
        query, key, value = (part.to(torch.bfloat16) for part in (query, key, value))
        scaled = (query * scale).reshape(rows, groups, -1, width)
        scores = torch.matmul(scaled, key.transpose(2, 3)).view(rows, heads, new, keys)
        # The lowest number of another type is infinite in this one, and what sees nothing would read no number.
        lowest = torch.finfo(torch.bfloat16).min
        scores += mask if mask.dtype is torch.bfloat16 else mask.clamp(min=lowest)
        read = torch.matmul(torch.softmax(scores, -1).view(rows, groups, -1, keys), value)
    return read.view(rows, heads, new, -1).transpose(1, 2).contiguous(), None
