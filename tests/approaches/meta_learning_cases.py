"""Random tasks and settings for the tests of the learners."""

from __future__ import annotations

from dataclasses import dataclass, replace

import meta_learning_reference as reference
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

    def weights(self, index: int) -> dict[str, torch.Tensor]:
        """One cell's weights for the reference."""
        return {"w1": self.stack.w1[index].clone(), "w2": self.stack.w2[index].clone()}

    def tasks(self, index: int, support: int) -> list[reference.TaskSets]:
        """One cell's tasks for the reference."""
        masks = None if self.masks is None else self.masks[index]
        return reference.tasks_of(self.x[index], self.labels[index], masks, support)


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
