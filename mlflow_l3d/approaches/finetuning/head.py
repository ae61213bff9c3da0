"""``trainable=head``: the encoder stays frozen, a dense head is trained on its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mlflow_l3d.approaches.finetuning.draws import FloatArray, batch_order, dropout_masks, initial_head
from mlflow_l3d.approaches.finetuning.network import HeadNetwork
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.session import CellSession, Trained
from mlflow_l3d.approaches.finetuning.training import Progress, f1_macro, learning_rates
from mlflow_l3d.plan.cells import Cell
from mlflow_l3d.tasks.base import IntArray, Split, Task

if TYPE_CHECKING:
    import torch


class HeadSession(CellSession):
    """Cells on the features of one task.

    Parameters
    ----------
    task
        The data.
    features
        Shape (n, D), float32, one row an example; may be memory-mapped.
    recipe
        Complete hyperparameters.
    device
        Where the head is trained.
    """

    def __init__(self, task: Task, features: FloatArray, recipe: Recipe, device: str) -> None:
        super().__init__(task)
        self.features = features
        self.recipe = recipe
        self.device = device
        self.network = HeadNetwork(
            features.shape[1],
            recipe.hidden_units,
            len(task.class_names),
            recipe.batch_size,
            weight_decay=recipe.weight_decay,
            device=device,
        )

    def train(self, cell: Cell, split: Split) -> Trained:
        """Train the head of one cell and return the logits of its test examples."""
        import torch

        with torch.inference_mode():
            train, validation, test = (self._rows(part) for part in (split.train, split.validation, split.test))
            labels = self.task.labels
            progress = train_head(
                self.network, train, labels[split.train], validation, labels[split.validation], self.recipe, cell.seeds
            )
            return Trained(progress, self.network.logits(test).cpu())

    def _rows(self, positions: IntArray) -> torch.Tensor:
        """Return the features of some examples with the constant 1 behind them, in memory of torch's own.

        Torch aligns its memory, numpy need not: matrix products may differ in the last bit between alignments.
        """
        import torch

        rows = torch.ones(len(positions), self.features.shape[1] + 1)
        rows.numpy()[:, :-1] = self.features[positions]
        return rows.to(self.device)


def train_head(
    network: HeadNetwork,
    train: torch.Tensor,
    train_labels: IntArray,
    validation: torch.Tensor,
    validation_labels: IntArray,
    recipe: Recipe,
    seeds: Mapping[str, int],
) -> Progress:
    """Train a new head; `network` holds the weights of the best epoch afterwards.

    Parameters
    ----------
    network
        Buffers of the right sizes; nothing of an earlier training remains.
    train, validation
        Shapes (n, D + 1) and (v, D + 1), the last column 1.
    train_labels, validation_labels
        Shapes (n,) and (v,).
    recipe
        Complete hyperparameters.
    seeds
        Those of ``data_order``, ``model_initialisation`` and ``model_randomness`` are used.

    Raises
    ------
    DivergedError
        If a loss is not finite.
    """
    import torch

    n, classes = len(train), network.w2.shape[1]
    network.start(*initial_head(seeds["model_initialisation"], train.shape[1] - 1, network.w1.shape[1], classes))
    targets = torch.from_numpy(train_labels).to(train.device)
    onehot = torch.nn.functional.one_hot(targets, classes).to(train.dtype)
    rates = learning_rates(recipe, recipe.epochs * -(-n // recipe.batch_size))
    progress, step = Progress(recipe), 0
    best = network.weights.clone()
    logits = torch.empty(n, classes, dtype=train.dtype, device=train.device)
    for epoch in range(recipe.epochs):
        order = torch.from_numpy(batch_order(seeds["data_order"], epoch, n)).to(train.device)
        masks = _masks(seeds["model_randomness"], epoch, n, network, recipe.dropout)
        tensors = (train[order], onehot[order], masks, logits)
        for x, wanted, mask, out in zip(*(torch.split(tensor, recipe.batch_size) for tensor in tensors), strict=True):
            network.differentiate(x, wanted, mask, out)
            network.update(rates[step])
            step += 1
        train_loss = float(torch.nn.functional.cross_entropy(logits, targets[order]))
        if progress.add(*validate(network.logits(validation), validation_labels), train_loss):
            best.copy_(network.weights)
        if progress.stop:
            break
    network.weights.copy_(best)
    return progress


def validate(logits: torch.Tensor, labels: IntArray) -> tuple[float, float]:
    """Return F1 macro and mean cross-entropy of logits (v, C) on labels (v,); nan and nan where v is 0."""
    import torch

    if not len(labels):
        return np.nan, np.nan
    predictions = logits.argmax(1).cpu().numpy()
    loss = torch.nn.functional.cross_entropy(logits.cpu(), torch.from_numpy(labels))
    return f1_macro(labels, predictions, logits.shape[1]), float(loss)


def _masks(seed: int, epoch: int, n: int, network: HeadNetwork, probability: float) -> torch.Tensor:
    """Return the epoch's dropout factors where the network computes."""
    import torch

    units = network.w1.shape[1]
    if probability == 0:
        return torch.ones(n, units, dtype=network.weights.dtype, device=network.weights.device)
    return torch.from_numpy(dropout_masks(seed, epoch, n, units, probability)).to(network.weights)
