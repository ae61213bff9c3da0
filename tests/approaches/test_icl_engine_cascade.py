"""Attention in two parts: what one attention over all keys gives, on every kind of heads and masks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from icl_tiny_models import llama

from mlflow_l3d.approaches.icl.engine import CausalEngine, causal
from mlflow_l3d.approaches.icl.engine import attention as cascade
from mlflow_l3d.approaches.icl.engine.attention import NAME, PREFIX, attend, use_cascade
from mlflow_l3d.approaches.icl.engine.trial import packing

ROWS, NEW, KEYS, SHARED, WIDTH = 3, 5, 7, 40, 8


def parts(heads: int, groups: int) -> tuple[torch.Tensor, ...]:
    """Return queries, own keys and values, and those of a prefix, as layers give them: views with swapped axes."""
    generator = torch.Generator().manual_seed(heads)
    shapes = [(ROWS, NEW, heads), *[(ROWS, KEYS, groups)] * 2, *[(1, SHARED, groups)] * 2]
    return tuple(2 * torch.randn(*shape, WIDTH, generator=generator).transpose(1, 2) for shape in shapes)


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 3), (6, 1)])
@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("masked", [True, False])
def test_is_attention_to_all_keys(heads: int, groups: int, scaling: float | None, masked: bool) -> None:
    query, key, value, shared_key, shared_value = parts(heads, groups)
    sees = torch.rand(ROWS, 1, NEW, KEYS, generator=torch.Generator().manual_seed(1)) < 0.5
    sees[..., 0] = True
    if not masked:
        sees[:] = True
    layers = [None, SimpleNamespace(keys=shared_key, values=shared_value)]
    module: Any = SimpleNamespace(layer_idx=1)
    given: dict[str, Any] = {PREFIX: SimpleNamespace(layers=layers)}
    found, weights = attend(module, query, key, value, sees if masked else None, scaling=scaling, **given)
    wide = [
        torch.cat([shared.expand(ROWS, -1, -1, -1), own], 2).repeat_interleave(heads // groups, 1).double()
        for shared, own in ((shared_key, key), (shared_value, value))
    ]
    mask = torch.cat([torch.ones(ROWS, 1, NEW, SHARED, dtype=torch.bool), sees], -1)
    expected = torch.nn.functional.scaled_dot_product_attention(query.double(), *wide, attn_mask=mask, scale=scaling)
    assert weights is None
    assert (found.double() - expected.transpose(1, 2)).abs().max() < 5e-6


@pytest.mark.parametrize("device", sorted(cascade._KERNELS))
def test_torch_describes_every_kernel_as_it_is_called(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    types, kernel = cascade._KERNELS[device]
    monkeypatch.setitem(cascade._KERNELS, "meta", (types, kernel))
    for dtype in types:
        query, key, value, *shared = (part.to("meta", dtype) for part in parts(6, 3))
        read, total = cascade._shared(query, *shared, 0.5)
        assert (read.shape, read.dtype) == (query.shape, dtype)
        assert (total.shape, total.dtype) == (query.shape[:3], torch.float32)
        assert cascade._own(query, key, value, None, read, total).shape == query.shape


@pytest.mark.parametrize("asked", ["softcap", "s_aux", "position_bias", "dropout"])
def test_what_it_does_not_know_is_no_attention_without_it(asked: str) -> None:
    query, key, value, *_ = parts(4, 4)
    with pytest.raises(NotImplementedError):
        attend(SimpleNamespace(layer_idx=0), query, key, value, None, **{PREFIX: object(), asked: 0.5})


def test_only_where_torch_chooses_the_kernel_and_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert use_cascade(llama())
    assert not use_cascade(llama().to(torch.bfloat16))
    with torch.autocast("cpu", torch.bfloat16):
        assert not use_cascade(llama())
    eager = llama()
    eager.set_attn_implementation("eager")
    assert not use_cascade(eager)
    monkeypatch.setattr(cascade, "_KERNELS", {})
    assert not use_cascade(llama())


@pytest.mark.parametrize("fault", ["numbers", "error", "leak"])
def test_a_kernel_that_is_wrong_is_not_used(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    types, kernel = cascade._KERNELS["cpu"]

    def wrong(query: Any, key: Any, value: Any, scale: float) -> Any:
        read, total = kernel(query, key, value, scale)
        if fault == "error":
            raise RuntimeError("no kernel image is available for execution on the device")
        if fault == "leak":
            return read + 0.3 * query.roll(1, 2), total
        return read, total + 0.5

    monkeypatch.setitem(cascade._KERNELS, "cpu", (types, wrong))
    model = llama()
    assert packing(model) == "copies"
    assert model.config._attn_implementation == "sdpa"


def test_a_model_attends_as_before_without_a_prefix() -> None:
    model, ids = llama(), torch.tensor([[3, 5, 7, 9, 11]])
    with torch.inference_mode():
        expected = model(ids).logits
        CausalEngine(model, 0).score([[1, 2], [1, 3]], [[4]])
        assert model.config._attn_implementation == NAME
        assert torch.equal(model(ids).logits, expected)
    text = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=4, pad_token_id=0)
    model.set_attn_implementation("sdpa")
    again = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=4, pad_token_id=0)
    assert torch.equal(text, again)


@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision_as_on_a_gpu(autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    half = frozenset({torch.bfloat16})
    monkeypatch.setitem(cascade._KERNELS, "cpu", (half, cascade._KERNELS["cpu"][1]))
    monkeypatch.setattr(causal, "_SHARED_FROM", 1)
    model = llama() if autocast else llama().to(torch.bfloat16)
    prompts, answers = [[*range(1, 40), *range(1, 2 + number)] for number in range(6)], [[4], [5, 6]]
    expected = CausalEngine(llama(), 0).score(prompts, answers)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        engine = CausalEngine(model, 0)
        found = engine.score(prompts, answers)
        assert len(engine.generate(prompts, 3, ())) == 6
    assert model.config._attn_implementation == NAME
    assert abs(found - expected).max() < 0.05 * expected.std()
