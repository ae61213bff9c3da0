"""Meta-learning of many cells in one program: their draws, steps and adaptation, and the outcome of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_softmax

from mlflow_l3d.approaches.base import answered, should_stop
from mlflow_l3d.approaches.chunks import StackedSession, cells_at_once
from mlflow_l3d.approaches.device_draws import cell_dropout
from mlflow_l3d.approaches.meta_learning.algorithms import Maml, ProtoNet, Reptile
from mlflow_l3d.approaches.meta_learning.learner import Learner
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.shots import Episodes, chosen_classes, members, random_shots
from mlflow_l3d.approaches.stack import FloatArray, Rows, Stack, initial_head
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.metrics.classification import f1_macro
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import IntArray, Split


def learner_of(settings: Recipe) -> Learner:
    """Return the learner that complete hyperparameters describe."""
    return {"protonet": ProtoNet, "reptile": Reptile}.get(settings.learner, Maml)(settings)


@dataclass(frozen=True)
class Draws:
    """Everything that the factors decide for one cell, and its losses so far.

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
    losses
        For each epoch the mean loss of the query sets (Reptile: support sets) of every meta-step, shape (steps,).
    """

    cell: Cell
    split: Split
    episodes: Episodes
    adaptation: IntArray
    weights: tuple[FloatArray, FloatArray]
    losses: list[npt.NDArray[np.float64]] = field(default_factory=list)


class MetaSession(StackedSession[Draws]):
    """Train and evaluate cells, a chunk at a time; see :class:`~mlflow_l3d.approaches.chunks.StackedSession`.

    Parameters
    ----------
    task, device
        See :class:`~mlflow_l3d.approaches.chunks.StackedSession`.
    features
        Shape (n, D), float32, one row per example; may be memory-mapped.
    recipe
        Complete hyperparameters.
    """

    def __init__(self, task: Task, features: FloatArray, recipe: Recipe, device: str) -> None:
        super().__init__(task, device)
        self.features, self.recipe = features, recipe
        self.classes = chosen_classes(recipe.classes, task.class_names)
        self.learner = learner_of(recipe)
        inputs = features.shape[1]
        classes = len(self.classes)
        hidden = recipe.hidden_units
        examples = classes * (recipe.shots + recipe.queries)
        step = self.learner.bytes_per_cell(inputs, hidden, classes, recipe.tasks, examples)
        evaluated = len(task.first_split.test)
        self.cells_at_once = cells_at_once(step, 4.0 * evaluated * (2 * inputs + 2 * hidden), device)

    def draw(self, cell: Cell) -> Draws:
        """Return what the factors decide for one cell.

        Raises
        ------
        ParameterError
            If a class has too few labelled examples for a training task, or to be adapted on.
        """
        recipe, classes, labels, seeds = self.recipe, self.classes, self.task.labels, cell.seeds
        whole, shots, queries = self.task.split(seeds), recipe.shots, recipe.queries
        split = Split(*(part[np.isin(labels[part], classes)] for part in (whole.train, whole.validation, whole.test)))
        train, adapted_on = split.train, recipe.adaptation_shots
        members_of_class = [members(train[labels[train] == each], each, shots, queries=queries) for each in classes]
        episodes = Episodes(seeds["data_order"], members_of_class, classes, shots=shots, queries=queries)
        adaptation = random_shots(seeds["sample_choice"], train, labels, classes, adapted_on, "adaptation_shots")
        inputs = self.features.shape[1]
        weights = initial_head(seeds["model_initialisation"], inputs, recipe.hidden_units, len(classes))
        return Draws(cell, split, episodes, adaptation, weights)

    def together(self, drawn: Sequence[Draws]) -> list[tuple[Outcome, float]]:
        """Return the outcomes; the work of a cell is the number of epochs that it was trained.

        If someone listens to epochs, cells are adapted and evaluated on their validation part after each, too, and one
        that is told to end leaves the stack; the others continue without it.
        """
        parts = [part for draws in drawn for part in (draws.split.train, draws.split.validation, draws.split.test)]
        rows = Rows(self.features, parts, self.device)
        stack = Stack.of([draws.weights for draws in drawn], self.device)
        outcomes: dict[str, Outcome] = {}
        running = list(drawn)
        for epoch in range(self.recipe.epochs):
            losses = self._epoch(stack, epoch, running, rows)
            for draws, of_steps in zip(running, losses, strict=True):
                draws.losses.append(of_steps)
            last = epoch + 1 == self.recipe.epochs or not np.isfinite(losses).all(axis=1).any()
            if self.on_epoch_end is None and not last:
                continue
            validated = self._adapted(stack, running, [draws.split.validation for draws in running], rows)
            told = [self._is_told(draws, epoch, logits) for draws, logits in zip(running, validated, strict=True)]
            going = [place for place, is_told in enumerate(told) if not is_told and not last]
            if len(going) == len(running):
                continue
            tested = self._adapted(stack, running, [draws.split.test for draws in running], rows)
            for place in set(range(len(running))).difference(going):
                outcomes[running[place].cell.key] = self.outcome_of(running[place], tested[place], validated[place])
            if not going:
                break
            stack = stack.select(going)
            running = [running[place] for place in going]
        return [(outcomes[draws.cell.key], len(draws.losses)) for draws in drawn]

    def _is_told(self, own: Draws, epoch: int, validation: FloatArray) -> bool:
        """Return whether a cell is told to end after an epoch."""
        labels = np.searchsorted(self.classes, self.task.labels[own.split.validation])
        return should_stop(self.on_epoch_end, own.cell.key, epoch, validation, labels)

    def _epoch(self, stack: Stack, epoch: int, drawn: Sequence[Draws], rows: Rows) -> npt.NDArray[np.float64]:
        """Take the steps of one epoch; return the losses, shape (B, steps)."""
        recipe, cells = self.recipe, len(drawn)
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
            losses.append(self.learner.step(stack, rows.at(places[:, step], memory), labels, masks))
        return torch.stack(losses, dim=1).double().cpu().numpy()

    @torch.inference_mode()
    def _adapted(
        self, stack: Stack, cells: Sequence[Draws], positions: Sequence[IntArray], rows: Rows
    ) -> list[FloatArray]:
        """Return the logits of each cell's examples at `positions` after adaptation, on the CPU; the stack stays."""
        classes = stack.classes
        if not any(map(len, positions)):
            return [np.empty((0, classes), dtype=np.float32) for _ in positions]
        numbers = torch.arange(classes, device=stack.w1.device).repeat_interleave(self.recipe.adaptation_shots)
        support = rows.at(rows.places(np.stack([draws.adaptation for draws in cells]))), numbers.expand(len(cells), -1)
        # A task of one's own may give its cells parts of unequal size.
        logits = self.learner.adapted_logits(stack, *support, rows.at(rows.padded(positions))).float().cpu().numpy()
        return [of_cell[: len(part)] for of_cell, part in zip(logits, positions, strict=True)]

    def outcome_of(self, draws: Draws, test: FloatArray, validation: FloatArray) -> Outcome:
        """Return the outcome of one cell, without its wall clock.

        A cell whose loss, or whose logits after adaptation, are not finite has **diverged**. Its weights are then nan,
        and nothing is left that could predict; argmax over such logits names the first class for every example, in
        every framework. This outcome is recorded: uniform scores and the first class, a score below chance, which
        counts as collapsed. To go back to the last weights that were finite would be a rule of early stopping that the
        methods do not have, and would hide an unstable setting behind a passable score; to make it an error would take
        the worst runs out of the spread that is measured.

        Parameters
        ----------
        draws
            What the factors decided, and the losses. Epochs are fewer than the recipe has if the cell was told to end,
            or no cell of the chunk had finite numbers any more.
        test, validation
            Shape (examples, C) each: logits after adaptation.

        Returns
        -------
        Outcome
            Metrics: `train_loss`, the mean of the last epoch (of a diverged cell the last finite loss, left out if
            there is none); `diverged_step`, the first meta-step, counted from 1, whose loss is not finite, steps + 1 if
            only the adaptation diverged, 0 for none; if there are validation examples, `validation_f1_macro` and
            `validation_loss`. Curve `train_loss`: the mean of every epoch that stayed finite.
        """
        task, losses = self.task, np.stack(draws.losses)
        diverged = diverged_step(losses, test, validation)
        if diverged:
            test, validation = np.zeros_like(test), np.zeros_like(validation)
        numbers = np.asarray(self.classes, dtype=np.int64)
        scores = np.zeros((len(test), len(task.class_names)), dtype=np.float32)
        scores[:, numbers] = np.exp(log_softmax(test.astype(np.float64), axis=1))
        epochs = losses.mean(axis=1)
        metrics = {"diverged_step": float(diverged)}
        if diverged != 1:
            metrics["train_loss"] = float(losses.reshape(-1)[diverged - 2] if diverged else epochs[-1])
        if len(validation):
            places = np.searchsorted(numbers, task.labels[draws.split.validation])
            log_likelihoods = log_softmax(validation.astype(np.float64), axis=1)
            metrics["validation_f1_macro"] = f1_macro(places, validation.argmax(axis=1), len(numbers))
            metrics["validation_loss"] = float(-log_likelihoods[np.arange(len(places)), places].mean())
        curves = {"train_loss": epochs[np.isfinite(epochs)].tolist()}
        predicted = numbers[test.argmax(axis=1)]
        return answered(draws.cell.key, task, draws.split.test, predicted, scores, metrics=metrics, curves=curves)


def diverged_step(losses: npt.NDArray[np.float64], *logits: FloatArray) -> int:
    """Return the first step (from 1) whose loss is not finite; steps + 1 if only logits are not; 0 for none."""
    wrong = np.flatnonzero(~np.isfinite(losses.reshape(-1)))
    if len(wrong):
        return int(wrong[0]) + 1
    return 0 if all(np.isfinite(part).all() for part in logits) else losses.size + 1
