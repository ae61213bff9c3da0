"""Training of a chunk of cells in one program: what its cells draw, their steps, their adaptation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.meta_learning.episodes import Episodes, episode_masks, mask_stream
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.shots import members, random_shots
from mlflow_l3d.approaches.stacked.rows import Rows
from mlflow_l3d.approaches.stacked.stack import FloatArray, initial_head
from mlflow_l3d.plan.cells import Cell
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray

if TYPE_CHECKING:
    import torch

    from mlflow_l3d.approaches.meta_learning.learners import Learner, Stack


@dataclass(frozen=True)
class Draws:
    """Everything that the factors decide for one cell.

    Attributes
    ----------
    cell
        The cell.
    train, validation, test
        Positions of the examples of the split, those of the classes that are told apart.
    episodes
        Its training tasks.
    adaptation
        Shape (C x adaptation shots,): positions, class after class.
    weights
        Initial weights of the two layers, shapes (D + 1, H) and (H + 1, C).
    mask_seed
        Seed of ``model_randomness``.
    """

    cell: Cell
    train: IntArray
    validation: IntArray
    test: IntArray
    episodes: Episodes
    adaptation: IntArray
    weights: tuple[FloatArray, FloatArray]
    mask_seed: int

    @classmethod
    def of(cls, cell: Cell, task: Task, classes: Sequence[int], recipe: Recipe, inputs: int) -> Draws:
        """Draw for one cell; `inputs` is D.

        Raises
        ------
        ParameterError
            If a class has too few labelled examples for a training task, or to be adapted on.
        """
        split, labels, seeds = task.split(cell.seeds), task.labels, cell.seeds
        train, validation, test = (
            part[np.isin(labels[part], classes)] for part in (split.train, split.validation, split.test)
        )
        shots, queries = recipe.shots, recipe.queries
        own = [members(train, labels, number, shots, queries=queries) for number in classes]
        return cls(
            cell,
            train,
            validation,
            test,
            Episodes(seeds["data_order"], own, classes, shots=shots, queries=queries),
            random_shots(
                seeds["sample_choice"],
                train,
                labels,
                classes,
                recipe.adaptation_shots,
                hyperparameter="adaptation_shots",
            ),
            initial_head(seeds["model_initialisation"], inputs, recipe.hidden_units, len(classes)),
            seeds["model_randomness"],
        )


Tell: TypeAlias = Callable[[Draws, int, FloatArray], bool]
"""``tell(cell, epoch, validation_logits)`` -> whether its training is to end; epochs count from 0."""


@dataclass(frozen=True)
class Trained:
    """What the training of a chunk leaves.

    Attributes
    ----------
    losses
        One array a cell, shape (epochs, steps): mean loss of the query sets (Reptile: support sets) of every meta-step.
        Epochs are fewer where the cell was told to end, or no cell had finite numbers any more.
    test, validation
        One array a cell, shape (examples, C): logits after adaptation.
    """

    losses: list[npt.NDArray[np.float64]]
    test: list[FloatArray]
    validation: list[FloatArray]


def train(
    drawn: Sequence[Draws],
    learner: Learner,
    features: FloatArray,
    recipe: Recipe,
    device: str,
    tell: Tell | None = None,
) -> Trained:
    """Train the cells of a chunk together, adapt and evaluate them.

    Parameters
    ----------
    drawn
        One for each of the B cells.
    learner
        Takes the steps.
    features
        Shape (N, D): those of every example of the task.
    recipe, device
        How and where they are trained.
    tell
        Where it is given, cells are adapted and evaluated on their validation part after every epoch, too, and one that
        it wants to end leaves the stack; the others go on without it.
    """
    import torch

    from mlflow_l3d.approaches.meta_learning.learners import Stack

    rows = Rows(features, [part for own in drawn for part in (own.train, own.validation, own.test)], device)
    stack = Stack.of([own.weights for own in drawn], device, torch.float32)
    classes = stack.w2.shape[2]
    each = [number for count in (recipe.shots, recipe.queries) for number in range(classes) for _ in range(count)]
    labels = torch.tensor(each, device=device).expand(len(drawn), recipe.tasks, -1)
    losses: list[list[npt.NDArray[np.float64]]] = [[] for _ in drawn]
    test, validation = ([np.empty((0, classes), dtype=np.float32)] * len(drawn) for _ in range(2))
    running = list(range(len(drawn)))
    for epoch in range(recipe.epochs):
        cells = [drawn[number] for number in running]
        values = _epoch(stack, epoch, cells, learner, rows, labels[: len(cells)], recipe)
        for number, value in zip(running, values, strict=True):
            losses[number].append(value)
        last = epoch + 1 == recipe.epochs or not np.isfinite(values).all(axis=1).any()
        if tell is None and not last:
            continue
        held = _adapted(learner, stack, cells, [own.validation for own in cells], rows, recipe)
        told = [tell is not None and tell(own, epoch, logits) for own, logits in zip(cells, held, strict=True)]
        going = [place for place, end in enumerate(told) if not end and not last]
        if len(going) == len(running):
            continue
        tested = _adapted(learner, stack, cells, [own.test for own in cells], rows, recipe)
        for place in set(range(len(running))).difference(going):
            test[running[place]], validation[running[place]] = tested[place], held[place]
        if not going:
            break
        stack, running = stack.select(going), [running[place] for place in going]
    return Trained([np.stack(own) for own in losses], test, validation)


def _epoch(
    stack: Stack,
    epoch: int,
    drawn: Sequence[Draws],
    learner: Learner,
    rows: Rows,
    labels: torch.Tensor,
    recipe: Recipe,
) -> npt.NDArray[np.float64]:
    """Take the steps of one epoch; return the losses, shape (B, steps)."""
    import torch

    cells, tasks, examples = labels.shape
    positions = np.stack([own.episodes.draw(recipe.steps * tasks) for own in drawn])
    places = rows.places(positions.reshape(cells, recipe.steps, tasks, examples))
    generators = [mask_stream(own.mask_seed, epoch) for own in drawn] if recipe.dropout else []
    shape = tasks, examples, recipe.hidden_units
    losses, memory = [], rows.empty(cells * tasks * examples)
    for step in range(recipe.steps):
        masks = None
        if generators:
            factors = [episode_masks(generator, shape, recipe.dropout) for generator in generators]
            masks = torch.from_numpy(np.stack(factors)).to(stack.w1)
        losses.append(learner.step(stack, rows.at(places[:, step], memory), labels, masks))
    found: npt.NDArray[np.float64] = torch.stack(losses, dim=1).double().cpu().numpy()
    return found


def _adapted(
    learner: Learner, stack: Stack, cells: Sequence[Draws], positions: Sequence[IntArray], rows: Rows, recipe: Recipe
) -> list[FloatArray]:
    """Return the logits of each cell's examples at `positions` after adaptation, on the CPU; the stack stays."""
    import torch

    classes, longest = stack.classes, max(positions, key=len)
    if not len(longest):
        return [np.empty((0, classes), dtype=np.float32) for _ in positions]
    numbers = torch.arange(classes, device=stack.w1.device).repeat_interleave(recipe.adaptation_shots)
    support = rows.at(rows.places(np.stack([own.adaptation for own in cells]))), numbers.expand(len(cells), -1)
    # A task of one's own may give its cells parts of unequal size: the rest of a row is not looked at.
    padded = np.stack([np.concatenate([own, longest[len(own) :]]) for own in positions])
    logits = learner.adapted_logits(stack, *support, rows.at(rows.places(padded))).float().cpu().numpy()
    return [own[: len(wanted)] for own, wanted in zip(logits, positions, strict=True)]
