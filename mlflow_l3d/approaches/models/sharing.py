"""What the sessions of one process share: models and encoded texts, each there once, and the memory of a device."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import torch

from mlflow_l3d.approaches.numerics import SHARERS

T = TypeVar("T")

COPIES: Final = 16
"""So many copies of the weights must fit into the free memory of a GPU for one to stay there."""

_LENT: Final[WeakValueDictionary[Hashable, Any]] = WeakValueDictionary()


def lent(key: Hashable, make: Callable[[], T]) -> T:
    """Return the object of this key that another session holds, or else a new one.

    It lives as long as a session holds it, and no longer. Sessions of other threads have their own: a session may write
    to what it holds while it runs a cell, so long as the next cell, of whichever session, does not depend on it.

    Parameters
    ----------
    key
        Everything that `make` depends on.
    make
        Makes the object; it can be weakly referenced.
    """
    thread_key = (threading.get_ident(), key)
    thing: T | None = _LENT.get(thread_key)
    if thing is None:
        thing = _LENT[thread_key] = make()
    return thing


def free_memory(device: str) -> float:
    """Return the bytes of a GPU that this process may plan with: what is free, and no more than its part of the whole.

    Workers that start together would else all plan with what none of them has taken yet.
    """
    free, total = torch.cuda.mem_get_info(torch.device(device))
    return min(free, total / int(os.environ.get(SHARERS, "1")))


def roomy(tensors: Sequence[torch.Tensor]) -> torch.device:
    """Return where copies of tensors go that are seldom used: their GPU if many would fit there, else the host."""
    device = tensors[0].device if tensors else torch.device("cpu")
    needed = sum(tensor.nbytes for tensor in tensors)
    return device if device.type == "cuda" and free_memory(str(device)) > COPIES * needed else torch.device("cpu")


def release() -> None:
    """Give unused memory back to the devices."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
