"""The learners once more, task by task and plainly, from their definitions: what the stacked ones are compared with.

Used by tests only. Weights are a dictionary of two matrices with the bias as the last row, a task is a
support set and a query set. Gradients come from :mod:`torch.func`; Adam inside a task is that of :mod:`torch.optim`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mlflow_l3d.approaches.meta_learning.recipe import Recipe

if TYPE_CHECKING:
    import torch

    Weights: TypeAlias = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Set:
    """Some examples of a task.

    Attributes
    ----------
    x
        Shape (n, D + 1), the last column 1.
    labels
        Shape (n,), int64.
    mask
        Shape (n, H): factors of dropout; None: no dropout.
    """

    x: torch.Tensor
    labels: torch.Tensor
    mask: torch.Tensor | None = None


@dataclass(frozen=True)
class TaskSets:
    """A training task: support set and query set (no examples for Reptile)."""

    support: Set
    query: Set


def tasks_of(x: torch.Tensor, labels: torch.Tensor, masks: torch.Tensor | None, support: int) -> list[TaskSets]:
    """Cut one cell's tensors, (T, n, D + 1), (T, n) and (T, n, H), into tasks; the first rows are support."""
    found = []
    for task in range(len(x)):
        own = None if masks is None else masks[task]
        first, rest = (
            Set(x[task, part], labels[task, part], None if own is None else own[part])
            for part in (slice(support), slice(support, None))
        )
        found.append(TaskSets(first, rest))
    return found


def embed(weights: Weights, examples: Set) -> torch.Tensor:
    """Return the hidden layer, (n, H), after ReLU and dropout."""
    hidden = (examples.x @ weights["w1"]).relu()
    return hidden if examples.mask is None else hidden * examples.mask


def logits(weights: Weights, examples: Set) -> torch.Tensor:
    """Return the logits, (n, C), of the classification layer."""
    return embed(weights, examples) @ weights["w2"][:-1] + weights["w2"][-1]


def loss(weights: Weights, examples: Set) -> torch.Tensor:
    """Return the mean cross-entropy, a scalar."""
    import torch

    return torch.nn.functional.cross_entropy(logits(weights, examples), examples.labels)


def descended(weights: Weights, support: Set, learning_rate: float, steps: int) -> Weights:
    """Return the weights after steps of gradient descent on a support set; differentiable in `weights`."""
    from torch.func import grad

    for _ in range(steps):
        gradient = grad(loss)(weights, support)
        weights = {name: weights[name] - learning_rate * gradient[name] for name in weights}
    return weights


def adam_descended(weights: Weights, support: Set, learning_rate: float, steps: int) -> Weights:
    """Return the weights after steps of Adam, new for this task, on a support set."""
    import torch

    own = {name: tensor.detach().clone().requires_grad_() for name, tensor in weights.items()}
    optimizer = torch.optim.Adam(own.values(), lr=learning_rate)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(loss(own, support))
        optimizer.step()
    return {name: tensor.detach() for name, tensor in own.items()}


def adapted(settings: Recipe, weights: Weights, support: Set, steps: int) -> Weights:
    """Return the weights after steps of the base optimiser."""
    inner = adam_descended if settings.inner_optimizer == "adam" else descended
    return inner(weights, support, settings.inner_learning_rate, steps)


def mean(trees: Sequence[Weights]) -> Weights:
    """Return the mean of some weights."""
    import torch

    return {name: torch.stack([tree[name] for tree in trees]).mean(0) for name in trees[0]}


def mean_of(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the mean of some scalars."""
    import torch

    return torch.stack(list(values)).mean()


def maml_gradient(settings: Recipe, weights: Weights, tasks: Sequence[TaskSets]) -> tuple[Weights, torch.Tensor]:
    """Return the gradient of the mean query loss after adaptation, through the adaptation, and that loss."""
    from torch.func import grad_and_value

    def adapted_loss(own: Weights, task: TaskSets) -> torch.Tensor:
        fast = descended(own, task.support, settings.inner_learning_rate, settings.inner_steps)
        return loss(fast, task.query)

    found = [grad_and_value(adapted_loss)(weights, task) for task in tasks]
    return mean([gradient for gradient, _ in found]), mean_of([value for _, value in found])


def fomaml_gradient(settings: Recipe, weights: Weights, tasks: Sequence[TaskSets]) -> tuple[Weights, torch.Tensor]:
    """Return the mean of the query losses' gradients at the adapted weights, and the mean of these losses."""
    from torch.func import grad_and_value

    found = []
    for task in tasks:
        fast = descended(weights, task.support, settings.inner_learning_rate, settings.inner_steps)
        found.append(grad_and_value(loss)(fast, task.query))
    return mean([gradient for gradient, _ in found]), mean_of([value for _, value in found])


def reptile_gradient(settings: Recipe, weights: Weights, tasks: Sequence[TaskSets]) -> tuple[Weights, torch.Tensor]:
    """Return the mean of theta - theta_i, and the mean support loss at theta."""
    ends = [adapted(settings, weights, task.support, settings.inner_steps) for task in tasks]
    value = mean_of([loss(weights, task.support) for task in tasks])
    return mean([{name: weights[name] - end[name] for name in weights} for end in ends]), value


def prototypes(weights: Weights, support: Set, classes: int) -> torch.Tensor:
    """Return the class means of the embedded support set, (C, H)."""
    import torch

    embedded = embed(weights, support)
    return torch.stack([embedded[support.labels == number].mean(0) for number in range(classes)])


def distance_logits(weights: Weights, support: Set, examples: Set) -> torch.Tensor:
    """Return minus the squared distances of examples to the class means, (n, C)."""
    means = prototypes(weights, support, weights["w2"].shape[1])
    return -(embed(weights, examples).unsqueeze(1) - means).square().sum(2)


def protonet_gradient(_: Recipe, weights: Weights, tasks: Sequence[TaskSets]) -> tuple[Weights, torch.Tensor]:
    """Return the gradient of the mean query loss, and that loss."""
    import torch

    own = {name: tensor.detach().clone().requires_grad_() for name, tensor in weights.items()}
    values = [
        torch.nn.functional.cross_entropy(distance_logits(own, task.support, task.query), task.query.labels)
        for task in tasks
    ]
    value = mean_of(values)
    (of_w1,) = torch.autograd.grad(value, [own["w1"]])
    return {"w1": of_w1, "w2": torch.zeros_like(own["w2"])}, value.detach()


GRADIENTS = {
    "maml": maml_gradient,
    "fomaml": fomaml_gradient,
    "reptile": reptile_gradient,
    "protonet": protonet_gradient,
}
"""Learner -> its meta-gradient and loss on the tasks of one cell."""


def adapted_logits(settings: Recipe, weights: Weights, support: Set, x: torch.Tensor) -> torch.Tensor:
    """Return the logits (n, C) of rows `x` (n, D + 1) after adaptation to a support set."""
    rows = Set(x, support.labels[:0])
    if settings.learner == "protonet":
        return distance_logits(weights, support, rows)
    return logits(adapted(settings, weights, support, settings.adaptation_steps), rows)
