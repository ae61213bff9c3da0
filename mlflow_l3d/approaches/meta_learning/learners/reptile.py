"""Reptile (Nichol et al. 2018), with SGD or Adam as base optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mlflow_l3d.approaches.meta_learning.learners.adam_path import adam_path
from mlflow_l3d.approaches.meta_learning.learners.base import Buffers, Learner, bytes_of_inner, bytes_of_weights, layers
from mlflow_l3d.approaches.meta_learning.learners.inner import (
    Path,
    adapted,
    descend,
    losses,
    one_hot,
    per_task,
    predict,
)
from mlflow_l3d.approaches.stacked.stack import EPSILON, Stack

if TYPE_CHECKING:
    import torch

PIECE_BYTES: Final = 2**19
"""On a CPU, Adam's inner steps go through as many cells at once as have dense layers of this size, for the cache."""


class Reptile(Learner):
    """Move the weights towards where the base optimiser takes them on each task (Nichol et al. 2018, algorithm 2).

    The mean of theta - theta_i over the tasks is the meta-optimiser's gradient: with SGD of step size e this is
    theta + e mean(theta_i - theta). Every example of a task is support. Adam starts anew in every task.
    """

    def differentiate(
        self, stack: Stack, x: torch.Tensor, labels: torch.Tensor, masks: torch.Tensor | None = None
    ) -> torch.Tensor:
        """See :meth:`Learner.differentiate`."""
        targets = one_hot(labels, stack.classes, x)
        if self.settings.inner_optimizer == "sgd":
            return self._with_sgd(stack, x, targets, masks)
        with_adam = self._with_adam if self.settings.inner_steps > 1 else self._with_adam_once
        return with_adam(stack, x, targets, masks)

    def _with_sgd(
        self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, masks: torch.Tensor | None
    ) -> torch.Tensor:
        """Sum the low-rank updates of all tasks in one product."""
        import torch

        cells, tasks = x.shape[:2]
        rate = self.settings.inner_learning_rate
        path = self._path(stack, x, targets, masks, self.settings.inner_steps)
        moved = path.total.mul_(rate / tasks).view(cells, -1, path.total.shape[2])
        torch.bmm(x.view(cells, -1, x.shape[3]).transpose(1, 2), moved, out=stack.g1)
        layer = torch.cat([path.weights[-1], path.biases[-1].transpose(1, 2)], 2).view(cells, tasks, stack.classes, -1)
        torch.sub(stack.w2, layer.mean(1).transpose(1, 2), out=stack.g2)
        return losses(path.logs[0], targets.flatten(0, 1)).view(cells, tasks).mean(1)

    def _path(
        self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, masks: torch.Tensor | None, steps: int
    ) -> Path:
        """Descend on every task of every cell with gradient steps."""
        import torch

        cells, tasks, examples, inputs = x.shape
        units, sets, empty = stack.w1.shape[2], cells * tasks, self.buffers.empty
        rows, sheets = x.view(cells, tasks * examples, inputs), x.view(sets, examples, inputs)
        z = torch.bmm(rows, stack.w1, out=empty("z", x, cells, tasks * examples, units)).view(sets, examples, units)
        gram = None
        if steps > 1:
            gram = torch.bmm(sheets, sheets.transpose(1, 2), out=empty("gram", x, sets, examples, examples))
        layer = per_task(stack.w2, tasks, self.buffers)
        mask = None if masks is None else masks.view(sets, examples, units)
        rate = self.settings.inner_learning_rate
        return descend(z, gram, targets.flatten(0, 1), mask, *layer, rate, steps, self.buffers)

    def _with_adam_once(
        self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, masks: torch.Tensor | None
    ) -> torch.Tensor:
        """Take Adam's first step from the gradients of all tasks at once: g / (|g| + epsilon), of full rank."""
        import torch

        cells, tasks, examples = x.shape[:3]
        path = self._path(stack, x, targets, masks, 1)
        total = path.total.view(cells, tasks, examples, -1)
        scale = self.settings.inner_learning_rate / tasks
        stack.g1.zero_()
        for piece in self._pieces(stack):
            moved = stack.g1[piece]
            gradient, size = (self.buffers.empty(name, moved, *moved.shape) for name in ("g1", "scratch 1"))
            for task in range(tasks):
                torch.bmm(x[piece, task].transpose(1, 2), total[piece, task], out=gradient)
                moved.addcdiv_(gradient, torch.abs(gradient, out=size).add_(EPSILON), value=scale)
        errors = path.errors[0]
        of_layer = torch.cat([torch.bmm(errors.transpose(1, 2), path.hidden[0]), errors.sum(1).unsqueeze(2)], 2)
        of_layer.div_(of_layer.abs().add_(EPSILON))
        layer = of_layer.view(cells, tasks, stack.classes, -1).sum(1)
        torch.mul(layer.transpose(1, 2), scale, out=stack.g2)
        return losses(path.logs[0], targets.flatten(0, 1)).view(cells, tasks).mean(1)

    def _with_adam(
        self, stack: Stack, x: torch.Tensor, targets: torch.Tensor, masks: torch.Tensor | None
    ) -> torch.Tensor:
        """Go task by task through a few cells at a time: Adam's later steps see updates of full rank."""
        import torch

        tasks, rate = x.shape[1], self.settings.inner_learning_rate
        stack.g1.zero_()
        stack.g2.zero_()
        values = x.new_zeros(len(stack))
        for piece in self._pieces(stack):
            w1, w2 = stack.w1[piece], stack.w2[piece]
            for task in range(tasks):
                mask = None if masks is None else masks[piece, task]
                *moved, value = adam_path(
                    w1, w2, x[piece, task], targets[piece, task], mask, rate, self.settings.inner_steps, self.buffers
                )
                values[piece] += value
                for own, layer in zip((stack.g1, stack.g2), moved, strict=True):
                    own[piece].add_(layer, alpha=rate / tasks)
        return torch.div(values, tasks)

    @staticmethod
    def _pieces(stack: Stack) -> Iterator[slice]:
        """Cut the cells into pieces: a single one on an accelerator, on a CPU pieces that fit its cache."""
        cells = len(stack)
        size = cells if stack.w1.device.type != "cpu" else max(1, PIECE_BYTES // stack.w1[0].nbytes)
        return (slice(start, min(start + size, cells)) for start in range(0, cells, size))

    def adapted_logits(self, stack: Stack, x_s: torch.Tensor, labels_s: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """See :meth:`Learner.adapted_logits`."""
        import torch

        rate, steps = self.settings.inner_learning_rate, self.settings.adaptation_steps
        if self.settings.inner_optimizer == "sgd":
            return adapted(stack, x_s, labels_s, x, rate, steps)
        with torch.inference_mode():
            targets = one_hot(labels_s, stack.classes, x_s)
            moved_1, moved_2, _ = adam_path(stack.w1, stack.w2, x_s, targets, None, rate, steps, Buffers())
            w1, w2 = torch.sub(stack.w1, moved_1, alpha=rate), torch.sub(stack.w2, moved_2, alpha=rate)
            return predict(w1, *per_task(w2, 1, Buffers()), x)

    def bytes_per_cell(self, inputs: int, hidden: int, classes: int, tasks: int, examples: int) -> float:
        """See :meth:`Learner.bytes_per_cell`."""
        steps, adam = self.settings.inner_steps, self.settings.inner_optimizer == "adam"
        bytes_ = bytes_of_weights(inputs, hidden, classes, self.settings.meta_optimizer)
        if adam:
            bytes_ += 4.0 * (2 if steps == 1 else 5) * layers(inputs, hidden, classes)
        if adam and steps > 1:
            return bytes_ + 4.0 * examples * (tasks * (inputs + 1 + classes) + 3 * hidden)
        return bytes_ + tasks * bytes_of_inner(inputs, hidden, classes, examples, 0, steps)
