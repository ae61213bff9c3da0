"""Model-agnostic meta-learning, of second and of first order (Finn et al. 2017)."""

from __future__ import annotations

import torch

from mlflow_l3d.approaches.meta_learning.inner import Path, adapted, descend, losses, through
from mlflow_l3d.approaches.meta_learning.learner import Learner
from mlflow_l3d.approaches.meta_learning.recipe import Recipe
from mlflow_l3d.approaches.stacked.stack import Stack


class Maml(Learner):
    """Learn weights from which a few gradient steps lead to low loss (Finn et al. 2017, algorithm 1).

    The gradient of the mean query loss after adaptation, with respect to the weights before it: exactly, through the
    inner gradients (``maml``), or with the inner gradients as constants (``fomaml``: their equation for the first-order
    approximation). Both passes are written out, so that no graph is kept.
    """

    def __init__(self, settings: Recipe) -> None:
        super().__init__(settings)
        self.first_order = settings.learner == "fomaml"

    def gradient(self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """See :meth:`Learner.gradient`."""
        cells, tasks, examples, inputs = x.shape
        units, classes, rate = stack.w1.shape[2], stack.classes, self.settings.inner_learning_rate
        support, sets, empty = self.settings.shots * classes, cells * tasks, self.buffers.empty
        queries, steps = examples - support, self.settings.inner_steps
        rows, sheets = x.view(cells, tasks * examples, inputs), x.view(sets, examples, inputs)
        x_s, z, wanted = sheets[:, :support], self.embedded(stack, x), targets[:, support:]
        mask_s, mask_q = (None, None) if mask is None else (mask[:, :support], mask[:, support:])
        path = descend(x_s, z[:, :support], stack.w2, targets[:, :support], mask_s, rate, steps, self.buffers)
        across = empty("across", x, sets, queries, support)
        torch.bmm(sheets[:, support:], x_s.transpose(1, 2), out=across)
        h = empty("query", x, sets, queries, units)
        torch.baddbmm(z[:, support:], across, path.total, alpha=-rate, out=h).clamp_min_(0)
        if mask_q is not None:
            h.mul_(mask_q)
        logs = torch.log_softmax(torch.baddbmm(path.biases[-1], h, path.weights[-1].transpose(1, 2)), 2)
        values = losses(logs, wanted).view(cells, tasks).mean(1)
        errors = logs.exp_().sub_(wanted).div_(queries * tasks)
        # From here on z holds the gradient with respect to it.
        back = torch.bmm(errors, path.weights[-1], out=empty("query back", x, sets, queries, units))
        through(back, h, mask_q, z[:, support:])
        weights = torch.bmm(errors.transpose(1, 2), h, out=empty("weights back", x, sets, classes, units))
        biases = errors.sum(1, keepdim=True)
        if self.first_order:
            some = empty("some", x, cells, tasks, queries, inputs).copy_(x[:, :, support:])
            some_z = back.copy_(z[:, support:])
            torch.bmm(some.view(cells, -1, inputs).transpose(1, 2), some_z.view(cells, -1, units), out=stack.g1)
        else:
            self._inner_backward(path, z, across, mask_s, weights, biases)
            torch.bmm(rows.transpose(1, 2), z.view(cells, -1, units), out=stack.g1)
        stack.g2[:, :-1] = weights.view(cells, tasks, classes, units).sum(1).transpose(1, 2)
        torch.sum(biases.view(cells, tasks, classes), 1, out=stack.g2[:, -1])
        return values

    def _inner_backward(
        self,
        path: Path,
        z: torch.Tensor,
        across: torch.Tensor,
        mask: torch.Tensor | None,
        weights: torch.Tensor,
        biases: torch.Tensor,
    ) -> None:
        """Take the gradients after the inner loop back to before it, in place.

        Parameters
        ----------
        path
            The inner loop.
        z
            Shape (N, S + Q, H): the gradient with respect to Z_q in its last rows; that of Z_s is put into the first.
        across
            Shape (N, Q, S): K_qs.
        mask
            Shape (N, S, H), or None.
        weights, biases
            Shapes (N, C, H) and (N, 1, C): gradient with respect to the classification layer, after and then before.
        """
        rate, last = self.settings.inner_learning_rate, len(path.hidden) - 1
        sets, support, units = path.total.shape
        target = z[:, :support]
        empty = self.buffers.empty
        base = torch.bmm(across.transpose(1, 2), z[:, support:], out=empty("base", z, sets, support, units))
        # Little memory stays in the cache: the only step needs `base` once, and the inner loop no longer needs its own.
        slope = base if last == 0 else empty("slope", z, sets, support, units)
        curve = empty("back", z, sets, support, units)
        for step in range(last, -1, -1):
            h, errors, layer = path.hidden[step], path.errors[step], path.weights[step]
            # `base` is the gradient with respect to dZ of this step, up to the factor -a that is applied to its uses.
            if step < last:
                assert path.gram is not None
                torch.baddbmm(base, path.gram, target, out=slope)
                through(slope, h, mask, slope)
            else:
                through(base, h, mask, slope)
            of_errors = (
                torch.baddbmm(biases, h, weights.transpose(1, 2))
                .baddbmm_(slope, layer.transpose(1, 2))
                .mul_(-rate / support)
            )
            weighted = of_errors.mul_(path.probabilities[step])
            of_logits = weighted.addcmul(path.probabilities[step], weighted.sum(2, keepdim=True), value=-1)
            torch.bmm(errors, weights, out=curve).mul_(-rate)
            curve.baddbmm_(of_logits, layer)
            if step == last:
                through(curve, h, mask, target)
            else:
                through(curve, h, mask, curve)
                target.add_(curve)
            weights.baddbmm_(errors.transpose(1, 2), slope, alpha=-rate)
            weights.baddbmm_(of_logits.transpose(1, 2), h)
            biases = biases.add_(of_logits.sum(1, keepdim=True))

    def adapted_logits(self, stack: Stack, x_s: torch.Tensor, labels_s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See :meth:`Learner.adapted_logits`."""
        return adapted(stack, x_s, labels_s, x, self.settings.inner_learning_rate, self.settings.adaptation_steps)
