"""The next token of each text: the likeliest, or one drawn with numbers that the text brings along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.counted import counted, mixed, places, shifted

_SLICE = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class Sampling:
    """How n texts of at most T tokens are drawn.

    Every token of every text has a number of its own, drawn before anything runs. So what a text says depends neither
    on its batch, nor on the order of the texts, nor on when the others end.

    The number is not compared with cumulative probabilities: over a vocabulary of 50,000 the last digits of the logits,
    which batches do change, shift these by more than a rare token's share. It is the key of one more number for each
    token of the vocabulary instead, which run a race that rounding can only turn if two are level.

    Parameters
    ----------
    temperature
        What the logits are divided by, above 0.
    uniforms
        (n, T) in [0, 1); ``uniforms[i, t]`` decides token t of text i.
    """

    temperature: float
    uniforms: npt.NDArray[np.float64]

    def of(self, items: Sequence[int]) -> Sampling:
        """Return the sampling of some of the texts."""
        return Sampling(self.temperature, self.uniforms[list(items)])


def next_tokens(
    logits: torch.Tensor, step: int, sampling: Sampling | None, rows: npt.NDArray[np.int64] | None = None
) -> torch.Tensor:
    """Return the next token of each text, (n,); -1 if none can be drawn, see :func:`copy_to_host`.

    Parameters
    ----------
    logits
        (n, vocabulary), any floating type.
    step
        How many tokens the texts have so far.
    sampling
        None takes the likeliest token, the first of equals.
    rows
        (n,) which rows of `sampling` the texts are; None for all, in their order.
    """
    if sampling is None:
        return logits.float().argmax(dim=-1)
    uniforms = sampling.uniforms[:, step] if rows is None else sampling.uniforms[rows, step]
    # This device has no float64.
    home = logits.cpu() if logits.device.type == "mps" else logits
    numbers = torch.from_numpy(np.ascontiguousarray(uniforms)).to(home.device)
    size = max(1, _SLICE // logits.shape[-1])
    parts = zip(torch.split(home, size), torch.split(numbers, size), strict=True)
    chosen = torch.cat([_drawn(part, sampling.temperature, part_numbers) for part, part_numbers in parts])
    return chosen.to(logits.device)


def copy_to_host(tokens: torch.Tensor) -> npt.NDArray[np.int64]:
    """Return next tokens on the host, for which a device is waited for once.

    Raises
    ------
    FloatingPointError
        If one could not be drawn.
    """
    host_tokens: npt.NDArray[np.int64] = tokens.cpu().numpy()
    if (host_tokens < 0).any():
        raise FloatingPointError("no token can be drawn: the model's logits are not numbers")
    return host_tokens


def _drawn(logits: torch.Tensor, temperature: float, uniforms: torch.Tensor) -> torch.Tensor:
    """Return (n,) tokens, each with its probability: the first arrival of exponential clocks whose rates these are."""
    wide = logits.double()
    best = wide.amax(dim=-1, keepdim=True)
    # Before the division, so that small temperatures do not overflow.
    rates = wide.sub_(best).div_(temperature).exp_() if wide is not logits else ((wide - best) / temperature).exp()
    chosen = rates.div_(_clocks(uniforms, logits.shape[-1])).argmax(dim=-1)
    return torch.where(best[:, 0].isfinite(), chosen, -1)


def _clocks(uniforms: torch.Tensor, count: int) -> torch.Tensor:
    """Return (n, count) numbers of the standard exponential distribution, from one number a row (SplitMix64)."""
    bits = counted(mixed((uniforms * 2.0**53).long()), places(count, uniforms.device))
    # Half a step off, so that neither 0 nor 1 occurs.
    return shifted(bits, 12).double().add_(0.5).mul_(2.0**-52).log_().neg_()
