"""The dense head in plain tensor operations: a step costs what its arithmetic costs, not what autograd adds to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


class HeadNetwork:
    """Dense layer, ReLU, dropout, classification layer; cross-entropy; AdamW over one flat buffer.

    Biases are rows of the weight matrices, met by a constant 1 at the end of every input row. All buffers are made
    once; slices of them serve every batch.

    Parameters
    ----------
    inputs, hidden, classes
        Sizes D, H, C.
    batch_size
        Most examples a step, B.
    weight_decay
        Decoupled, on every weight.
    dtype, device
        Of every tensor.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        classes: int,
        batch_size: int,
        *,
        weight_decay: float,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        import torch

        where, kind = torch.device(device), dtype or torch.float32

        def filled(value: float, *shape: int) -> torch.Tensor:
            return torch.full(shape, value, device=where, dtype=kind)

        first = (inputs + 1) * hidden
        total = first + (hidden + 1) * classes
        self.weight_decay = weight_decay
        self.weights, self.gradient = filled(0.0, total), filled(0.0, total)
        self._mean, self._square = filled(0.0, total), filled(0.0, total)
        self._steps = torch.zeros((), dtype=torch.float32, device=where)
        self.w1, self.w2 = self.weights[:first].view(-1, hidden), self.weights[first:].view(-1, classes)
        self.g1, self.g2 = self.gradient[:first].view(-1, hidden), self.gradient[first:].view(-1, classes)
        self._inner = self.w2[:hidden].t()
        self._hidden = filled(1.0, batch_size, hidden + 1)
        self._back = filled(0.0, batch_size, hidden)
        self._views: dict[int, tuple[torch.Tensor, ...]] = {}

    def start(self, w1: npt.NDArray[np.float32], w2: npt.NDArray[np.float32]) -> None:
        """Put new weights, shapes (D + 1, H) and (H + 1, C), and forget the optimiser's state."""
        import torch

        self.w1.copy_(torch.from_numpy(w1))
        self.w2.copy_(torch.from_numpy(w2))
        for state in (self._mean, self._square, self._steps):
            state.zero_()

    def differentiate(self, x: torch.Tensor, onehot: torch.Tensor, mask: torch.Tensor, logits: torch.Tensor) -> None:
        """Compute the logits of one batch, and the gradient of its mean cross-entropy.

        Parameters
        ----------
        x
            Shape (b, D + 1), the last column 1; b at most B.
        onehot
            Shape (b, C).
        mask
            Shape (b, H): the factors of dropout.
        logits
            Shape (b, C): overwritten.
        """
        import torch

        b = len(x)
        if b not in self._views:
            rows = self._hidden[:b]
            self._views[b] = rows, rows[:, :-1], rows.t(), self._back[:b]
        rows, hidden, rows_t, back = self._views[b]
        torch.mm(x, self.w1, out=hidden)
        hidden.relu_().mul_(mask)
        torch.mm(rows, self.w2, out=logits)
        error = torch.softmax(logits, 1).sub_(onehot).div_(b)
        torch.mm(rows_t, error, out=self.g2)
        torch.mm(error, self._inner, out=back)
        # The sign of what came out is 1 exactly where the unit was active and not dropped: the slope is then the mask.
        back.mul_(mask).mul_(hidden.sign())
        torch.mm(x.t(), back, out=self.g1)

    def update(self, learning_rate: float) -> None:
        """Take one step of AdamW (Loshchilov and Hutter 2019, algorithm 2; betas 0.9 and 0.999, epsilon 1e-8)."""
        from torch.optim.adamw import adamw

        adamw(
            [self.weights],
            [self.gradient],
            [self._mean],
            [self._square],
            [],
            [self._steps],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=learning_rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits, shape (n, C), of rows (n, D + 1), without dropout."""
        import torch

        hidden = torch.ones(len(x), self._hidden.shape[1], dtype=x.dtype, device=x.device)
        torch.mm(x, self.w1, out=hidden[:, :-1])
        return torch.mm(hidden.relu_(), self.w2)
