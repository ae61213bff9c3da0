"""SGD, Adam and AdamW over stacked weights: one call updates a layer of every cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

BETA_1: Final = 0.9
BETA_2: Final = 0.999
EPSILON: Final = 1e-8


@dataclass(frozen=True)
class Moments:
    """What Adam remembers of the gradients of some tensors.

    Attributes
    ----------
    means, squares
        Running means of the gradients and of their squares, shaped as the tensors.
    steps
        Steps taken: a scalar for each tensor, the same for all cells.
    """

    means: list[torch.Tensor]
    squares: list[torch.Tensor]
    steps: list[torch.Tensor]

    @classmethod
    def of(cls, weights: Sequence[torch.Tensor]) -> Moments:
        """Return the state before the first step."""
        import torch

        means, squares = ([torch.zeros_like(tensor) for tensor in weights] for _ in range(2))
        return cls(means, squares, [torch.zeros((), device=tensor.device) for tensor in weights])

    def select(self, cells: torch.Tensor) -> Moments:
        """Return a copy with some cells of the leading dimension."""
        means, squares = ([tensor.index_select(0, cells) for tensor in part] for part in (self.means, self.squares))
        return Moments(means, squares, [step.clone() for step in self.steps])


def adam(
    weights: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    moments: Moments,
    learning_rate: float,
    weight_decay: float | None = None,
) -> None:
    """Take one step of Adam in place (Kingma and Ba 2015, algorithm 1; betas 0.9 and 0.999, epsilon 1e-8).

    With a weight decay it is one of AdamW (Loshchilov and Hutter 2019, algorithm 2).
    """
    from torch.optim.adam import adam as plain
    from torch.optim.adamw import adamw as decoupled

    step: Callable[..., None] = plain if weight_decay is None else decoupled
    step(
        list(weights),
        list(gradients),
        moments.means,
        moments.squares,
        [],
        moments.steps,
        fused=True,
        amsgrad=False,
        beta1=BETA_1,
        beta2=BETA_2,
        lr=learning_rate,
        weight_decay=weight_decay or 0.0,
        eps=EPSILON,
        maximize=False,
    )


def sgd(weights: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], learning_rate: float) -> None:
    """Take one step of gradient descent in place, without momentum."""
    for tensor, gradient in zip(weights, gradients, strict=True):
        tensor.add_(gradient, alpha=-learning_rate)
