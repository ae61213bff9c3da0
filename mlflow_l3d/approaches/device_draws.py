"""Random numbers that are computed on the device that needs them, each from its place in a stream, many at once.

By counter (SplitMix64): each from a key and a number, on any device, in any order, however many others. And those of
numpy's generators, PCG64 (O'Neill 2014, XSL-RR), to the last bit, so that cells are equal to those of a CPU: a GPU
that is fed with dropout from the host waits for a core that draws it number by number, and for the copy.

`torch` is imported with this module, which is imported only where a session is prepared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import torch

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIXERS: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LEVELS: Final = 2**16


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


MULTIPLIER: Final = 0x2360ED051FC65DA44385DF649FCCF645
NUMPY: Final = ("cpu", "mps")
"""Devices whose numbers numpy draws: sooner on a CPU, and Metal has no such arithmetic of 64 bits that was tried."""
WORDS: Final = 2**22
"""Words of 64 bits that are computed at once, at most: a few dozen times their bytes are held meanwhile."""
_LOW: Final = 2**32 - 1
_LOWEST: Final = -(2**63)

Wide = tuple[torch.Tensor, torch.Tensor]
"""Numbers of 128 bits modulo 2**128: their high and their low 64 bits, as int64."""


def dropout_factors(
    generators: Sequence[np.random.Generator], first: int, shape: tuple[int, ...], probability: float, device: str
) -> torch.Tensor:
    """Return the factors that :func:`mlflow_l3d.approaches.stacked.stack.dropout_factors` draws.

    Parameters
    ----------
    generators
        One for each of the B cells, at their beginning; they stay there.
    first
        How many numbers of each were used before.
    shape
        Of the factors of one cell.
    probability
        That of a number to be dropped.
    device
        Where they are computed.

    Returns
    -------
    torch.Tensor
        Shape (B, *shape), float32: 0 or 1 / (1 - probability).
    """
    count = int(np.prod(shape))
    starts = _states(generators, device)
    # Numbers are halves of words.
    begin, end = first // 2, -(-(first + count) // 2)
    factors, size = torch.empty(len(generators), count, device=device), max(1, WORDS // (end - begin))
    skipped = first - 2 * begin
    for at in range(0, len(generators), size):
        words = _words(starts[:, at : at + size], begin, end)
        # The low half comes first; on all devices of torch it also lies first.
        halves = (words.view(torch.int32).to(torch.int64) & _LOW)[:, skipped : skipped + count]
        uniforms = (halves >> 8).to(torch.float32) * 2.0**-24
        is_kept = uniforms >= float(np.float32(probability))
        factors[at : at + size] = is_kept * float(np.float32(1.0 / (1.0 - probability)))
    return factors.view(-1, *shape)


def _states(generators: Sequence[np.random.Generator], device: str) -> torch.Tensor:
    """Return the states of generators and their increments: int64, shape (4, B), high and low halves."""
    rows = []
    for generator in generators:
        generator_state = generator.bit_generator.state
        if generator_state["bit_generator"] != "PCG64" or generator_state["has_uint32"]:
            raise ValueError(f"{generator_state['bit_generator']} is no PCG64 at its beginning")
        state, increment = generator_state["state"]["state"], generator_state["state"]["inc"]
        rows.append([_signed(number) for whole in (state, increment) for number in (whole >> 64, whole)])
    return torch.tensor(rows, device=device).T.contiguous()


def _words(starts: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """Return the words `begin` to `end` of some generators: int64, shape (B, end - begin)."""
    powers, sums = _jumps(1 << (end - 1).bit_length(), str(starts.device))
    state, increment = _part(starts[:, :, None], 0), _part(starts[:, :, None], 2)
    high, low = _plus(_times(_cut(powers, begin, end), state), _times(_cut(sums, begin, end), increment))
    mixed, turn = high ^ low, shifted(high, 58)
    # Turned to the right. A shift by a whole word has no meaning, so that of none is made in two.
    right = (mixed >> turn) & ~((-1 << (63 - turn)) << 1)
    return right | (mixed << (63 - turn) << 1)


@lru_cache(maxsize=8)
def _jumps(count: int, device: str) -> tuple[Wide, Wide]:
    """Return what 1 to `count` steps multiply the state by, and the increment; `count` is a power of two."""
    halves = [_signed(number) for whole in (MULTIPLIER, 1) for number in (whole >> 64, whole)]
    first = torch.tensor(halves, device=device)[:, None]
    powers, sums = _part(first, 0), _part(first, 2)
    while len(powers[0]) < count:
        power, total = (_cut(part, -1, None) for part in (powers, sums))
        # As many steps again, behind those that there are.
        powers, sums = (
            _joined(powers, _times(powers, power)),
            _joined(sums, _plus(_times(sums, power), total)),
        )
    return powers, sums


def _part(halves: torch.Tensor, number: int) -> Wide:
    return halves[number], halves[number + 1]


def _cut(wide: Wide, begin: int, end: int | None) -> Wide:
    return wide[0][begin:end], wide[1][begin:end]


def _joined(first: Wide, second: Wide) -> Wide:
    return torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])


def _plus(a: Wide, b: Wide) -> Wide:
    low = a[1] + b[1]
    # Signed comparison of numbers whose order is that without signs.
    carry = ((low ^ _LOWEST) < (a[1] ^ _LOWEST)).to(torch.int64)
    return a[0] + b[0] + carry, low


def _times(a: Wide, b: Wide) -> Wide:
    return _high(a[1], b[1]) + a[0] * b[1] + a[1] * b[0], a[1] * b[1]


def _high(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the high 64 bits of the products of numbers of 64 bits without sign."""
    a_high, a_low, b_high, b_low = shifted(a, 32), a & _LOW, shifted(b, 32), b & _LOW
    middle = a_high * b_low + shifted(a_low * b_low, 32)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + shifted(middle, 32) + shifted(other, 32)


def _signed(number: int) -> int:
    number &= 2**64 - 1
    return number - 2**64 if number >> 63 else number
