"""Attention as plain products: what torch's kernel gives, for heads that share keys, and under any mask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from icl_tiny_models import byte_tokenizer, llama, save, t5

from mlflow_l3d.approaches.icl import models
from mlflow_l3d.approaches.icl.engine.base import PRODUCTS, attend_by_products
from mlflow_l3d.approaches.icl.models import load_model


def parts(heads: int, groups: int, new: int = 5, keys: int = 17, rows: int = 2) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(heads)
    shapes = (rows, new, heads, 8), (rows, keys, groups, 8), (rows, keys, groups, 8)
    # As layers give them: views whose second and third axes are swapped.
    return tuple(2 * torch.randn(shape, generator=generator).transpose(1, 2) for shape in shapes)


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 3), (6, 1)])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_is_what_torch_computes(heads: int, groups: int, scaling: float | None) -> None:
    query, key, value = parts(heads, groups)
    seen = torch.rand(2, 1, 5, 17, generator=torch.Generator().manual_seed(1)) < 0.5
    seen[1, 0, 3] = False  # an empty slot: any numbers, but numbers
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    module: Any = SimpleNamespace(num_key_value_groups=heads // groups, is_causal=True)
    found, weights = attend_by_products(module, query, key, value, mask, scaling=scaling)
    wide = [part.repeat_interleave(heads // groups, 1) for part in (key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(query, *wide, attn_mask=mask, scale=scaling)
    assert weights is None
    assert found.dtype is torch.bfloat16
    assert found.shape == (2, 5, heads, 8)
    assert bool(found.isfinite().all())
    filled = seen.any(-1).transpose(1, 2)[..., None].expand(found.shape)
    assert (found.float() - expected.transpose(1, 2))[filled].abs().max() < 0.1
    assert (found.float() - expected.transpose(1, 2))[filled].square().mean().sqrt() < 0.02


def test_what_it_does_not_know_is_left_to_torch() -> None:
    query, key, value = parts(4, 4, new=17)
    module: Any = SimpleNamespace(num_key_value_groups=1, is_causal=True)
    mask, bias = torch.zeros(2, 1, 17, 17), torch.randn(1, 4, 17, 17, generator=torch.Generator().manual_seed(2))
    plain = torch.nn.functional.scaled_dot_product_attention
    for given, other, expected in (
        (None, {}, plain(query, key, value, is_causal=True)),
        (mask, {"position_bias": bias}, plain(query, key, value, attn_mask=bias)),
    ):
        assert torch.allclose(
            attend_by_products(module, query, key, value, given, **other)[0], expected.transpose(1, 2), atol=1e-6
        )


def test_models_in_half_precision_on_a_cpu_attend_so(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "computes_in_bfloat16", lambda _: True)
    causal = str(save(tmp_path / "llama", llama(max_position_embeddings=64), byte_tokenizer()))
    other = str(save(tmp_path / "other", t5(), byte_tokenizer()))

    def kind(folder: str, dtype: Any) -> str:
        loaded = load_model(folder, "cpu", quantise="none", dtype=dtype, cache=tmp_path / "cache")
        return str(loaded.model.config._attn_implementation)

    assert kind(causal, "bfloat16") == PRODUCTS
    assert kind(causal, "float32") == kind(other, "bfloat16") == "sdpa"
