"""Memory of a device: what may be planned with, and what is given back."""

from __future__ import annotations

import gc
import os

import torch

from mlflow_l3d.approaches.numerics import SHARERS


def free_memory(device: str) -> float:
    """Return the bytes of a GPU that this process may plan with: what is free, and no more than its part of the whole.

    Workers that start together would else all plan with what none of them has taken yet.
    """
    free, total = torch.cuda.mem_get_info(torch.device(device))
    return min(free, total / int(os.environ.get(SHARERS, "1")))


def release() -> None:
    """Give unused memory back to the devices."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
