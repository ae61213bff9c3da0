"""How many cells are trained together: what fits the cache of a core, or the free memory of a GPU."""

from __future__ import annotations

from typing import Final

CACHE: Final = 10 * 2**20
"""Bytes that the working set of a chunk may take on a CPU.

Measured with 384 features, 128 units and 2 MiB of second-level cache, a meta-step of a cell: MAML takes 1.9 ms alone,
1.4 ms with three others (the number that this gives), 1.5 ms with fifteen; Prototypical Networks 1.9, 1.8 and 2.3 ms.
More cells than this cost time, and their outcomes come later.
"""
MOST_ON_CPU: Final = 64
"""For small networks, which gain from company rather than from the cache."""
MOST_ON_GPU: Final = 1024
FREE_SHARE: Final = 0.5
"""Share of the free memory of a GPU that a chunk may take: the rest is for what is not counted, and for neighbours."""


def cells_at_once(step_bytes: float, evaluation_bytes: float, device: str) -> int:
    """Return how many cells a chunk holds, at least 1.

    Parameters
    ----------
    step_bytes
        What one cell touches in a meta-step.
    evaluation_bytes
        What it holds while its test examples are evaluated.
    device
        Where they are trained.
    """
    if not device.startswith("cuda"):
        return _clipped(CACHE / step_bytes, MOST_ON_CPU)
    import torch

    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return _clipped(FREE_SHARE * free / max(step_bytes, evaluation_bytes), MOST_ON_GPU)


def _clipped(number: float, most: int) -> int:
    return max(1, min(int(number), most))
