"""One layer's attention as our packed rows need it: which kernels of torch take it, and how long they are busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import table
from _icl import Case, one_line
from _icl_sizes import as_a_session

MOST = 4096


def compare_attention(model: Any, case: Case, length: int, gpu: bool) -> None:
    """Print the milliseconds of each way to attend, for a batch of texts behind a prefix of `length` tokens."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    config, device = model.config, model.device
    heads, width, groups = config.num_attention_heads, config.head_dim, config.num_key_value_heads
    mask, texts = _mask(model, case, length)
    rows, _, new, keys = mask.shape
    torch.manual_seed(3)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, dtype=model.dtype)

    query = draw(rows, heads, new, width)
    shared = [draw(1, groups, length, width) for _ in range(2)]
    own = [draw(rows, groups, new, width) for _ in range(2)]

    def repeat(part: torch.Tensor) -> torch.Tensor:
        return part.repeat_interleave(heads // groups, dim=1)

    # As a cache and a layer do it: keys of the prefix copied for each row, and for each head.
    key, value = (
        repeat(torch.cat([one.expand(rows, -1, -1, -1), two], 2)) for one, two in zip(shared, own, strict=True)
    )
    attend, even = torch.nn.functional.scaled_dot_product_attention, _aligned(mask)
    apart, whole = [repeat(part) for part in shared], [repeat(part) for part in own]
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "mask as it was before (rows of any length), torch's choice": lambda: attend(
            query, key, value, mask.contiguous()
        ),
        "mask of aligned rows, torch's choice": lambda: attend(query, key, value, even),
        "the prefix by flash, what is behind it by another kernel, joined": lambda: _in_two(
            query, apart, whole, _aligned(mask[..., length:]), gpu
        ),
    }
    names = ("EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "FLASH_ATTENTION", "MATH") if gpu else ("MATH",)
    for name in names:
        ways[f"mask of aligned rows, {name}"] = lambda name=name: _forced(
            sdpa_kernel, getattr(SDPBackend, name), lambda: attend(query, key, value, even)
        )
    ways["copies of keys and values alone"] = lambda: [
        repeat(torch.cat([one.expand(rows, -1, -1, -1), two], 2)) for one, two in zip(shared, own, strict=True)
    ][0]
    print(f"{texts} texts: {rows} rows of {new} tokens that see {keys} keys, {heads} heads of {width}\n", flush=True)
    exact, lines = None, []
    for name, way in ways.items():
        try:
            with as_a_session(str(device)) if "CUDNN" not in name else sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
                seconds, found = _timed(way, device, 20 if gpu else 1)
        except Exception as error:
            lines.append([name, "-", one_line(error)[:120]])
            continue
        exact = found if exact is None else exact
        off = f"{float((found.float() - exact.float()).abs().max()):.1e}" if found.shape == exact.shape else "-"
        lines.append([name, f"{seconds * 1e3:.3f}", off])
        print(f"- {name}: {seconds * 1e3:.3f} ms", flush=True)
    print("\n" + table(["a layer attends by", "ms", "largest difference from the first"], lines) + "\n", flush=True)


def _mask(model: Any, case: Case, length: int) -> tuple[Any, int]:
    """Return the mask of the first batch of texts, (R, 1, N, K), and how many texts it has."""
    from mlflow_l3d.approaches.icl.engine.packed import PackedModel
    from mlflow_l3d.approaches.icl.engine.rows import SHARED, lay_out
    from mlflow_l3d.approaches.icl.engine.tensors import on_device
    from mlflow_l3d.approaches.icl.engine.trie import build_trie

    trie = build_trie(case.answers)
    ends = np.cumsum([len(prompt) - length + len(trie.tokens) for prompt in case.prompts])
    texts = max(1, int(np.searchsorted(ends, MOST, side="right")))
    block = lay_out([prompt[length:] for prompt in case.prompts[:texts]], trie, length, MOST)
    shape = (len(block.tokens), length)
    owners = np.concatenate([np.full(shape, SHARED), block.owners], axis=1)
    positions = np.concatenate([np.broadcast_to(np.arange(length), shape), block.positions], axis=1)
    above = np.pad(trie.ancestors, (0, 1))
    nodes, whose, where, tree = on_device(model.device, block.nodes, owners, positions, above)
    packed = PackedModel(model, None)
    return packed._mask(packed._sees(whose, where, nodes, tree.bool())), texts


def _aligned(mask: Any) -> Any:
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
