"""A cache with room: what a growing one gives, in memory that is taken once."""

from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache

from mlflow_l3d.approaches.icl.engine.reserved import ReservedLayer


def _part(generator: torch.Generator, rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    keys, values = torch.randn(2, rows, 3, length, 4, generator=generator)
    return keys, values


def test_gives_what_a_growing_cache_gives() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = _part(generator, 4, 5), _part(generator, 4, 2)
    growing = DynamicCache()
    for part in (first, second):
        growing.update(*part, 0)
    ours = ReservedLayer(*([a, b] for a, b in zip(first, second, strict=True)), room=6)
    for length, rows in ((1, [0, 1, 2, 3]), (3, [0, 2, 3]), (2, [2])):
        index = torch.tensor(rows)
        growing.layers[0].batch_select_indices(index)
        ours.batch_select_indices(index)
        new = _part(generator, len(rows), length)
        for given, wanted in zip(ours.update(*new), growing.update(*new, 0), strict=True):
            assert torch.equal(given, wanted)
        assert ours.get_seq_length() == growing.get_seq_length()


def test_copies_nothing_that_is_there_and_takes_no_more_than_its_room() -> None:
    generator = torch.Generator().manual_seed(0)
    layer = ReservedLayer(*([part] for part in _part(generator, 2, 5)), room=2)
    keys, values = layer.update(*_part(generator, 2, 1))
    again = layer.update(*_part(generator, 2, 1))
    assert [part.data_ptr() for part in again] == [keys.data_ptr(), values.data_ptr()]
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        layer.update(*_part(generator, 2, 1))
