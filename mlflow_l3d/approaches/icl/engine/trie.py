"""The answers of a task as a trie: a token that several answers begin with is run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

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
