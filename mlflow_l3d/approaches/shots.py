"""Labelled examples of each class: drawn or like a text, for a prompt, a training task, or a learner to adapt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

if TYPE_CHECKING:
    import pandas as pd

_BLOCK: Final = 64
"""Passes over a class that are drawn at a time at most; the draws do not depend on it."""


def random_shots(
    seed: int, candidates: IntArray, labels: IntArray, classes: Sequence[int], shots: int, hyperparameter: str = "shots"
) -> IntArray:
    """Draw examples class by class.

    Parameters
    ----------
    seed
        That of ``sample_choice``.
    candidates
        Sorted positions of the labelled examples.
    labels
        Shape (n,): class of every example of the task.
    classes
        The classes that are distinguished.
    shots
        Examples of each class.
    hyperparameter
        What the user calls `shots`, for the text of the error.

    Returns
    -------
    ndarray
        Shape (classes x shots,): positions, class after class. The draws from a class do not depend on which
        other classes there are, and more shots hold the fewer.

    Raises
    ------
    ParameterError
        If a class has fewer labelled examples than shots.
    """
    chosen = []
    for number in classes:
        of_class = members(candidates[labels[candidates] == number], number, shots, hyperparameter)
        chosen.append(of_class[stream(seed, "shots", str(number)).permutation(len(of_class))[:shots]])
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)


def nearest_shots(
    features: npt.NDArray[np.float32],
    candidates: IntArray,
    labels: IntArray,
    classes: Sequence[int],
    shots: int,
    test: IntArray,
) -> IntArray:
    """Return for each test example the labelled examples that are most like it, as many of each class.

    Parameters
    ----------
    features
        Shape (n, D): one vector for every example of the task; likeness is the cosine.
    candidates, labels, classes, shots
        As for :func:`random_shots`.
    test
        Shape (m,): positions of the test examples.

    Returns
    -------
    ndarray
        Shape (m, classes x shots): class after class, the most similar first; of equals the one that comes first in
        the task.

    Raises
    ------
    ParameterError
        If a class has fewer labelled examples than shots.
    """
    test_units = _unit(features[test])
    columns = []
    for number in classes:
        of_class = members(candidates[labels[candidates] == number], number, shots)
        likeness = test_units @ _unit(features[of_class]).T
        columns.append(of_class[np.argsort(-likeness, axis=1, kind="stable")[:, :shots]])
    return np.concatenate(columns, axis=1)


def shot_order(seed: int, count: int) -> IntArray:
    """Return the order in which the chosen examples are in the prompt, a permutation; from ``data_order``."""
    return stream(seed, "shot_order").permutation(count)


def equal_orders(cells: pd.DataFrame, count: int) -> tuple[str, ...]:
    """Return in words which two columns of ``data_order`` put so many examples into one order; empty if none do."""
    orders = dict[str, int]()
    if {"factor", "column", "seed.data_order"} <= {*cells}:
        columns = cells[cells["factor"].eq("data_order")].dropna(subset="column").drop_duplicates("column")
        for column, seed in zip(columns["column"].astype(int), columns["seed.data_order"], strict=True):
            if (first := orders.setdefault(str(shot_order(int(seed), count)), column)) != column:
                few = f"{count} examples have only {math.factorial(count)} orders"
                return (f"data_order: columns {first + 1} and {column + 1} drew the same order: {few}.",)
    return ()


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit


def members(of_class: IntArray, name: object, shots: int, asking: str = "shots", *, queries: int = 0) -> IntArray:
    """Return the labelled examples of class `name` if they are enough for the hyperparameter `asking`.

    Raises
    ------
    ParameterError
        If there are fewer than `shots` and `queries` together.
    """
    if len(of_class) < shots + queries:
        needed = f"them and {queries} queries" if queries else "them"
        allowed = f"class {name!r} has {len(of_class)} labelled examples to take {needed} from"
        most = len(of_class) - queries
        fewer = f"at most {most}" if most > 0 or not queries else "fewer shots and queries"
        raise ParameterError(f"hyperparameters.{asking}", shots, allowed, f"Use {fewer}, or raise num_labelled.")
    return of_class


def check_shots(task: Task, classes: Sequence[int], shots: int, *, queries: int = 0, adaptation_shots: int = 0) -> None:
    """Raise if a class has too few labelled examples; splits are stratified, so that one shows the sizes of all.

    Parameters
    ----------
    task
        The data, with its split settings.
    classes
        Numbers of the classes that are distinguished.
    shots, queries
        Examples of each class that are asked for together.
    adaptation_shots
        Examples of each class that are asked for by themselves.

    Raises
    ------
    ParameterError
        As of :func:`members`.
    """
    if type(task).split is not Task.split:  # a task that divides in its own way: its cells will say
        return
    train = task.first_split.train
    for number in classes:
        of_class = train[task.strata[train] == number]
        name = task.strata_names[number]
        members(of_class, name, shots, queries=queries)
        members(of_class, name, adaptation_shots, "adaptation_shots")


def chosen_classes(text: str, class_names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the classes that ``classes`` names, in label order.

    Raises
    ------
    ParameterError
        If one is unknown or named twice, or there are fewer than two.
    """
    if text == "all":
        return tuple(range(len(class_names)))
    numbers = []
    for part in (piece.strip() for piece in text.split("+")):
        if part in class_names:
            numbers.append(list(class_names).index(part))
        elif part.isdecimal() and len(part) < 10 and int(part) < len(class_names):
            numbers.append(int(part))
        else:
            names = ", ".join(f"{at} {name}" for at, name in enumerate(class_names))
            raise ParameterError("hyperparameters.classes", text, f"{part!r} is none of the classes {names}")
    if len(set(numbers)) < len(numbers) or len(numbers) < 2:
        raise ParameterError("hyperparameters.classes", text, "must name two different classes at least, each once")
    return tuple(sorted(numbers))


class Episodes:
    """The training tasks of one cell, epoch after epoch.

    Of each class the labelled training examples are put into a random order, pass after pass, and consecutive pieces of
    `shots` + `queries` examples are the class's part of the tasks. So every example is seen equally often (their counts
    differ by one at most, at any time), and order alone decides which examples meet in a task. The draws depend
    neither on which examples are in a class nor on the other classes; more tasks begin with the fewer.

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
        self._parts = [
            (of_class, Pieces(stream(seed, "tasks", str(number)), len(of_class), shots + queries))
            for of_class, number in zip(members, numbers, strict=True)
        ]

    def draw(self, count: int) -> IntArray:
        """Return the next `count` tasks: shape (count, classes x (shots + queries)), positions.

        The support set comes first, class after class, then the query set, class after class.
        """
        parts = [of_class[pieces.draw(count)] for of_class, pieces in self._parts]
        support, queries = zip(*(np.split(part, [self.shots], axis=1) for part in parts), strict=True)
        return np.concatenate([*support, *queries], axis=1)


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
        free = np.ones(self._size, dtype=np.bool_)
        free[unfinished] = False
        completing = np.flatnonzero(free[order])[: self._length - len(unfinished)]
        return np.concatenate([order[completing], np.delete(order, completing)])
