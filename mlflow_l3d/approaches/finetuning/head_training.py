"""The networks of the heads of many cells, differentiated in one program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.finetuning.session import RowWeights
from mlflow_l3d.approaches.finetuning.training import Course
from mlflow_l3d.approaches.stacked.stack import FloatArray, Stack


class HeadNetwork(RowWeights):
    """Dense layer, ReLU, dropout, output layer; cross-entropy of classes, or the squared error of scores.

    Cells never meet in an operation: one that diverges leaves the numbers of the others as they are.

    Parameters
    ----------
    stack
        Weights of the B cells.
    scores
        Whether the one output is a score.
    """

    def __init__(self, stack: Stack, *, scores: bool = False) -> None:
        super().__init__((stack.w1, stack.w2))
        self.scores = scores
        self._hold(stack)

    def _hold(self, stack: Stack) -> None:
        self.stack, self.tensors, self._inner = stack, (stack.w1, stack.w2), stack.w2[:, :-1].transpose(1, 2)
        self._buffers: dict[int, tuple[torch.Tensor, ...]] = {}

    def select(self, places: npt.NDArray[np.intp]) -> None:
        """Go on with some of the cells, in their order."""
        super().select(places)
        self._hold(self.stack.select(places))

    def differentiate(self, x: torch.Tensor, wanted: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Put the gradient of a batch's mean loss into the stack; return the logits, shape (B, b, C).

        Parameters
        ----------
        x
            Shape (B, b, D + 1): b examples of each cell, the last column 1.
        wanted
            Shape (B, b, C): one-hot classes, or scores.
        mask
            Shape (B, b, H): the factors of dropout; None: no dropout.
        """
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
        if self.scores:
            # A batched product with one column is rounded in another way for one cell than for several.
            logits = (rows * stack.w2.transpose(1, 2)).sum(2, keepdim=True)
            error = logits.sub(wanted).mul_(2)
        else:
            logits = torch.bmm(rows, stack.w2)
            error = torch.softmax(logits, 2).sub_(wanted)
        error.div_(examples)
        torch.bmm(rows_t, error, out=stack.g2)
        torch.bmm(error, self._inner, out=back)
        back.mul_(active.sign_())  # 1 if the unit was active, else 0
        if mask is not None:
            back.mul_(mask)
        torch.bmm(x.transpose(1, 2), back, out=stack.g1)
        return logits

    def _empty(self, examples: int) -> tuple[torch.Tensor, ...]:
        """Return memory for batches of a size: hidden rows with a constant 1, parts of them, activations, errors."""
        w1, units = self.stack.w1, self.stack.w1.shape[2]
        rows = w1.new_ones(len(w1), examples, units + 1)
        active, back = (w1.new_empty(len(w1), examples, units) for _ in range(2))
        return rows, rows[:, :, :-1], rows.transpose(1, 2), active, back


def logits_of(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Return the logits, shape (n, C), of rows (n, D + 1) for the weights of one cell, without dropout.

    Or those of several cells, if all three have one more dimension in front.
    """
    product = torch.mm if x.dim() == 2 else torch.bmm
    hidden = x.new_ones(*x.shape[:-1], w2.shape[-2])
    product(x, w1, out=hidden[..., :-1])
    return product(hidden.clamp_min_(0), w2)


@dataclass(eq=False)
class Head(Course):
    """One cell, whose seeds of ``data_order`` and ``model_randomness`` are used.

    Attributes
    ----------
    weights
        Initial weights of the two layers, shapes (D + 1, H) and (H + 1, C).
    centre, scale
        Of scores: those of its training labels, which are trained on in this unit; see
        :func:`~mlflow_l3d.approaches.finetuning.kinds.unit_of`.
    """

    weights: tuple[FloatArray, FloatArray]
    centre: float = 0.0
    scale: float = 1.0
