"""What is read of a model: the answers of a task, as a trie, and the next token of each text, in few copies.

A token that several answers begin with is run once.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.device_draws import counted, mixed, places, shifted

IntArray: TypeAlias = npt.NDArray[np.int64]
ROOT = -1


@dataclass(frozen=True)
class AnswerTrie:
    """A trie of C answers with I inner nodes, which are the distinct proper beginnings of the answers.

    The distribution behind the prompt itself (`ROOT`) gives the first tokens, the distribution behind inner node i
    gives the tokens that follow it. A last token is only read, never run, so that an answer of one token needs no node.

    Attributes
    ----------
    tokens
        (I,) token of each inner node, parents before children.
    parents
        (I,) number of the node before it, `ROOT` for the prompt.
    steps
        For each answer one (node, token) pair a token: `token` is to be read behind `node`.
    """

    tokens: IntArray
    parents: IntArray
    steps: tuple[tuple[tuple[int, int], ...], ...]

    @cached_property
    def depths(self) -> IntArray:
        """(I,) how many tokens lead from the prompt to the node, the node itself included."""
        depths: IntArray = self.ancestors.sum(axis=1, dtype=np.int64)
        return depths

    @cached_property
    def ancestors(self) -> npt.NDArray[np.bool_]:
        """(I, I) whether node j lies on the way from the prompt to node i, i itself included."""
        matrix = np.eye(len(self.tokens), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent != ROOT:
                matrix[node] |= matrix[parent]
        return matrix

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """The longest ways through the inner nodes, as node numbers; a single empty way if there are no nodes."""
        leaves = sorted(set(range(len(self.tokens))) - {int(parent) for parent in self.parents})
        return tuple(tuple(int(node) for node in np.flatnonzero(self.ancestors[leaf])) for leaf in leaves) or ((),)

    @cached_property
    def reads(self) -> tuple[IntArray, IntArray]:
        """Node + 1 and token of all steps of all answers in a row, (S,) each."""
        nodes, tokens = np.asarray([step for answer in self.steps for step in answer], dtype=np.int64).T
        return nodes + 1, tokens

    def reads_on(self, path: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Return which of `reads` are behind the nodes of a way, by place, and behind which of them, counted on it."""
        behind, nodes = np.asarray(path) + 1, self.reads[0]
        steps = np.flatnonzero(np.isin(nodes, behind))
        return steps, np.searchsorted(behind, nodes[steps])

    def total(self, read: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up the log-probabilities that were read for `reads`: (n, S) -> (n, C)."""
        return np.add.reduceat(read, np.cumsum([0, *(len(answer) for answer in self.steps[:-1])]), axis=1)


def build_trie(answers: Sequence[Sequence[int]]) -> AnswerTrie:
    """Build the trie of answers, each a sequence of token ids.

    Answers may begin with one another and may be equal; each has a token at least.
    """
    numbers: dict[tuple[int, ...], int] = {(): ROOT}
    tokens: list[int] = []
    parents: list[int] = []
    steps = []
    for answer in answers:
        ids = tuple(int(token) for token in answer)
        for length in range(1, len(ids)):
            if ids[:length] not in numbers:
                numbers[ids[:length]] = len(tokens)
                tokens.append(ids[length - 1])
                parents.append(numbers[ids[: length - 1]])
        steps.append(tuple((numbers[ids[:length]], ids[length]) for length in range(len(ids))))
    return AnswerTrie(np.asarray(tokens, dtype=np.int64), np.asarray(parents, dtype=np.int64), tuple(steps))


def common_prefix(prompts: Sequence[tuple[int, ...]]) -> int:
    """Return how many tokens all prompts begin with, at least one token of each left over."""
    longest = min(len(prompt) for prompt in prompts) - 1
    pairs = zip(min(prompts)[:longest], max(prompts)[:longest], strict=True)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), longest)


_SLICE = 2**24
"""Numbers of logits that are worked on at once."""


def type_of(model: Any) -> torch.dtype:
    """Return the type that a model computes in, its own or that of ``torch.autocast``."""
    device, dtype = model.device.type, model.dtype
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else dtype


def takes(model: Any, argument: str) -> bool:
    """Return whether a model has an argument of this name."""
    return argument in inspect.signature(model.forward).parameters


def cache_argument(model: Any) -> str:
    """Return what a model calls its cache, which transformers 5.24 has renamed."""
    return "cache" if takes(model, "cache") else "past_key_values"


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
