"""Attention of our own, which models of `transformers` can be told to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import torch

from mlflow_l3d.approaches.icl.engine.tensors import computed, type_of

PRODUCTS: Final = "l3d_products"
_OTHERS: Final = ("position_bias", "softcap", "s_aux", "cache")
"""What layers may ask for, next to dropout, that is done here neither way."""


def _asks_for_others(asked: Mapping[str, Any]) -> bool:
    return bool(asked.get("dropout")) or any(asked.get(name) is not None for name in _OTHERS)


def _scale(query: torch.Tensor, asked: Mapping[str, Any]) -> float:
    """Return what scores are multiplied by."""
    scaling: float | None = asked.get("scaling")
    return float(query.shape[3] ** -0.5) if scaling is None else scaling


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
    if mask is None or _asks_for_others(asked):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, mask, **asked)
    rows, heads, new, width = query.shape
    groups, keys = key.shape[1:3]
    with torch.autocast("cpu", enabled=False):
        query, key, value = (part.to(torch.bfloat16) for part in (query, key, value))
        scaled = (query * _scale(query, asked)).reshape(rows, groups, -1, width)
        scores = torch.matmul(scaled, key.transpose(2, 3)).view(rows, heads, new, keys)
        # The lowest number of another type is infinite in this one, and what sees nothing would read no number.
        lowest = torch.finfo(torch.bfloat16).min
        scores += mask if mask.dtype is torch.bfloat16 else mask.clamp(min=lowest)
        read = torch.matmul(torch.softmax(scores, -1).view(rows, groups, -1, keys), value)
    return read.view(rows, heads, new, -1).transpose(1, 2).contiguous(), None


NAME: Final = "l3d_cascade"
PREFIX: Final = "l3d_prefix"
"""Argument of the model: the `transformers` cache of what all rows share, one row."""

Kernel: TypeAlias = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def _on_cpu(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(query, key, value, scale=scale)


def _on_cuda(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention.default(query, key, value, scale=scale)[:2]


# torch has no public function that returns the sum on all devices. A CPU's kernel is no faster in half precision.
_KERNELS: Final[dict[str, tuple[frozenset[torch.dtype], Kernel]]] = {
    "cpu": (frozenset({torch.float32}), _on_cpu),
    "cuda": (frozenset({torch.bfloat16, torch.float16}), _on_cuda),
}


def use_cascade(model: Any) -> bool:
    """Let a model attend to a shared prefix once for all rows, and to each row's own keys apart; return whether it can.

    Every new token sees the whole prefix. So the queries of all rows are one matrix there, a kernel without a mask
    (flash attention) reads the prefix for all of them, and no row needs a copy of it. What is read joins a row's own
    keys as one key more: its score is the logarithm of the sum over the prefix, its value is what was read there. That
    is exact.

    It cannot if it does not leave the choice of the kernel to torch, and if there is none for device and type.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    types, _ = _KERNELS.get(model.device.type, (frozenset(), None))
    kind = getattr(model.config, "_attn_implementation", None)
    if kind not in ("sdpa", NAME) or type_of(model) not in types:
        return False
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    return True


def attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, **asked: Any
) -> tuple[torch.Tensor, None]:
    """Return what the queries read, shape (rows, N, heads, width), and no weights.

    Parameters
    ----------
    module
        The layer; its number says which keys of the prefix are its own.
    query
        Shape (rows, heads, N, width).
    key, value
        Shape (rows, groups, K, width), without the prefix: so many heads share one of them as `groups` goes into heads.
    mask
        Of truth values, (rows, 1, N, K). Every token sees itself.
    asked
        `scaling`, as for :func:`attend_by_products`, and what else layers ask for; with a prefix, none of it.

    Raises
    ------
    NotImplementedError
        If a layer asks for more.
    """
    prefix = asked.pop(PREFIX, None)
    if prefix is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, mask, **asked)
    if _asks_for_others(asked):
        raise NotImplementedError("attention of this kind to a prefix apart from other keys")
    dtype = computed(query.device.type, query.dtype)
    query, key, value = (part.to(dtype) for part in (query, key, value))
    layer = prefix.layers[module.layer_idx]
    scale = _scale(query, asked)
    shared, total = _shared(query, layer.keys.to(dtype), layer.values.to(dtype), scale)
    read = _own(query * scale, key, value, mask, shared, total)
    return read.to(dtype).transpose(1, 2).contiguous(), None


def _shared(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what (rows, heads, N, width) queries read of keys (1, groups, P, width), and the logarithms of sums."""
    rows, heads, new, width = query.shape
    groups = key.shape[1]
    shape = groups, heads // groups, rows, new
    _, kernel = _KERNELS[query.device.type]
    read, total = kernel(query.transpose(0, 1).reshape(1, groups, -1, width), key, value, scale)
    # Groups and the heads of a group become heads; rows come first again.
    read = read.reshape(*shape, -1).flatten(0, 1).transpose(0, 1)
    return read, total.reshape(shape).flatten(0, 1).transpose(0, 1)


def _own(
    scaled: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor | None,
    shared: torch.Tensor,
    total: torch.Tensor,
) -> torch.Tensor:
    """Return what is read of own keys (rows, groups, K, width) and of the prefix, which is one key more."""
    rows, heads, new, width = scaled.shape
    groups, keys = key.shape[1:3]
    scores = torch.matmul(scaled.reshape(rows, groups, -1, width), key.transpose(2, 3)).view(rows, heads, new, keys)
    if sees is not None:
        scores.masked_fill_(~sees, torch.finfo(scores.dtype).min)
    # The kernel's sum is float32, and so are the weights: a sum in half precision would be wrong by some percent.
    weights = torch.cat([scores, total[..., None]], dim=-1).softmax(-1).to(value.dtype)
    read = torch.matmul(weights[..., :-1].reshape(rows, groups, -1, keys), value).view(rows, heads, new, -1)
    return torch.addcmul(read, weights[..., -1:], shared)
