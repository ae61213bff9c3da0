"""Random numbers that are computed on the device that needs them, each from its place in a stream, many at once.

By counter (SplitMix64): each from a key and a number, on any device, in any order, however many others. A GPU that is
fed with dropout from the host waits for a core that draws it number by number, and for the copy.

`torch` is imported with this module, which is imported only where a session is prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch

from mlflow_l3d.approaches import stack
from mlflow_l3d.cells.factors import stream, stream_seed

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIXERS: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LEVELS: Final = 2**16
_DRAWN: Final = 2**23
"""Factors of dropout that are drawn at once on a GPU, at most."""


def places(count: int, device: torch.device | str) -> torch.Tensor:
    """Return the first `count` places of every stream, for :func:`counted`."""
    return torch.arange(1, count + 1, device=device) * _signed(_GOLDEN)


def counted(starts: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the 64 bits at some places of streams.

    Parameters
    ----------
    starts
        int64, any shape: where streams begin, from here or from :func:`mixed`, since numbers next to each other are
        places of one stream.
    offsets
        int64, shape (count,), from :func:`places`.

    Returns
    -------
    torch.Tensor
        int64, (*starts.shape, count).
    """
    return mixed(starts[..., None] + offsets)


def mixed(bits: torch.Tensor) -> torch.Tensor:
    """Return the finalizer of SplitMix64 (Steele et al. 2014), number by number."""
    for shift, factor in _MIXERS:
        bits = (bits ^ shifted(bits, shift)) * _signed(factor)
    return bits ^ shifted(bits, 31)


def shifted(bits: torch.Tensor, places: int) -> torch.Tensor:
    """Shift to the right as if there were no sign."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def kept(bits: torch.Tensor, probability: float) -> tuple[torch.Tensor, float]:
    """Return which of four numbers a word are kept by dropout, and what they are multiplied by.

    Parameters
    ----------
    bits
        int64, (*, count).
    probability
        That of a number to be dropped, in [0, 1); rounded to a multiple of 2**-16.

    Returns
    -------
    tuple
        bool, (*, 4 * count); and one over the share that is kept, so that the expectation stays.
    """
    dropped = min(round(probability * _LEVELS), _LEVELS - 1)
    return bits.view(torch.int16) >= dropped - _LEVELS // 2, _LEVELS / (_LEVELS - dropped)


NUMPY: Final = ("cpu", "mps")
"""Devices whose factors of dropout numpy draws: sooner on a CPU, and on Metal it was not tried."""


def dropout_factors(
    seeds: Sequence[int], first: int, shape: tuple[int, ...], probability: float, device: str
) -> torch.Tensor:
    """Return factors of dropout for some cells, of which each depends on its place in the stream of its cell alone.

    Parameters
    ----------
    seeds
        Where the streams of the B cells begin.
    first
        How many numbers of each were used before.
    shape
        Of the factors of one cell.
    probability
        That of a number to be dropped; see :func:`kept`.
    device
        Where they are computed.

    Returns
    -------
    torch.Tensor
        Shape (B, *shape), float32: 0, or one over the share that is kept.
    """
    # Numbers are quarters of words.
    begin, end = first // 4, -(-(first + int(np.prod(shape))) // 4)
    bits = counted(mixed(torch.tensor(seeds, device=device)), places(end, device)[begin:])
    keeps, factor = kept(bits, probability)
    skipped = first - 4 * begin
    return keeps[:, skipped : skipped + int(np.prod(shape))].reshape(-1, *shape) * factor


def cell_dropout(
    seeds: Sequence[int],
    purpose: tuple[str, ...],
    steps: int,
    shape: tuple[int, ...],
    probability: float,
    like: torch.Tensor,
) -> Iterator[torch.Tensor]:
    """Yield the factors of dropout of each step of every cell: (B, *shape), of the type and on the device of `like`.

    Parameters
    ----------
    seeds, purpose
        From ``model_randomness``, and what names the stream.
    steps, shape, probability
        How many are drawn, the shape of one cell's, and the probability that a number is dropped.
    like
        On a CPU, numpy draws number by number; on a GPU many steps are drawn at once.
    """
    if like.device.type in NUMPY:
        streams = [stream(seed, *purpose) for seed in seeds]
        for _ in range(steps):
            factors = torch.empty(len(seeds), *shape, dtype=like.dtype)
            for row, generator in zip(factors, streams, strict=True):
                row.copy_(torch.from_numpy(stack.dropout_factors(generator, shape, probability)))
            yield factors.to(like.device)
        return
    starts = [stream_seed(seed, *purpose) for seed in seeds]
    size = int(np.prod(shape))
    together = max(1, _DRAWN // (size * len(seeds)))
    for first in range(0, steps, together):
        count = min(together, steps - first)
        drawn = dropout_factors(starts, first * size, (count, *shape), probability, str(like.device))
        yield from drawn.to(like.dtype).unbind(1)


def _signed(number: int) -> int:
    number &= 2**64 - 1
    return number - 2**64 if number >> 63 else number
