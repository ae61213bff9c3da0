"""What goes to the device and what comes back, in few copies; and whether a model rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_SLICE = 2**24


def computed(device: str, dtype: torch.dtype) -> torch.dtype:
    """Return what numbers of a type are multiplied in on a kind of device, which ``torch.autocast`` may change."""
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else dtype


def type_of(model: Any) -> torch.dtype:
    """Return the type that a model computes in, its own or that of ``torch.autocast``."""
    return computed(model.device.type, model.dtype)


def is_half(model: Any) -> bool:
    """Return whether a model computes in half precision."""
    return type_of(model) not in (torch.float32, torch.float64)


def on_device(device: torch.device, *arrays: npt.NDArray[Any]) -> list[torch.Tensor]:
    """Return arrays of whole numbers as int64 tensors of a device, views of one copy; a GPU is not waited for."""
    flat = np.concatenate([array.ravel() for array in arrays]).astype(np.int64, copy=False)
    sent = torch.from_numpy(flat).to(device, non_blocking=device.type == "cuda")
    parts = torch.split(sent, [array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def read_steps(logits: torch.Tensor, nodes: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return what gives the log-probability of each token behind its node, see :func:`log_probabilities`.

    Parameters
    ----------
    logits
        (n, nodes, vocabulary), any floating type; normalised in float32.
    nodes, tokens
        (S,) on the same device: index of the node along the second axis, and the token to read there.

    Returns
    -------
    (n, 2, S) on the device: the logit, and the logarithm of the sum of all.
    """
    parts = []
    # In slices, since a vocabulary is wide and each step here makes a copy.
    for part in torch.split(logits, max(1, _SLICE // logits[0].numel())):
        wide = part.float()
        parts.append(torch.stack([wide[:, nodes, tokens], wide.logsumexp(dim=-1)[:, nodes]], dim=1))
    return torch.cat(parts)


def log_probabilities(read: Sequence[torch.Tensor]) -> npt.NDArray[np.float64]:
    """Return (n, S) natural logarithms from what was read for each of n texts, (2, S) each, in one copy to the host."""
    values: npt.NDArray[np.float64] = torch.stack(list(read)).cpu().double().numpy()
    return values[:, 0] - values[:, 1]
