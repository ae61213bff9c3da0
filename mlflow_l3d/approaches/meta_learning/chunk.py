"""Training of a chunk of cells in one program: what its cells draw, their steps, their adaptation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.device_draws import cell_dropout
from mlflow_l3d.approaches.meta_learning.learner import Learner
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.shots import members, random_shots
from mlflow_l3d.approaches.stacked.stack import FloatArray, Rows, Stack, initial_head
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split

_BLOCK: Final = 64
"""Passes over a class that are drawn at a time at most; the draws do not depend on it."""


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


@dataclass(frozen=True)
class Draws:
    """Everything that the factors decide for one cell.

    Attributes
    ----------
    cell
        The cell.
    split
        Positions of the examples of the classes that are distinguished.
    episodes
        Its training tasks.
    adaptation
        Shape (C x adaptation shots,): positions, class after class.
    weights
        Initial weights of the two layers, shapes (D + 1, H) and (H + 1, C).
    """

    cell: Cell
    split: Split
    episodes: Episodes
    adaptation: IntArray
    weights: tuple[FloatArray, FloatArray]

    @classmethod
    def of(cls, cell: Cell, task: Task, classes: Sequence[int], recipe: Recipe, inputs: int) -> Draws:
        """Draw for one cell; `inputs` is D.

        Raises
        ------
        ParameterError
            If a class has too few labelled examples for a training task, or to be adapted on.
        """
        labels, seeds, whole = task.labels, cell.seeds, task.split(cell.seeds)
        parts = (part[np.isin(labels[part], classes)] for part in (whole.train, whole.validation, whole.test))
        split, shots, queries = Split(*parts), recipe.shots, recipe.queries
        train, adapted_on = split.train, recipe.adaptation_shots
        members_of_class = [members(train[labels[train] == each], each, shots, queries=queries) for each in classes]
        episodes = Episodes(seeds["data_order"], members_of_class, classes, shots=shots, queries=queries)
        adaptation = random_shots(seeds["sample_choice"], train, labels, classes, adapted_on, "adaptation_shots")
        weights = initial_head(seeds["model_initialisation"], inputs, recipe.hidden_units, len(classes))
        return cls(cell, split, episodes, adaptation, weights)


@dataclass(frozen=True)
class Trained:
    """What the training of a cell leaves.

    Attributes
    ----------
    losses
        Shape (epochs, steps): mean loss of the query sets (Reptile: support sets) of every meta-step. Epochs are fewer
        if the cell was told to end, or no cell of the chunk had finite numbers any more.
    test, validation
        Shape (examples, C) each: logits after adaptation.
    """

    losses: npt.NDArray[np.float64]
    test: FloatArray
    validation: FloatArray


def train(
    drawn: Sequence[Draws],
    learner: Learner,
    features: FloatArray,
    device: str,
    tell: Callable[[Draws, int, FloatArray], bool] | None = None,
) -> list[Trained]:
    """Train the cells of a chunk together, adapt and evaluate them.

    Parameters
    ----------
    drawn
        One for each of the B cells.
    learner
        Takes the steps.
    features
        Shape (N, D): those of every example of the task.
    device
        Where they are trained.
    tell
        ``tell(cell, epoch, validation_logits)`` -> whether its training is to end; epochs count from 0. If it is given,
        cells are adapted and evaluated on their validation part after every epoch, too, and one that it wants to end
        leaves the stack; the others continue without it.
    """
    epochs = learner.settings.epochs
    parts = [part for draws in drawn for part in (draws.split.train, draws.split.validation, draws.split.test)]
    rows = Rows(features, parts, device)
    stack = Stack.of([draws.weights for draws in drawn], device)
    losses: list[list[npt.NDArray[np.float64]]] = [[] for _ in drawn]
    trained: dict[int, Trained] = {}
    running = list(range(len(drawn)))
    for epoch in range(epochs):
        cells = [drawn[number] for number in running]
        values = _epoch(stack, epoch, cells, learner, rows)
        for number, value in zip(running, values, strict=True):
            losses[number].append(value)
        last = epoch + 1 == epochs or not np.isfinite(values).all(axis=1).any()
        if tell is None and not last:
            continue
        validated = _adapted(learner, stack, cells, [draws.split.validation for draws in cells], rows)
        told = [tell is not None and tell(draws, epoch, logits) for draws, logits in zip(cells, validated, strict=True)]
        going = [place for place, is_told in enumerate(told) if not is_told and not last]
        if len(going) == len(running):
            continue
        tested = _adapted(learner, stack, cells, [draws.split.test for draws in cells], rows)
        for place in set(range(len(running))).difference(going):
            trained[running[place]] = Trained(np.stack(losses[running[place]]), tested[place], validated[place])
        if not going:
            break
        stack, running = stack.select(going), [running[place] for place in going]
    return [trained[number] for number in range(len(drawn))]


def _epoch(stack: Stack, epoch: int, drawn: Sequence[Draws], learner: Learner, rows: Rows) -> npt.NDArray[np.float64]:
    """Take the steps of one epoch; return the losses, shape (B, steps)."""
    recipe, cells = learner.settings, len(drawn)
    classes = torch.arange(stack.classes, device=stack.w1.device)
    each = torch.cat([classes.repeat_interleave(count) for count in (recipe.shots, recipe.queries)])
    labels = each.expand(cells, recipe.tasks, -1)
    positions = np.stack([draws.episodes.draw(recipe.steps * recipe.tasks) for draws in drawn])
    places = rows.places(positions.reshape(cells, recipe.steps, recipe.tasks, -1))
    seeds = [draws.cell.seeds["model_randomness"] for draws in drawn]
    shape = recipe.tasks, len(each), recipe.hidden_units
    drawn_on = ("episode_dropout", str(epoch)), recipe.steps, shape, recipe.dropout, stack.w1
    drops = cell_dropout(seeds, *drawn_on) if recipe.dropout else repeat(None)
    losses, memory = [], rows.empty(cells * recipe.tasks * len(each))
    for step, masks in zip(range(recipe.steps), drops, strict=False):
        losses.append(learner.step(stack, rows.at(places[:, step], memory), labels, masks))
    return torch.stack(losses, dim=1).double().cpu().numpy()


@torch.inference_mode()
def _adapted(
    learner: Learner, stack: Stack, cells: Sequence[Draws], positions: Sequence[IntArray], rows: Rows
) -> list[FloatArray]:
    """Return the logits of each cell's examples at `positions` after adaptation, on the CPU; the stack stays."""
    classes, longest = stack.classes, max(positions, key=len)
    if not len(longest):
        return [np.empty((0, classes), dtype=np.float32) for _ in positions]
    numbers = torch.arange(classes, device=stack.w1.device).repeat_interleave(learner.settings.adaptation_shots)
    support = (rows.at(rows.places(np.stack([draws.adaptation for draws in cells]))), numbers.expand(len(cells), -1))
    # A task of one's own may give its cells parts of unequal size: the rest of a row is not looked at.
    padded = np.stack([np.concatenate([rows_of_cell, longest[len(rows_of_cell) :]]) for rows_of_cell in positions])
    logits = learner.adapted_logits(stack, *support, rows.at(rows.places(padded))).float().cpu().numpy()
    return [rows_of_cell[: len(wanted)] for rows_of_cell, wanted in zip(logits, positions, strict=True)]
