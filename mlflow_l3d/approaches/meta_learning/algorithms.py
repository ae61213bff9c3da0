"""What is learned: an embedding (Prototypical Networks), or weights that adapt (MAML and first-order MAML, Reptile)."""

from __future__ import annotations

import torch

from mlflow_l3d.approaches.meta_learning import learner
from mlflow_l3d.approaches.meta_learning.learner import Buffers, Learner, Path
from mlflow_l3d.approaches.stack import BETA_1, BETA_2, EPSILON, Stack


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
        values = learner.losses(logs, wanted).view(cells, tasks).mean(1)
        errors = logs.exp_().sub_(wanted).mul_(2 / (wanted.shape[1] * tasks))
        back = empty("back", x, *z.shape)
        of_means = torch.bmm(errors.transpose(1, 2), z[:, support:]).sub_(errors.sum(1).unsqueeze(2) * means)
        for part, shared, layer in ((slice(support, None), errors, means), (slice(support), shares, of_means)):
            gradient_of_part = torch.bmm(shared, layer, out=empty(f"{part}", x, *z[:, part].shape))
            learner.through(gradient_of_part, z[:, part], None if mask is None else mask[:, part], back[:, part])
        rows = x.view(cells, tasks * examples, inputs)
        torch.bmm(rows.transpose(1, 2), back.view(*rows.shape[:2], -1), out=stack.g1)
        return values

    def adapted_logits(self, stack: Stack, x_s: torch.Tensor, labels_s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See :meth:`Learner.adapted_logits`."""
        shares = class_shares(learner.one_hot(labels_s, stack.classes, x_s))
        means = torch.bmm(shares.transpose(1, 2), torch.bmm(x_s, stack.w1).clamp_min_(0))
        embedded = torch.bmm(x, stack.w1).clamp_min_(0)
        # Class by class: differences of all pairs at once would be C times as large as the embeddings.
        return torch.stack([(embedded - mean).square_().sum(2) for mean in means.unsqueeze(2).unbind(1)], 2).neg_()


def class_shares(targets: torch.Tensor) -> torch.Tensor:
    """Return what each example contributes to the mean of its class: (N, S, C) from one-hot (N, S, C)."""
    return targets / targets.sum(1, keepdim=True)


class Reptile(Learner):
    """Move the weights towards where the base optimiser takes them on each task (Nichol et al. 2018, algorithm 2).

    The mean of theta - theta_i over the tasks is the meta-optimiser's gradient: with SGD of step size e this is
    theta + e mean(theta_i - theta). Every example of a task is support. Adam starts again in every task.
    """

    def gradient(self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """See :meth:`Learner.gradient`."""
        steps = self.settings.inner_steps
        rate = self.settings.inner_learning_rate
        cells, tasks = x.shape[:2]
        if self.settings.inner_optimizer == "adam" and steps > 1:
            return self._with_adam(stack, x, targets, mask)
        sheets, z = x.flatten(0, 1), self.embedded(stack, x)
        path = learner.descend(sheets, z, stack.w2, targets, mask, rate, steps, self.buffers)
        if self.settings.inner_optimizer == "adam":
            self._with_adam_once(stack, x, path)
        else:
            # One product sums the low-rank updates of all tasks.
            moved = path.total.mul_(rate / tasks).view(cells, -1, path.total.shape[2])
            torch.bmm(x.view(cells, -1, x.shape[3]).transpose(1, 2), moved, out=stack.g1)
            weights = torch.cat([path.weights[-1], path.biases[-1].transpose(1, 2)], 2)
            layer = weights.view(cells, tasks, stack.classes, -1).mean(1)
            torch.sub(stack.w2, layer.transpose(1, 2), out=stack.g2)
        return learner.losses(path.logs[0], targets).view(cells, tasks).mean(1)

    def _with_adam_once(self, stack: Stack, x: torch.Tensor, path: Path) -> None:
        """Take Adam's first step from the gradients of all tasks at once: g / (|g| + epsilon), of full rank."""
        cells, tasks, examples = x.shape[:3]
        total = path.total.view(cells, tasks, examples, -1)
        scale = self.settings.inner_learning_rate / tasks
        stack.g1.zero_()
        gradient, size = (self.buffers.empty(name, x, *stack.g1.shape) for name in ("g1", "scratch 1"))
        for task in range(tasks):
            torch.bmm(x[:, task].transpose(1, 2), total[:, task], out=gradient)
            stack.g1.addcdiv_(gradient, torch.abs(gradient, out=size).add_(EPSILON), value=scale)
        errors = path.errors[0]
        of_layer = torch.cat([torch.bmm(errors.transpose(1, 2), path.hidden[0]), errors.sum(1).unsqueeze(2)], 2)
        of_layer.div_(of_layer.abs().add_(EPSILON))
        layer = of_layer.view(cells, tasks, stack.classes, -1).sum(1)
        torch.mul(layer.transpose(1, 2), scale, out=stack.g2)

    def _with_adam(
        self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Go task by task through all cells: Adam's later steps see updates of full rank."""
        tasks = x.shape[1]
        rate = self.settings.inner_learning_rate
        steps = self.settings.inner_steps
        targets = targets.view(*x.shape[:2], *targets.shape[1:])
        masks = None if mask is None else mask.view(*x.shape[:2], *mask.shape[1:])
        stack.g1.zero_()
        stack.g2.zero_()
        values = x.new_zeros(len(stack))
        for task in range(tasks):
            task_rows = x[:, task], targets[:, task], None if masks is None else masks[:, task]
            *moved, value = adam_path(stack.w1, stack.w2, *task_rows, rate, steps, self.buffers)
            values += value
            for gradient, layer in zip((stack.g1, stack.g2), moved, strict=True):
                gradient.add_(layer, alpha=rate / tasks)
        return torch.div(values, tasks)

    def adapted_logits(self, stack: Stack, x_s: torch.Tensor, labels_s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See :meth:`Learner.adapted_logits`."""
        rate, steps = self.settings.inner_learning_rate, self.settings.adaptation_steps
        if self.settings.inner_optimizer == "sgd":
            return super().adapted_logits(stack, x_s, labels_s, x)
        targets = learner.one_hot(labels_s, stack.classes, x_s)
        moved_1, moved_2, _ = adam_path(stack.w1, stack.w2, x_s, targets, None, rate, steps, Buffers())
        w1, w2 = torch.sub(stack.w1, moved_1, alpha=rate), torch.sub(stack.w2, moved_2, alpha=rate)
        return learner.predict(w1, *learner.per_task(w2, 1, Buffers()), x)


def adam_path(
    w1: torch.Tensor,
    w2: torch.Tensor,
    x: torch.Tensor,
    targets: torch.Tensor,
    mask: torch.Tensor | None,
    learning_rate: float,
    steps: int,
    buffers: Buffers,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take steps of Adam, new for these support sets, on their mean cross-entropy.

    Parameters
    ----------
    w1, w2
        Shapes (B, D + 1, H) and (B, H + 1, C): where it starts; they stay.
    x, targets, mask
        Shapes (B, S, D + 1), (B, S, C) one-hot, and (B, S, H) or None.
    learning_rate, steps
        Of Adam.
    buffers
        Hold what is returned, until the next call.

    Returns
    -------
    tuple
        Shaped as `w1` and `w2`, the sum of Adam's steps of size 1: the weights move by -learning rate times it. And
        (B,), the mean cross-entropy before the first step; 0 if there is no step.
    """
    cells, examples, units, empty = *x.shape[:2], w1.shape[2], buffers.empty
    z = torch.bmm(x, w1, out=empty("z", x, cells, examples, units))
    h, back = (empty(name, x, cells, examples, units) for name in ("hidden", "back"))
    first, second = _Layer(buffers, "1", w1), _Layer(buffers, "2", w2)
    value = x.new_zeros(cells)
    for step in range(steps):
        torch.baddbmm(z, x, first.moved, alpha=-learning_rate, out=h).clamp_min_(0)
        layer = torch.sub(w2, second.moved, alpha=learning_rate)
        if mask is not None:
            h.mul_(mask)
        logs = torch.log_softmax(torch.baddbmm(layer[:, -1:], h, layer[:, :-1]), 2)
        if step == 0:
            value = learner.losses(logs, targets)
        errors = logs.exp_().sub_(targets).div_(examples)
        torch.bmm(errors, layer[:, :-1].transpose(1, 2), out=back)
        learner.through(back, h, mask, back)
        torch.bmm(x.transpose(1, 2), back, out=first.gradient)
        second.gradient[:, :-1] = torch.bmm(h.transpose(1, 2), errors)
        torch.sum(errors, 1, out=second.gradient[:, -1])
        first.step(step)
        second.step(step)
    return first.moved, second.moved, value


class _Layer:
    """Adam's memory of one layer, empty at first."""

    def __init__(self, buffers: Buffers, name: str, like: torch.Tensor) -> None:
        parts = ("gradient", "scratch", "mean", "square", "moved")
        tensors = [buffers.empty(f"{part} {name}", like, *like.shape).zero_() for part in parts]
        self.gradient, self.scratch, self.mean, self.square, self.moved = tensors

    def step(self, step: int) -> None:
        """Take step number `step`, counted from 0, with the gradient."""
        self.mean.mul_(BETA_1).add_(self.gradient, alpha=1 - BETA_1)
        self.square.mul_(BETA_2).addcmul_(self.gradient, self.gradient, value=1 - BETA_2)
        torch.sqrt(self.square, out=self.scratch).div_((1 - BETA_2 ** (step + 1)) ** 0.5).add_(EPSILON)
        self.moved.addcdiv_(self.mean, self.scratch, value=1 / (1 - BETA_1 ** (step + 1)))


class Maml(Learner):
    """Learn weights from which a few gradient steps lead to low loss (Finn et al. 2017, algorithm 1).

    The gradient of the mean query loss after adaptation, with respect to the weights before it: exactly, through the
    inner gradients (``maml``), or with the inner gradients as constants (``fomaml``: their equation for the first-order
    approximation). Both passes are written out, so that no graph is kept.
    """

    def gradient(self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """See :meth:`Learner.gradient`."""
        cells, tasks, examples, inputs = x.shape
        units = stack.w1.shape[2]
        classes = stack.classes
        rate = self.settings.inner_learning_rate
        support, sets, empty = self.settings.shots * classes, cells * tasks, self.buffers.empty
        queries, steps = examples - support, self.settings.inner_steps
        rows = x.view(cells, tasks * examples, inputs)
        sheets = x.view(sets, examples, inputs)
        x_s, z, wanted = sheets[:, :support], self.embedded(stack, x), targets[:, support:]
        mask_s, mask_q = (None, None) if mask is None else (mask[:, :support], mask[:, support:])
        path = learner.descend(x_s, z[:, :support], stack.w2, targets[:, :support], mask_s, rate, steps, self.buffers)
        across = empty("across", x, sets, queries, support)
        torch.bmm(sheets[:, support:], x_s.transpose(1, 2), out=across)
        h = empty("query", x, sets, queries, units)
        torch.baddbmm(z[:, support:], across, path.total, alpha=-rate, out=h).clamp_min_(0)
        if mask_q is not None:
            h.mul_(mask_q)
        logs = torch.log_softmax(torch.baddbmm(path.biases[-1], h, path.weights[-1].transpose(1, 2)), 2)
        values = learner.losses(logs, wanted).view(cells, tasks).mean(1)
        errors = logs.exp_().sub_(wanted).div_(queries * tasks)
        # From here on z holds the gradient with respect to it.
        back = torch.bmm(errors, path.weights[-1], out=empty("query back", x, sets, queries, units))
        learner.through(back, h, mask_q, z[:, support:])
        weights = torch.bmm(errors.transpose(1, 2), h, out=empty("weights back", x, sets, classes, units))
        biases = errors.sum(1, keepdim=True)
        if self.settings.learner == "fomaml":
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
        target, empty = z[:, :support], self.buffers.empty
        base = torch.bmm(across.transpose(1, 2), z[:, support:], out=empty("base", z, sets, support, units))
        # Little memory stays in the cache: the only step needs `base` once, and the inner loop no longer needs its own.
        slope = base if last == 0 else empty("slope", z, sets, support, units)
        curve = empty("back", z, sets, support, units)
        for step in range(last, -1, -1):
            h, errors, layer = path.hidden[step], path.errors[step], path.weights[step]
            # `base` is the gradient with respect to dZ of this step, up to the factor -a that is applied to its uses.
            if step < last:
                torch.baddbmm(base, path.gram, target, out=slope)
                learner.through(slope, h, mask, slope)
            else:
                learner.through(base, h, mask, slope)
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
                learner.through(curve, h, mask, target)
            else:
                learner.through(curve, h, mask, curve)
                target.add_(curve)
            weights.baddbmm_(errors.transpose(1, 2), slope, alpha=-rate)
            weights.baddbmm_(of_logits.transpose(1, 2), h)
            biases = biases.add_(of_logits.sum(1, keepdim=True))
