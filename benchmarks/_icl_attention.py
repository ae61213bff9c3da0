"""One layer's attention as our packed rows need it: which kernels of torch take it, and how long they are busy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from _common import table
from _icl import Case, one_line, rows_of
from _icl_sizes import as_a_session

MOST = 4096


def compare_attention(model: Any, case: Case, length: int, gpu: bool) -> None:
    """Print the milliseconds of each way to attend, for a batch of texts behind a prefix of `length` tokens."""
    lines: list[list[object]] = []
    for most in (None, 1024, 512, 256):
        mask, texts = _mask(model, case, length, most)
        rows, _, new, keys = mask.shape
        if lines and [rows, new] == lines[-1][:2]:
            continue
        for name, seconds, off in _compared(model, mask, length, gpu, kernels=most is None):
            lines.append([rows, new, keys, name, f"{seconds * 1e3:.3f}", off])
            print(f"- {texts} texts in {rows} rows, {name}: {seconds * 1e3:.3f} ms {off}", flush=True)
    columns = ["rows", "tokens of a row", "keys", "a layer attends by", "ms", "largest difference from the first"]
    print("\n" + table(columns, lines) + "\n", flush=True)


def _compared(model: Any, mask: Any, length: int, gpu: bool, *, kernels: bool) -> Iterator[tuple[str, float, str]]:
    """Give name, seconds and the largest difference from the first of each way; `kernels` adds each one of torch."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    config, device = model.config, model.device
    heads, width, groups = config.num_attention_heads, config.head_dim, config.num_key_value_heads
    rows, _, new, _ = mask.shape
    torch.manual_seed(3)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, dtype=model.dtype)

    query = draw(rows, heads, new, width)
    shared = [draw(1, groups, length, width) for _ in range(2)]
    own = [draw(rows, groups, new, width) for _ in range(2)]

    def repeat(part: torch.Tensor) -> torch.Tensor:
        return part.repeat_interleave(heads // groups, dim=1)

    def copies() -> list[torch.Tensor]:
        # As a cache and a layer do it: keys of the prefix copied for each row, and for each head.
        pairs = zip(shared, own, strict=True)
        return [repeat(torch.cat([one.expand(rows, -1, -1, -1), two], 2)) for one, two in pairs]

    attend = torch.nn.functional.scaled_dot_product_attention
    (key, value), apart, whole = copies(), [repeat(part) for part in shared], [repeat(part) for part in own]
    local, crooked = aligned(mask[..., length:]), mask.contiguous()
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "one mask": lambda: attend(query, key, value, mask),
        "the prefix by flash, the rest with a mask, joined": lambda: _in_two(query, apart, whole, local, gpu),
        "copies of keys and values alone": lambda: copies()[0],
    }
    if kernels:
        ways["one mask, the rows of which begin anywhere"] = lambda: attend(query, key, value, crooked)
        for name in ("EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "FLASH_ATTENTION", "MATH") if gpu else ("MATH",):
            ways[f"one mask, {name}"] = partial(
                _forced, sdpa_kernel, getattr(SDPBackend, name), lambda: attend(query, key, value, mask)
            )
    exact = None
    for name, way in ways.items():
        try:
            with nullcontext() if "CUDNN" in name else as_a_session(str(device)):
                seconds, found = _timed(way, device, 20 if gpu else 1)
        except Exception as error:  # noqa: BLE001  # a kernel that does not take this
            yield name, math.nan, one_line(error)[:120]
            continue
        exact = found if exact is None else exact
        off = f"{float((found.float() - exact.float()).abs().max()):.1e}" if found.shape == exact.shape else "-"
        yield name, seconds, off


def _mask(model: Any, case: Case, length: int, most: int | None) -> tuple[Any, int]:
    """Return the mask of the first texts, (R, 1, N, K), rows of up to `most` tokens, and how many texts these are."""
    from mlflow_l3d.approaches.icl.engine.packed import PackedModel
    from mlflow_l3d.approaches.icl.engine.reading import build_trie, on_device
    from mlflow_l3d.approaches.icl.engine.rows import SHARED, lay_out

    trie = build_trie(case.answers)
    ends = np.cumsum([len(prompt) - length + len(trie.tokens) for prompt in case.prompts])
    texts = max(1, int(np.searchsorted(ends, MOST, side="right")))
    with rows_of(most):
        block = lay_out([prompt[length:] for prompt in case.prompts[:texts]], trie, length, MOST)
    shape = (len(block.tokens), length)
    owners = np.concatenate([np.full(shape, SHARED), block.owners], axis=1)
    positions = np.concatenate([np.broadcast_to(np.arange(length), shape), block.positions], axis=1)
    above = np.pad(trie.ancestors, (0, 1))
    nodes, whose, where, tree = on_device(model.device, block.nodes, owners, positions, above)
    packed = PackedModel(model, None)
    return aligned(packed._mask(packed._sees(whose, where, nodes, tree.bool()))), texts


def aligned(mask: Any) -> Any:
    """Return the same mask, the rows of which begin at multiples of 16 numbers: others are copied at each layer."""
    import torch

    room = torch.empty(*mask.shape[:-1], -(-mask.shape[-1] // 16) * 16, device=mask.device, dtype=mask.dtype)
    room[..., : mask.shape[-1]] = mask
    return room[..., : mask.shape[-1]]


def _in_two(query: Any, shared: list[Any], own: list[Any], mask: Any, gpu: bool) -> Any:
    """Attend to the prefix without a mask, all rows at once, to the rest with one, and weigh both by their sums."""
    import torch

    rows, heads, new, width = query.shape
    joint = query.transpose(0, 1).reshape(1, heads, rows * new, width)
    operations = torch.ops.aten
    if gpu:
        first, sums = operations._scaled_dot_product_flash_attention(joint, *shared)[:2]
        wide = mask.expand(-1, heads, -1, -1)
        second, more = operations._scaled_dot_product_efficient_attention(query, *own, wide, True)[:2]
    else:
        first, sums = operations._scaled_dot_product_flash_attention_for_cpu(joint, *shared)
        second, more = operations._scaled_dot_product_flash_attention_for_cpu(query, *own, attn_mask=mask)
    first = first.view(heads, rows, new, width).transpose(0, 1)
    sums, more = sums[..., : rows * new].reshape(heads, rows, new).transpose(0, 1), more[..., :new]
    share = torch.sigmoid(sums - more)[..., None].to(first.dtype)
    return torch.lerp(second, first, share)


def _forced(sdpa_kernel: Any, backend: Any, work: Callable[[], Any]) -> Any:
    with sdpa_kernel([backend]):
        return work()


def _timed(work: Callable[[], Any], device: Any, repeats: int) -> tuple[float, Any]:
    import torch

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    for _ in range(2):
        found = work()
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        found = work()
    wait()
    return (time.perf_counter() - start) / repeats, found
