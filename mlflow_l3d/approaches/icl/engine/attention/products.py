"""Attention in bfloat16 on a CPU as two plain products.

torch's own kernel computes there no faster than in float32, unless the CPU has AMX: 512 tokens that see 2,810 keys in
9 heads take it 42 ms on one thread with AVX512-BF16 in either type, where the products and the softmax between them
take 17.

`torch` is imported with this module, which is imported only where a session is prepared.
"""

from __future__ import annotations

from typing import Any, Final

import torch

NAME: Final = "l3d_products"
_OTHERS: Final = ("position_bias", "softcap", "s_aux", "cache")


def use_products(model: Any) -> None:
    """Let a model of `transformers` attend this way, if it would leave the choice of the kernel to torch."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    if getattr(model.config, "_attn_implementation", None) != "sdpa":
        return
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, eager_mask)
    model.set_attn_implementation(NAME)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **more: Any,
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
    attention_mask
        Added to the scores; broadcasts to (rows, heads, N, K).
    scaling
        What scores are multiplied by; by default the square root of one over the width.
    dropout, more
        What else layers ask for, such as biases of positions, is left to torch's kernel.
    """
    if attention_mask is None or dropout or any(more.get(name) is not None for name in _OTHERS):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
    rows, heads, new, width = query.shape
    groups, keys = key.shape[1:3]
    with torch.autocast("cpu", enabled=False):
        query, key, value = (part.to(torch.bfloat16) for part in (query, key, value))
        scaled = (query * (width**-0.5 if scaling is None else scaling)).reshape(rows, groups, -1, width)
        scores = torch.matmul(scaled, key.transpose(2, 3)).view(rows, heads, new, keys)
        # The lowest number of another type is infinite in this one, and what sees nothing would read no number.
        lowest = torch.finfo(torch.bfloat16).min
        scores += attention_mask if attention_mask.dtype is torch.bfloat16 else attention_mask.clamp(min=lowest)
        read = torch.matmul(torch.softmax(scores, -1).view(rows, groups, -1, keys), value)
    return read.view(rows, heads, new, -1).transpose(1, 2).contiguous(), None
