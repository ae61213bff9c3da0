"""The learners as the public code of Pecher et al. (2024) trains them: one cell, one task at a time, in `torch.nn`.

Written from reading that code; used by tests and benchmarks only. What is stepped, and when, is the point: their
`meta_learning/proto_net_meta.py` and `reptile.py` step the meta-optimiser after every task, `maml.py` (which
`fomaml.py` inherits) once for a batch of tasks, on the mean of their losses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import numpy.typing as npt
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy, relu

Examples: TypeAlias = tuple[torch.Tensor, torch.Tensor]
TrainingTask: TypeAlias = tuple[Examples, Examples]
"""Support set and query set, rows (n, D) and labels (n,) each."""
OPTIMIZERS: Final = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


class Network(torch.nn.Module):
    """A dense layer with ReLU and a classification layer, from weights with the bias as the last row."""

    def __init__(self, w1: npt.ArrayLike, w2: npt.ArrayLike) -> None:
        super().__init__()
        self.dense, self.classifier = (_linear(torch.as_tensor(matrix)) for matrix in (w1, w2))

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        """Return the hidden layer; if rows have more columns than inputs, these are the factors of dropout."""
        inputs = self.dense.in_features
        hidden = relu(self.dense(x[:, :inputs]))
        return hidden * x[:, inputs:] if x.shape[1] > inputs else hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.classifier(self.embed(x))


def _linear(matrix: torch.Tensor) -> torch.nn.Linear:
    layer = torch.nn.Linear(matrix.shape[0] - 1, matrix.shape[1], dtype=matrix.dtype)
    with torch.no_grad():
        layer.weight.copy_(matrix[:-1].T)
        layer.bias.copy_(matrix[-1])
    return layer


def prototype_logits(network: Network, support: Examples, x: torch.Tensor) -> torch.Tensor:
    """Return minus the squared distances to the class means of the embedded support set."""
    embedded, labels = network.embed(support[0]), support[1]
    means = torch.stack([embedded[labels == number].mean(0) for number in labels.unique()])
    return -(network.embed(x).unsqueeze(1) - means).pow(2).sum(2)


def adapt(network: Network, examples: Examples, optimizer: str, learning_rate: float, steps: int) -> Network:
    """Return a copy after steps of a new base optimiser on the mean cross-entropy."""
    fast = copy.deepcopy(network)
    base = OPTIMIZERS[optimizer](fast.parameters(), lr=learning_rate)
    for _ in range(steps):
        base.zero_grad()
        cross_entropy(fast(examples[0]), examples[1]).backward()
        base.step()
    return fast


def _add_protonet(network: Network, task: TrainingTask, share: float, **_: object) -> torch.Tensor:
    support, (x, labels) = task
    loss = cross_entropy(prototype_logits(network, support, x), labels)
    (share * loss).backward()
    return loss


def _add_reptile(
    network: Network, task: TrainingTask, share: float, *, base: str, learning_rate: float, steps: int, **_: object
) -> torch.Tensor:
    fast = adapt(network, task[0], base, learning_rate, steps)
    for own, moved in zip(network.parameters(), fast.parameters(), strict=True):
        difference = share * (own.detach() - moved.detach())
        own.grad = difference if own.grad is None else own.grad + difference
    return cross_entropy(network(task[0][0]), task[0][1])


def _add_maml(
    network: Network,
    task: TrainingTask,
    share: float,
    *,
    learning_rate: float,
    steps: int,
    first_order: bool,
    **_: object,
) -> torch.Tensor:
    (x_s, labels_s), (x_q, labels_q) = task
    fast = dict(network.named_parameters())
    for _step in range(steps):
        loss = cross_entropy(functional_call(network, fast, x_s), labels_s)
        gradients = torch.autograd.grad(loss, list(fast.values()), create_graph=not first_order)
        fast = {
            name: weight - learning_rate * gradient
            for (name, weight), gradient in zip(fast.items(), gradients, strict=True)
        }
    loss = cross_entropy(functional_call(network, fast, x_q), labels_q)
    (share * loss).backward()
    return loss


_ADD: Final = {"protonet": _add_protonet, "maml": _add_maml, "fomaml": _add_maml, "reptile": _add_reptile}


def add_gradient(
    learner: str, network: Network, task: TrainingTask, share: float, base: tuple[str, float, int]
) -> torch.Tensor:
    """Add the share of a task to the gradients of a network, and return its loss; `base` is as in :func:`train`."""
    settings = {"base": base[0], "learning_rate": base[1], "steps": base[2], "first_order": learner == "fomaml"}
    return _ADD[learner](network, task, share, **settings).detach()


def train(
    learner: str,
    network: Network,
    batches: Iterable[Sequence[TrainingTask]],
    *,
    after: Literal["task", "batch"],
    meta: tuple[str, float],
    base: tuple[str, float, int],
) -> None:
    """Train a network in place.

    Parameters
    ----------
    learner
        ``protonet``, ``maml``, ``fomaml`` or ``reptile``.
    batches
        The tasks, batch by batch; of Reptile's only the support sets are used.
    after
        When the meta-optimiser steps: after every task on its own gradient, or after a batch on the tasks' mean.
    meta
        Meta-optimiser and its learning rate; one optimiser for the whole training.
    base
        Optimiser inside a task, its learning rate and its steps.
    """
    optimizer = OPTIMIZERS[meta[0]](network.parameters(), lr=meta[1])
    for batch in batches:
        optimizer.zero_grad()
        for task in batch:
            add_gradient(learner, network, task, 1.0 if after == "task" else 1 / len(batch), base)
            if after == "task":
                optimizer.step()
                optimizer.zero_grad()
        if after == "batch":
            optimizer.step()
