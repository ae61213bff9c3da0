"""What all learners share: a meta-step over stacked cells, reused memory, and the inner loop of MAML and Reptile.

The loop has no fast weights of the first layer. A gradient step on the dense layer changes it by a product of rank n:
X_s' dZ. With the Gram matrices of the features, all that a task's examples see of it is Z_s - a K_ss dZ_s and
Z_q - a K_qs dZ_s. Only the fast weights of the small classification layer are formed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.stack import Stack


class Learner(ABC):
    """A way of meta-training that keeps its weights in a :class:`Stack`.

    Cells never meet in an operation: one that diverges leaves the numbers of the others as they are.

    Parameters
    ----------
    settings
        Complete hyperparameters.
    """

    def __init__(self, settings: Recipe) -> None:
        self.settings = settings
        self.buffers = Buffers()

    def differentiate(
        self, stack: Stack, x: torch.Tensor, labels: torch.Tensor, masks: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Put the meta-gradient of a step into `stack.g1` and `stack.g2`; parameters and return as :meth:`step`."""
        targets = one_hot(labels, stack.classes, x).flatten(0, 1)
        return self.gradient(stack, x, targets, None if masks is None else masks.flatten(0, 1))

    @abstractmethod
    def gradient(self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Put the meta-gradient into the stack.

        Parameters and return as those of :meth:`step`, but the N = B x T tasks of all cells one after another:
        `targets`, one-hot, of shape (N, n, C), and `mask` of shape (N, n, H).
        """

    def adapted_logits(self, stack: Stack, x_s: torch.Tensor, labels_s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Adapt each cell to a support set and return the logits of other examples; the stack stays as it is.

        By default by steps of SGD. Dropout is off, in adaptation and in prediction.

        Parameters
        ----------
        stack
            B cells.
        x_s, labels_s
            Shapes (B, m, D + 1) and (B, m): the adaptation sets; every class occurs.
        x
            Shape (B, n, D + 1), the last column 1.

        Returns
        -------
        torch.Tensor
            Shape (B, n, C).
        """
        rate, steps = self.settings.inner_learning_rate, self.settings.adaptation_steps
        if steps == 0:
            return predict(stack.w1, *per_task(stack.w2, 1, Buffers()), x)
        targets = one_hot(labels_s, stack.classes, x_s)
        path = descend(x_s, torch.bmm(x_s, stack.w1), stack.w2, targets, None, rate, steps, Buffers())
        w1 = torch.baddbmm(stack.w1, x_s.transpose(1, 2), path.total, alpha=-rate)
        return predict(w1, path.weights[-1], path.biases[-1], x)

    def bytes_per_cell(self, inputs: int, hidden: int, classes: int, tasks: int, examples: int) -> float:
        """Return the bytes in float32 that a cell holds in a step: weights, state, gradient, examples, buffers.

        A step of one cell is tried, with zeros. Factors of dropout are not among the bytes.

        Parameters
        ----------
        inputs, hidden, classes, tasks, examples
            Sizes D, H, C, T and n, the examples of a task.
        """
        tried = type(self)(self.settings)
        x = torch.zeros(1, tasks, examples, inputs + 1)
        w1, w2 = torch.zeros(1, inputs + 1, hidden), torch.zeros(1, hidden + 1, classes)
        with torch.inference_mode():
            tried.differentiate(Stack(w1, w2), x, torch.zeros(x.shape[:3], dtype=torch.int64))
        copies = 4 if self.settings.meta_optimizer == "adam" else 2
        return float(copies * (w1.nbytes + w2.nbytes) + x.nbytes + sum(buffer.nbytes for buffer in tried.buffers))

    def embedded(self, stack: Stack, x: torch.Tensor) -> torch.Tensor:
        """Return Z = X W1 of the tasks of all cells, shape (N, n, H), in memory that is kept."""
        cells, tasks, examples, inputs = x.shape
        z = self.buffers.empty("z", x, cells, tasks * examples, stack.w1.shape[2])
        return torch.bmm(x.view(cells, -1, inputs), stack.w1, out=z).view(cells * tasks, examples, -1)

    def step(
        self, stack: Stack, x: torch.Tensor, labels: torch.Tensor, masks: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Take one meta-step with every cell, in place.

        Parameters
        ----------
        stack
            B cells.
        x
            Shape (B, T, n, D + 1), contiguous: T tasks of n examples a cell, the last column 1. The first `shots` x C
            of each task are its support set, the others its queries (Reptile has none: all are support).
        labels
            Shape (B, T, n), int64, in [0, C).
        masks
            Shape (B, T, n, H): factors of dropout, 0 or 1/(1 - p); an example keeps its own in all inner steps. None:
            no dropout.

        Returns
        -------
        torch.Tensor
            Shape (B,): mean cross-entropy of the queries after adaptation, or (Reptile) of the support sets before it.
            A cell that diverged has nan or inf here.
        """
        with torch.inference_mode():
            losses = self.differentiate(stack, x, labels, masks)
            stack.descend(self.settings.meta_optimizer, self.settings.meta_learning_rate)
        return losses


class Buffers:
    """Tensors by name, made again only when a size changes: fresh memory costs more than what is written to it."""

    def __init__(self) -> None:
        self._tensors: dict[str, torch.Tensor] = {}

    def empty(self, name: str, like: torch.Tensor, *shape: int) -> torch.Tensor:
        """Return the tensor `name` of that shape, of the type and on the device of `like`, its content undefined."""
        buffer = self._tensors.get(name)
        if buffer is None or buffer.shape != shape or buffer.dtype != like.dtype or buffer.device != like.device:
            buffer = self._tensors[name] = like.new_empty(shape)
        return buffer

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self._tensors.values())


@dataclass
class Path:
    """What gradient descent on N support sets of S examples passes through, step by step.

    Attributes
    ----------
    hidden
        (N, S, H) each: the hidden layer after dropout.
    probabilities, errors
        (N, S, C) each: the softmax, and the gradient of the loss with respect to the logits.
    weights, biases
        (N, C, H) and (N, 1, C) each: the classification layer before each step, and at last after all of them. With H
        last, its products cost a quarter of what they cost with C last.
    total
        (N, S, H): the sum of the gradients with respect to Z_s. The dense layer has moved by -a X_s' total.
    logs
        (N, S, C) each: logarithm of the softmax.
    gram
        (N, S, S): K_ss = X_s X_s'; empty for one step, which does not need it.
    """

    hidden: list[torch.Tensor]
    probabilities: list[torch.Tensor]
    errors: list[torch.Tensor]
    weights: list[torch.Tensor]
    biases: list[torch.Tensor]
    total: torch.Tensor
    logs: list[torch.Tensor]
    gram: torch.Tensor


def descend(
    x: torch.Tensor,
    z: torch.Tensor,
    w2: torch.Tensor,
    targets: torch.Tensor,
    mask: torch.Tensor | None,
    learning_rate: float,
    steps: int,
    buffers: Buffers,
) -> Path:
    """Take gradient steps on the mean cross-entropy of support sets.

    Parameters
    ----------
    x, z
        Shapes (N, S, D + 1) and (N, S, H): X_s, and Z_s = X_s W1.
    w2
        Shape (B, H + 1, C): classification layers, each for N / B support sets.
    targets
        Shape (N, S, C): one-hot.
    mask
        Shape (N, S, H), or None.
    learning_rate, steps
        Of the base optimiser; at least one step.
    buffers
        Hold what is returned, until the next call.
    """
    n, examples, units = z.shape
    weights, biases = per_task(w2, n // len(w2), buffers)
    back = buffers.empty("back", z, n, examples, units)
    total = buffers.empty("total", z, n, examples, units)
    gram = buffers.empty("gram", z, n, examples, examples) if steps > 1 else z.new_empty(0)
    if steps > 1:
        torch.bmm(x, x.transpose(1, 2), out=gram)
    path = Path([], [], [], [weights], [biases], total, [], gram)
    for step in range(steps):
        h = buffers.empty(f"hidden {step}", z, n, examples, units)
        if step == 0:
            torch.clamp_min(z, 0, out=h)
        else:
            torch.baddbmm(z, gram, total, alpha=-learning_rate, out=h).clamp_min_(0)
        if mask is not None:
            h.mul_(mask)
        weight, bias = path.weights[-1], path.biases[-1]
        logs = torch.log_softmax(torch.baddbmm(bias, h, weight.transpose(1, 2)), 2)
        probabilities = logs.exp()
        errors = (probabilities - targets).div_(examples)
        torch.bmm(errors, weight, out=back)
        through(back, h, mask, total if step == 0 else back)
        if step > 0:
            total.add_(back)
        fast = buffers.empty(f"weights {step}", z, *weight.shape)
        path.hidden.append(h)
        path.logs.append(logs)
        path.probabilities.append(probabilities)
        path.errors.append(errors)
        path.weights.append(torch.baddbmm(weight, errors.transpose(1, 2), h, alpha=-learning_rate, out=fast))
        path.biases.append(bias.sub(errors.sum(1, keepdim=True), alpha=learning_rate))
    return path


def per_task(w2: torch.Tensor, tasks: int, buffers: Buffers) -> tuple[torch.Tensor, torch.Tensor]:
    """Return copies of classification layers (B, H + 1, C) for B x T tasks: weights (N, C, H) and biases (N, 1, C)."""
    cells, rows, classes = w2.shape
    weights = buffers.empty("w2", w2, cells, tasks, classes, rows - 1)
    weights.copy_(w2[:, :-1].transpose(1, 2).unsqueeze(1))
    return weights.view(-1, classes, rows - 1), w2[:, -1:].repeat_interleave(tasks, 0)


def through(gradient: torch.Tensor, hidden: torch.Tensor, mask: torch.Tensor | None, out: torch.Tensor) -> None:
    """Take a gradient with respect to the hidden layer back through dropout and ReLU, into `out`.

    Parameters
    ----------
    gradient, hidden, out
        Shape (N, S, H). `hidden` is the layer after dropout: positive exactly where a unit was active and not dropped.
    mask
        Factors of dropout, or None.
    """
    torch.ops.aten.threshold_backward(gradient, hidden, 0, grad_input=out)
    if mask is not None:
        out.mul_(mask)


def losses(log_probabilities: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of each set, (N,), from (N, S, C) and one-hot targets (N, S, C)."""
    return (log_probabilities * targets).sum((1, 2)).div_(-targets.shape[1])


def one_hot(labels: torch.Tensor, classes: int, like: torch.Tensor) -> torch.Tensor:
    """Return labels (..., n) as one-hot rows (..., n, C) of the type of `like`."""
    return like.new_zeros(*labels.shape, classes).scatter_(-1, labels.unsqueeze(-1), 1.0)


def predict(w1: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return logits (B, n, C) of rows (B, n, D + 1) with layers (B, D + 1, H), (B, C, H) and (B, 1, C)."""
    return torch.baddbmm(biases, torch.bmm(x, w1).clamp_min_(0), weights.transpose(1, 2))
