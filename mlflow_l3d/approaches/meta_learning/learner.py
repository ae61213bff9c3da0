"""What all learners share: a meta-step over stacked cells, reused memory; and the simplest, Prototypical Networks."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from mlflow_l3d.approaches.meta_learning.inner import Buffers, descend, losses, one_hot, per_task, predict, through
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.stacked.stack import Stack


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
            Shape (B, n, D + 1), the last column 1; may be an expanded view.

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
        tried, x = type(self)(self.settings), torch.zeros(1, tasks, examples, inputs + 1)
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


class ProtoNet(Learner):
    """Learn an embedding in which examples lie near the mean of their class (Snell et al. 2017, algorithm 1).

    The embedding is the hidden layer after ReLU; logits are minus squared Euclidean distances to the class means of the
    support set. There is no classification layer: `w2` only says how many classes there are.
    """

    def gradient(self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """See :meth:`Learner.gradient`."""
        cells, tasks, examples, inputs = x.shape
        support, empty = self.settings.shots * stack.classes, self.buffers.empty
        z = self.embedded(stack, x).clamp_min_(0)
        if mask is not None:
            z.mul_(mask)
        shares, wanted = class_shares(targets[:, :support]), targets[:, support:]
        means = torch.bmm(shares.transpose(1, 2), z[:, :support])
        # The squared norm of a query is the same for all classes: the softmax does not see it.
        norms = means.square().sum(2).unsqueeze(1)
        logs = torch.log_softmax(torch.baddbmm(norms, z[:, support:], means.transpose(1, 2), beta=-1, alpha=2), 2)
        values = losses(logs, wanted).view(cells, tasks).mean(1)
        errors = logs.exp_().sub_(wanted).mul_(2 / (wanted.shape[1] * tasks))
        back = empty("back", x, *z.shape)
        of_means = torch.bmm(errors.transpose(1, 2), z[:, support:]).sub_(errors.sum(1).unsqueeze(2) * means)
        for part, shared, layer in ((slice(support, None), errors, means), (slice(support), shares, of_means)):
            gradient_of_part = torch.bmm(shared, layer, out=empty(f"{part}", x, *z[:, part].shape))
            through(gradient_of_part, z[:, part], None if mask is None else mask[:, part], back[:, part])
        rows = x.view(cells, tasks * examples, inputs)
        torch.bmm(rows.transpose(1, 2), back.view(*rows.shape[:2], -1), out=stack.g1)
        return values

    def adapted_logits(self, stack: Stack, x_s: torch.Tensor, labels_s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See :meth:`Learner.adapted_logits`."""
        shares = class_shares(one_hot(labels_s, stack.classes, x_s))
        means = torch.bmm(shares.transpose(1, 2), torch.bmm(x_s, stack.w1).clamp_min_(0))
        embedded = torch.bmm(x, stack.w1).clamp_min_(0)
        # Class by class: differences of all pairs at once would be C times as large as the embeddings.
        return torch.stack([(embedded - mean).square_().sum(2) for mean in means.unsqueeze(2).unbind(1)], 2).neg_()


def class_shares(targets: torch.Tensor) -> torch.Tensor:
    """Return what each example contributes to the mean of its class: (N, S, C) from one-hot (N, S, C)."""
    return targets / targets.sum(1, keepdim=True)
