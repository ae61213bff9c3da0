"""What meta-learning draws: its training tasks (``data_order``) and dropout (``model_randomness``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mlflow_l3d.cells.factors import stream
from mlflow_l3d.tasks.settings import IntArray

_BLOCK: Final = 64
"""Passes over a class that are drawn at a time at most; what is drawn does not depend on it."""


class Episodes:
    """The training tasks of one cell, epoch after epoch.

    Of each class the labelled training examples are put into a random order, pass after pass, and consecutive pieces of
    `shots` + `queries` examples are the class's part of the tasks. So every example is seen equally often (their counts
    differ by one at most, at any time), and order alone decides which examples meet in a task. What is drawn depends
    neither on which examples stand in a class nor on the other classes; more tasks begin with the fewer.

    Parameters
    ----------
    seed
        That of ``data_order``.
    members
        For each class the examples that tasks are made of, as positions; not fewer than a task takes.
    numbers
        For each class its number, which names its stream.
    shots, queries
        Examples of each class in the support and in the query set.
    """

    def __init__(
        self, seed: int, members: Sequence[IntArray], numbers: Sequence[int], *, shots: int, queries: int
    ) -> None:
        self.shots = shots
        self._pieces = [
            Pieces(stream(seed, "tasks", str(number)), len(members_of_class), shots + queries)
            for members_of_class, number in zip(members, numbers, strict=True)
        ]
        self._members = list(members)

    def draw(self, count: int) -> IntArray:
        """Return the next `count` tasks: shape (count, classes x (shots + queries)), positions.

        The support set comes first, class after class, then the query set, class after class.
        """
        parts = [members[pieces.draw(count)] for members, pieces in zip(self._members, self._pieces, strict=True)]
        return np.concatenate(
            [part[:, : self.shots] for part in parts] + [part[:, self.shots :] for part in parts], axis=1
        )


class Pieces:
    """Consecutive pieces of random orders of ``range(size)``.

    Parameters
    ----------
    generator
        Drawn from, one permutation a pass.
    size
        Examples of the class, `length` at least.
    length
        Examples of a piece. No piece holds an example twice: if one reaches into the next pass, what it holds
        already comes later in that pass.
    """

    def __init__(self, generator: np.random.Generator, size: int, length: int) -> None:
        self._generator, self._size, self._length = generator, size, length
        self._rest = np.empty(0, dtype=np.int64)

    def draw(self, count: int) -> IntArray:
        """Return the next `count` pieces: shape (count, length)."""
        wanted = count * self._length
        parts, have = [self._rest], len(self._rest)
        while have < wanted:
            missing = -(-(wanted - have) // self._size)
            passes = np.tile(np.arange(self._size), (min(missing, _BLOCK), 1))
            for order in self._generator.permuted(passes, axis=1, out=passes):
                held = have % self._length
                parts.append(self._after(parts[-1][-held:], order) if held else order)
                have += self._size
        whole = np.concatenate(parts)
        self._rest = whole[wanted:]
        return whole[:wanted].reshape(count, self._length)

    def _after(self, unfinished: IntArray, order: IntArray) -> IntArray:
        """Return `order` with the examples of the unfinished piece behind those that complete it."""
        free, later = np.ones((2, self._size), dtype=np.bool_)
        free[unfinished] = False
        completing = np.flatnonzero(free[order])[: self._length - len(unfinished)]
        later[completing] = False
        return np.concatenate([order[completing], order[later]])


def mask_stream(seed: int, epoch: int) -> np.random.Generator:
    """Return the generator of one epoch's dropout (0-based), from ``model_randomness``."""
    return stream(seed, "episode_dropout", str(epoch))
