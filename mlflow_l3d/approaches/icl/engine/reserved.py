"""Keys and values with room for more: a new token writes its own and copies no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer


class ReservedLayer(DynamicLayer):
    """A layer of a `transformers` cache whose memory is taken once, for all tokens that will come.

    Parameters
    ----------
    keys, values
        What it begins with: parts (R, heads, K, size) that follow each other.
    room
        How many more tokens each row takes.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, keys: Sequence[torch.Tensor], values: Sequence[torch.Tensor], room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype, self.device = keys[0].dtype, keys[0].device
        self.all_keys, self.all_values = _reserved(keys, room), _reserved(values, room)
        self.is_initialized = True
        self._show(sum(part.shape[2] for part in keys))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append to the existing content, and return all of it, without a copy."""
        start, new = self.keys.shape[2], key_states.shape[2]
        self.all_keys.narrow(2, start, new).copy_(key_states)
        self.all_values.narrow(2, start, new).copy_(value_states)
        self._show(start + new)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Drop all rows but these."""
        length = self.keys.shape[2]
        room = self.all_keys.shape[2] - length
        self.all_keys, self.all_values = (_reserved([part[indices]], room) for part in (self.keys, self.values))
        self._show(length)

    def _show(self, length: int) -> None:
        self.keys, self.values = self.all_keys[:, :, :length], self.all_values[:, :, :length]


def _reserved(parts: Sequence[torch.Tensor], room: int) -> torch.Tensor:
    rows, heads, _, size = parts[0].shape
    length = sum(part.shape[2] for part in parts)
    memory = parts[0].new_empty((rows, heads, length + room, size))
    torch.cat(list(parts), dim=2, out=memory[:, :, :length])
    return memory
