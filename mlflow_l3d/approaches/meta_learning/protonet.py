"""Prototypical Networks (Snell et al. 2017)."""

from __future__ import annotations

import torch

from mlflow_l3d.approaches.meta_learning.inner import losses, one_hot, through
from mlflow_l3d.approaches.meta_learning.learner import Learner, bytes_of_weights
from mlflow_l3d.approaches.stacked.stack import Stack


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
        distances = [(embedded - mean).square_().sum(2) for mean in means.unsqueeze(2).unbind(1)]
        return torch.stack(distances, 2).neg_()

    def bytes_per_cell(self, inputs: int, hidden: int, classes: int, tasks: int, examples: int) -> float:
        """See :meth:`Learner.bytes_per_cell`."""
        rows = inputs + 1 + 3 * hidden + 5 * classes
        weights = bytes_of_weights(inputs, hidden, classes, self.settings.meta_optimizer)
        return weights + 4.0 * tasks * (examples * rows + 3 * classes * hidden)


def class_shares(targets: torch.Tensor) -> torch.Tensor:
    """Return what each example contributes to the mean of its class: (N, S, C) from one-hot (N, S, C)."""
    return targets / targets.sum(1, keepdim=True)
