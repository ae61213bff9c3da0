"""Random tasks and settings for the tests of the learners."""

from __future__ import annotations

from dataclasses import dataclass, replace

import meta_learning_published as published
import numpy as np
import torch

from mlflow_l3d.approaches.stack import Stack


@dataclass(frozen=True)
class Given:
    """The settings that a learner reads."""

    learner: str = "maml"
    shots: int = 2
    meta_learning_rate: float = 0.01
    meta_optimizer: str = "sgd"
    inner_learning_rate: float = 0.3
    inner_optimizer: str = "sgd"
    inner_steps: int = 1
    adaptation_steps: int = 1

    @property
    def base(self) -> tuple[str, float, int]:
        """Optimiser inside a task, its learning rate and its steps."""
        return self.inner_optimizer, self.inner_learning_rate, self.inner_steps


@dataclass(frozen=True)
class Case:
    """Cells with tasks: `x` (B, T, n, D + 1), `labels` (B, T, n), `masks` (B, T, n, H) or None."""

    stack: Stack
    x: torch.Tensor
    labels: torch.Tensor
    masks: torch.Tensor | None

    def cell(self, index: int) -> Case:
        """The same with one cell only."""
        masks = None if self.masks is None else self.masks[index : index + 1].clone()
        own = slice(index, index + 1)
        return replace(
            self, stack=self.stack.select([index]), x=self.x[own].clone(), labels=self.labels[own].clone(), masks=masks
        )

    def network(self, index: int) -> published.Network:
        """One cell's weights as a plain network."""
        return published.Network(self.stack.w1[index], self.stack.w2[index])

    def tasks(self, index: int, support: int) -> list[published.TrainingTask]:
        """One cell's tasks for a plain network: without the constant 1, factors of dropout behind the features."""
        rows, labels = self.x[index, :, :, :-1], self.labels[index]
        if self.masks is not None:
            rows = torch.cat([rows, self.masks[index]], dim=2)
        parts = slice(support), slice(support, None)
        return [tuple((rows[task, part], labels[task, part]) for part in parts) for task in range(len(rows))]


def weights_of(network: published.Network, gradients: bool = False) -> list[torch.Tensor]:
    """Return both matrices of a network, or their gradients, with the bias as the last row."""
    found = []
    for layer in (network.dense, network.classifier):
        pair = [part.grad if gradients else part.detach() for part in (layer.weight, layer.bias)]
        weight, bias = (
            torch.zeros_like(of) if part is None else part for part, of in zip(pair, layer.parameters(), strict=True)
        )
        found.append(torch.cat([weight.T, bias[None]]))
    return found


def plain_logits(given, network: published.Network, support: published.Examples, x: torch.Tensor) -> torch.Tensor:
    """Return the logits of a plain network that is adapted to a support set."""
    with torch.enable_grad():
        if given.learner == "protonet":
            return published.prototype_logits(network, support, x).detach()
        steps = given.adaptation_steps
        adapted = published.adapt(network, support, given.inner_optimizer, given.inner_learning_rate, steps)
        return adapted(x).detach()


def case(
    *,
    cells: int = 2,
    tasks: int = 3,
    classes: int = 2,
    shots: int = 2,
    queries: int = 3,
    inputs: int = 7,
    hidden: int = 6,
    dropout: float = 0.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Case:
    """Draw weights and tasks; in the support and the query set the classes stand one after another."""
    rng = np.random.default_rng(seed)
    n = classes * (shots + queries)
    x = rng.normal(size=(cells, tasks, n, inputs + 1))
    x[..., -1] = 1
    one = np.concatenate([np.repeat(np.arange(classes), shots), np.repeat(np.arange(classes), queries)])
    weights = [
        (rng.normal(size=(inputs + 1, hidden)) / inputs**0.5, rng.normal(size=(hidden + 1, classes)) / hidden**0.5)
        for _ in range(cells)
    ]
    masks = None
    if dropout:
        masks = torch.from_numpy((rng.random((cells, tasks, n, hidden)) >= dropout) / (1 - dropout)).to(dtype)
    labels = torch.from_numpy(np.broadcast_to(one, (cells, tasks, n)).copy())
    return Case(Stack.of(weights, dtype=dtype), torch.from_numpy(x).to(dtype), labels, masks)
