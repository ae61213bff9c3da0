"""The dense heads of many cells in plain tensor operations: a step costs what its arithmetic costs, not autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_l3d.approaches.stacked.stack import Stack

if TYPE_CHECKING:
    import torch


class HeadNetwork:
    """Dense layer, ReLU, dropout, classification layer; cross-entropy; AdamW.

    Cells never meet in an operation: one that diverges leaves the numbers of the others as they are.

    Parameters
    ----------
    stack
        Weights of the B cells, which the network trains.
    weight_decay
        Decoupled, on every weight.
    """

    def __init__(self, stack: Stack, weight_decay: float) -> None:
        self.stack = stack
        self.weight_decay = weight_decay
        self._inner = stack.w2[:, :-1].transpose(1, 2)
        self._buffers: dict[int, tuple[torch.Tensor, ...]] = {}

    def differentiate(self, x: torch.Tensor, onehot: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Put the gradient of a batch's mean cross-entropy into the stack; return the logits, shape (B, b, C).

        Parameters
        ----------
        x
            Shape (B, b, D + 1): b examples of each cell, the last column 1.
        onehot
            Shape (B, b, C).
        mask
            Shape (B, b, H): the factors of dropout; None: no dropout.
        """
        import torch

        stack, examples = self.stack, x.shape[1]
        if examples not in self._buffers:
            self._buffers[examples] = self._empty(examples)
        rows, hidden, rows_t, active, back = self._buffers[examples]
        torch.bmm(x, stack.w1, out=active)
        active.clamp_min_(0)
        if mask is None:
            hidden.copy_(active)
        else:
            torch.mul(active, mask, out=hidden)
        logits = torch.bmm(rows, stack.w2)
        error = torch.softmax(logits, 2).sub_(onehot).div_(examples)
        torch.bmm(rows_t, error, out=stack.g2)
        torch.bmm(error, self._inner, out=back)
        back.mul_(active.sign_())  # 1 where the unit was active, else 0
        if mask is not None:
            back.mul_(mask)
        torch.bmm(x.transpose(1, 2), back, out=stack.g1)
        return logits

    def update(self, learning_rate: float) -> None:
        """Take one step of AdamW with the gradient of the latest batch."""
        self.stack.descend("adamw", learning_rate, self.weight_decay)

    def _empty(self, examples: int) -> tuple[torch.Tensor, ...]:
        """Return memory for batches of a size: hidden rows with a constant 1, parts of them, activations, errors."""
        w1, units = self.stack.w1, self.stack.w1.shape[2]
        rows = w1.new_ones(len(w1), examples, units + 1)
        active, back = (w1.new_empty(len(w1), examples, units) for _ in range(2))
        return rows, rows[:, :, :-1], rows.transpose(1, 2), active, back


def logits_of(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Return the logits, shape (n, C), of rows (n, D + 1) for the weights of one cell, without dropout.

    One cell at a time: a product of many rows gains nothing from company, and parts may have another size in each cell.
    """
    import torch

    hidden = x.new_ones(len(x), len(w2))
    torch.mm(x, w1, out=hidden[:, :-1])
    return torch.mm(hidden.clamp_min_(0), w2)
