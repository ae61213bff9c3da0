"""Adam on one support set a cell: its updates have full rank, so that they are formed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_l3d.approaches.meta_learning.learners.base import Buffers
from mlflow_l3d.approaches.meta_learning.learners.inner import losses, through
from mlflow_l3d.approaches.stacked.stack import BETA_1, BETA_2, EPSILON

if TYPE_CHECKING:
    import torch


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
        (B,), the mean cross-entropy before the first step; 0 where there is no step.
    """
    import torch

    cells, examples, units = *x.shape[:2], w1.shape[2]
    empty = buffers.empty
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
            value = losses(logs, targets)
        errors = logs.exp_().sub_(targets).div_(examples)
        torch.bmm(errors, layer[:, :-1].transpose(1, 2), out=back)
        through(back, h, mask, back)
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
        import torch

        self.mean.mul_(BETA_1).add_(self.gradient, alpha=1 - BETA_1)
        self.square.mul_(BETA_2).addcmul_(self.gradient, self.gradient, value=1 - BETA_2)
        torch.sqrt(self.square, out=self.scratch).div_((1 - BETA_2 ** (step + 1)) ** 0.5).add_(EPSILON)
        self.moved.addcdiv_(self.mean, self.scratch, value=1 / (1 - BETA_1 ** (step + 1)))
